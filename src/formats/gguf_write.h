#pragma once
// A GGUF file (version 3) that is written tensor by tensor, and the encoders of its plain types, those of 32 values and Q4_K to Q6_K.
#include <map>
#include <string>
#include <vector>

#include "formats/gguf.h"
#include "formats/output_file.h"

namespace zt {

// The type of that name ("Q8_0") if gguf_encode writes it. False: it is none.
bool gguf_writable(std::string_view name, GgufType& out);

// Bytes of `count` finite values, a multiple of the block; the codes of 32-value blocks are those of ggml's reference (and of the
// package gguf); those of 256 fit their scales by a shorter search than ggml's.
void gguf_encode(GgufType type, const float* x, int64_t count, void* out);

struct GgufPlanned {
  std::string name;
  GgufType type = GgufType::f32;
  Shape shape;                    // outermost first, at most 4; the innermost a multiple of the block
  int64_t bytes() const { return element_count(shape) / gguf_block_values(type) * gguf_block_bytes(type); }
};

class GgufWriter {
 public:
  // Writes the header. Errors (kind request): unwritable, disk full.
  GgufWriter(const std::string& path, std::vector<GgufPlanned> tensors, const std::map<std::string, std::string>& strings,
             const std::map<std::string, std::vector<int64_t>>& integer_lists = {});
  void write(const void* data, size_t bytes);     // of the tensors in their order; a call does not go beyond one tensor
  void commit();                                  // internal error: not all was written

 private:
  void pad();

  OutputFile file_;
  std::vector<GgufPlanned> tensors_;
  size_t current_ = 0;
  int64_t left_ = 0, at_ = 0;
};

}  // namespace zt

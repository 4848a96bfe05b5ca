#pragma once
// GGUF files, versions 2 and 3: named blocks of quantised rows in a mapped file. Source: the format's description in ggml
// (docs/gguf.md) and the block layouts of ggml-common.h. Everything here is untrusted and checked before a view of it is made.
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "tensor/tensor.h"

namespace zt {

// The numbers are those of the files.
enum class GgufType : uint32_t {
  f32 = 0, f16 = 1, q4_0 = 2, q4_1 = 3, q5_0 = 6, q5_1 = 7, q8_0 = 8,
  q2_k = 10, q3_k = 11, q4_k = 12, q5_k = 13, q6_k = 14, bf16 = 30,
};
std::string_view gguf_type_name(GgufType type);
int64_t gguf_block_values(GgufType type);   // values that share a scale: 1, 32 or 256
int64_t gguf_block_bytes(GgufType type);

// `count` values, a multiple of the block, from their bytes.
void gguf_decode(GgufType type, const void* bytes, int64_t count, float* out);

struct GgufTensor {
  std::string name;
  GgufType type = GgufType::f32;
  Shape shape;                  // outermost first: the file's own order turned round
  const std::byte* data = nullptr;
  int64_t bytes = 0;
};

struct GgufHeader {
  std::vector<GgufTensor> tensors;
  std::map<std::string, std::vector<int64_t>> integer_lists;   // metadata: integers and lists of at most 8 of them
  std::map<std::string, std::string> strings;
};

// `bytes` is the whole file, `origin` its name in messages; the views point into `bytes`. Errors (kind model, naming file, tensor,
// found and wanted): another format, another byte order or version, counts and lengths beyond the file, a name twice, a type that is
// not in GgufType, rows that are no whole blocks, tensors that overlap or end after the file.
GgufHeader parse_gguf(std::span<const std::byte> bytes, const std::string& origin);

// One file, mapped for the life of the object.
class GgufFile {
 public:
  explicit GgufFile(const std::string& path)
      : file_(std::make_shared<MappedFile>(path)), header_(parse_gguf(file_->bytes(), path)) {}
  const std::string& path() const { return file_->path(); }
  const GgufHeader& header() const { return header_; }
  const MappedFile& mapped() const { return *file_; }

 private:
  std::shared_ptr<MappedFile> file_;
  GgufHeader header_;
};

}  // namespace zt

#pragma once
// One component of a model written anew in a smaller type, and what that costs in exactness, tensor by tensor.
#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "tensor/tensor.h"

namespace zt {

struct QuantizedTensor {
  std::string name;
  Shape shape;
  std::string source, type;        // dtype of safetensors or a type of GGUF
  std::string kept;                // why it has its source's type; "" if it was quantised
  double relative_l2 = 0, max_abs = 0;   // of what is read back against the source
  int64_t bytes = 0;
};

struct QuantizeReport {
  std::string component, file;     // name in the component's folder
  std::vector<QuantizedTensor> tensors;
  int64_t bytes_before = 0, bytes = 0;
  int64_t left_out = 0;            // tensors that no clip reads
};

// The types by name: those of gguf_writable, and "fp8" (safetensors of the graph editors, float8_e4m3fn with a scale a tensor).
std::vector<std::string> quantize_types();
inline const std::vector<std::string> kQuantizable = {"transformer", "transformer_ref", "text_encoder"};

// Reads MODEL/`component` (one of kQuantizable) and writes a file into the folder `out`. Matrices that the plan multiplies in its own
// type get `type`; biases, norms, tables, embedders and heads, and matrices that are no whole blocks keep theirs. Rows that are no whole
// blocks are folded, as ComfyUI-GGUF does. Of transformers the names are those of the graph editors. At any time a part of one tensor is
// in memory. `done` sees each tensor as it is written. Errors (kind model): as Weights; a value that is NaN or infinite. (request): a value
// that the type cannot hold; unwritable. Cancelled once `cancel` is set.
QuantizeReport quantize_component(const std::string& model, const std::string& component, const std::string& type, const std::string& out,
                                  const std::atomic<bool>& cancel, const std::function<void(const QuantizedTensor&)>& done);

}  // namespace zt

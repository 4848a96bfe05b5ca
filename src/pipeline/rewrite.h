#pragma once
// What quantize and convert share: the tensors of a component in the spelling of a file to be written, read a part at a time.
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "nn/spelling.h"

namespace zt {

constexpr const char* kSingleFilePrefix = "model.diffusion_model.";   // tells a single file from released shards whatever lies beside it

struct RewriteSource {
  WeightFiles files;
  TensorSpecs specs;
  std::vector<SpelledTensor> tensors;      // without those that are never read
  int64_t left_out = 0;                    // of these
};

// MODEL/`component`, a transformer or the text encoder (always in its own spelling). A unique_ptr: the tensors point into the files.
// Errors (kind model): as Weights.
std::unique_ptr<RewriteSource> open_rewrite(const std::string& model, const std::string& component, Spelling spelling);

// f(values) over the rows of the tensor in order. Errors (kind model): a value that is NaN or infinite. Cancelled.
void for_each_part(const SpelledTensor& t, const std::atomic<bool>& cancel, const std::function<void(const std::vector<float>&)>& f);

}  // namespace zt

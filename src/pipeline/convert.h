#pragma once
// A transformer written in another spelling: the same values under other names, in other files.
#include <atomic>
#include <string>
#include <vector>

#include "tensor/dtype.h"

namespace zt {

enum class Layout { diffusers, original, single };
inline const std::vector<std::string> kLayouts = {"diffusers", "original", "single"};

struct ConvertReport {
  std::string component, file;
  int64_t tensors = 0, bytes = 0;
  int64_t widened = 0;             // tensors that were quantised and are F32 now
};

// MODEL/`component` (transformer, transformer_ref) into the folder `out`, which may hold the component's other files: weights and config.json.
// Tensors keep their type (F32, BF16, F16; others become F32) unless `type` is "F32" or "BF16". Errors (kind model): as Weights, a value that
// is NaN or infinite. (request): what the layout cannot say; unwritable. Cancelled once `cancel` is set.
ConvertReport convert_component(const std::string& model, const std::string& component, Layout layout, const std::string& type, const std::string& out,
                                const std::atomic<bool>& cancel);

}  // namespace zt

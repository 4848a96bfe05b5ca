#pragma once
// What a model's forward pass is given: where to compute, and who looks on.
#include <functional>
#include <string_view>

#include "kernels/exec.h"
#include "tensor/tensor.h"

namespace zt {

// Receives named intermediate tensors. Empty in ordinary runs; `--trace` and tests set it.
using Tap = std::function<void(std::string_view name, const View& value)>;

struct Ctx {
  const Exec& exec;
  Tap tap;
  Arena& arena() const { return exec.scratch; }
  // A [rows, cols] matrix in scratch memory, freed with the caller's Arena::Scope. Contents are undefined.
  Mat mat(int64_t rows, int64_t cols) const { return {exec.scratch.take<float>(rows * cols), rows, cols, cols}; }
};

}  // namespace zt

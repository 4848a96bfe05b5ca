#pragma once
// Weight normalisation folded at load: weight = g * v / ||v||, the norm over all dims but the first (which of a transposed
// convolution is its INPUT channel). Source: torch.nn.utils.weight_norm, dim 0.
#include <string>
#include <vector>

#include "nn/conv.h"
#include "nn/weights.h"

namespace zt::h3 {

// prefix.weight_g [d0, 1, 1] and prefix.weight_v [d0, d1, k] -> weight [d0, d1, k].
std::vector<float> folded_weight(const Weights& w, const std::string& prefix);
// The convolution at `prefix`, with prefix.bias where the table has it.
Conv1d load_conv1d(const Weights& w, const Ops& ops, const std::string& prefix, int64_t stride = 1, int64_t dilation = 1);
TransposedConv1d load_transposed_conv1d(const Weights& w, const Ops& ops, const std::string& prefix, int64_t stride);

}  // namespace zt::h3

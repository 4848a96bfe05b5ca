#include "models/minimax_h3/weight_norm.h"

#include <cmath>

namespace zt::h3 {

std::vector<float> folded_weight(const Weights& w, const std::string& prefix) {
  const std::vector<float> g = w.vector(prefix + ".weight_g");
  std::vector<float> v = w.vector(prefix + ".weight_v");
  const size_t row = g.empty() ? 0 : v.size() / g.size();
  for (size_t i = 0; i < g.size(); ++i) {
    double sum = 0;
    for (size_t k = 0; k < row; ++k) sum += static_cast<double>(v[i * row + k]) * v[i * row + k];
    const float scale = sum > 0 ? g[i] / static_cast<float>(std::sqrt(sum)) : 0.0f;
    for (size_t k = 0; k < row; ++k) v[i * row + k] *= scale;
  }
  return v;
}

Conv1d load_conv1d(const Weights& w, const Ops& ops, const std::string& prefix, int64_t stride, int64_t dilation) {
  const Shape s = w.view(prefix + ".weight_v").shape;
  std::vector<float> bias;
  if (w.has(prefix + ".bias")) bias = w.vector(prefix + ".bias");
  return make_conv1d(ops, folded_weight(w, prefix), std::move(bias), s[0], s[1], s[2], stride, dilation);
}

TransposedConv1d load_transposed_conv1d(const Weights& w, const Ops& ops, const std::string& prefix, int64_t stride) {
  const Shape s = w.view(prefix + ".weight_v").shape;
  return make_transposed_conv1d(ops, folded_weight(w, prefix), w.vector(prefix + ".bias"), s[0], s[1], s[2], stride);
}

}  // namespace zt::h3

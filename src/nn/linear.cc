#include "nn/linear.h"

namespace zt {

namespace {

void run(const Ctx& ctx, ConstMat x, const Linear& l, GemmOutput out) {
  out.bias = l.bias.empty() ? nullptr : l.bias.data();
  gemm(ctx.exec, {.data = x.data, .rows = x.rows, .row_stride = x.stride, .offsets = {}, .segment = l.in()}, l.weight, out);
}

}  // namespace

Linear load_linear(const Weights& w, const Ops& ops, const std::string& prefix, Compute compute) {
  Linear l;
  l.weight = w.pack(ops, prefix + ".weight", compute);
  if (w.has(prefix + ".bias")) l.bias = w.vector(prefix + ".bias");
  return l;
}

Linear load_stacked(const Weights& w, const Ops& ops, const std::vector<std::string>& prefixes, Compute compute) {
  Linear l;
  std::vector<View> views;
  for (const auto& p : prefixes) {
    views.push_back(w.view(p + ".weight"));
    if (w.has(p + ".bias")) {
      auto b = w.vector(p + ".bias");
      l.bias.insert(l.bias.end(), b.begin(), b.end());
    }
  }
  l.weight = pack_weight(ops, views, 1, compute);
  for (const auto& p : prefixes) w.release_pages(p + ".weight");
  return l;
}

void linear(const Ctx& ctx, ConstMat x, const Linear& l, Mat y, Activation activation) {
  GemmOutput out{.data = y.data, .row_stride = y.stride};
  out.activation = activation;
  run(ctx, x, l, out);
}

void linear_add(const Ctx& ctx, ConstMat x, const Linear& l, Mat y) {
  GemmOutput out{.data = y.data, .row_stride = y.stride};
  out.add = true;
  run(ctx, x, l, out);
}

void linear_gated(const Ctx& ctx, ConstMat x, const Linear& l, Mat y, const float* gate, int64_t gate_stride, const int32_t* gate_row) {
  GemmOutput out{.data = y.data, .row_stride = y.stride};
  out.gate = gate;
  out.gate_stride = gate_stride;
  out.gate_row = gate_row;
  run(ctx, x, l, out);
}

}  // namespace zt

#include "nn/linear.h"

namespace zt {

namespace {

const float* bias_of(const Linear& l) { return l.bias.empty() ? nullptr : l.bias.data(); }

GemmInput input_of(const ConstActivations& x, const Linear& l) {
  return {.data = x.data, .rows = x.rows, .row_stride = x.stride, .offsets = {}, .segment = l.in(), .tiles = x.tiles};
}

void run(const Ctx& ctx, const ConstActivations& x, const Linear& l, GemmOutput out) {
  out.bias = bias_of(l);
  gemm(ctx.exec, input_of(x, l), l.weight, out);
}

std::vector<RowSource> stacked(const Weights& w, const std::vector<std::string>& prefixes, std::vector<float>& bias) {
  std::vector<RowSource> out;
  for (const auto& p : prefixes) {
    out.push_back(w.source(p + ".weight"));
    if (w.has(p + ".bias")) {
      auto b = w.vector(p + ".bias");
      bias.insert(bias.end(), b.begin(), b.end());
    }
  }
  return out;
}

}  // namespace

Linear load_linear(const Weights& w, const Ops& ops, const std::string& prefix, Compute compute, PackInto into) {
  Linear l;
  l.weight = w.pack(ops, prefix + ".weight", compute, std::move(into));
  if (w.has(prefix + ".bias")) l.bias = w.vector(prefix + ".bias");
  return l;
}

Linear load_stacked(const Weights& w, const Ops& ops, const std::vector<std::string>& prefixes, Compute compute, PackInto into) {
  Linear l;
  l.weight = pack_weight(ops, stacked(w, prefixes, l.bias), 1, compute, std::move(into));
  for (const auto& p : prefixes) w.release_pages(p + ".weight");
  return l;
}

Linear load_gated(const Weights& w, const Ops& ops, const std::vector<std::string>& prefixes, bool value_first, Compute compute,
                  PackInto into) {
  Linear l;
  l.weight = pack_gated_weight(ops, stacked(w, prefixes, l.bias), value_first, compute, std::move(into));
  for (const auto& p : prefixes) w.release_pages(p + ".weight");
  return l;
}

Activations activations_for(const Ctx& ctx, const Linear& next, int64_t rows) {
  if (next.weight.parts != 1 || next.in() % kTileCols != 0) return ctx.mat(rows, next.in());
  return {ctx.arena().take<uint16_t>(tile_values(rows, next.in())), rows, next.in()};
}

void linear(const Ctx& ctx, const ConstActivations& x, const Linear& l, Mat y, Activation activation) {
  GemmOutput out{.data = y.data, .row_stride = y.stride};
  out.activation = activation;
  run(ctx, x, l, out);
}

void linear_swiglu(const Ctx& ctx, const ConstActivations& x, const Linear& l, const Activations& y) {
  gemm_swiglu(ctx.exec, input_of(x, l), l.weight, bias_of(l), y);
}

void linear_add(const Ctx& ctx, const ConstActivations& x, const Linear& l, Mat y) {
  GemmOutput out{.data = y.data, .row_stride = y.stride};
  out.add = true;
  run(ctx, x, l, out);
}

void linear_gated(const Ctx& ctx, const ConstActivations& x, const Linear& l, Mat y, const float* gate, int64_t gate_stride,
                  const int32_t* gate_row) {
  GemmOutput out{.data = y.data, .row_stride = y.stride};
  out.gate = gate;
  out.gate_stride = gate_stride;
  out.gate_row = gate_row;
  run(ctx, x, l, out);
}

}  // namespace zt

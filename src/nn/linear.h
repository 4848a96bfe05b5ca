#pragma once
// Linear layers: y = x W^T + b with prepacked weights.
#include "nn/ctx.h"
#include "nn/weights.h"

namespace zt {

struct Linear {
  PackedWeight weight;
  std::vector<float> bias;   // [out] or empty
  int64_t in() const { return weight.k(); }
  int64_t out() const { return weight.n; }
};

// prefix.weight [out, in] and, where the table has it, prefix.bias [out].
// `into`: as pack_weight; may take the place of an earlier layer.
Linear load_linear(const Weights& w, const Ops& ops, const std::string& prefix, Compute compute, PackInto into = {});
// Several layers of one input stacked along `out` (q, k, v as one product).
Linear load_stacked(const Weights& w, const Ops& ops, const std::vector<std::string>& prefixes, Compute compute, PackInto into = {});

// The first layer of a gated feed-forward, prefix.weight [2 F, in]; value_first: the first F rows are values, the others gates.
Linear load_gated(const Weights& w, const Ops& ops, const std::vector<std::string>& prefixes, bool value_first, Compute compute,
                  PackInto into = {});

// Scratch for what `next` will read, [rows, next.in()], in the form that it multiplies: its producer writes it so.
Activations activations_for(const Ctx& ctx, const Linear& next, int64_t rows);

// x [M, in] -> y [M, out].
void linear(const Ctx& ctx, const ConstActivations& x, const Linear& l, Mat y, Activation activation = Activation::none);
// x [M, in] -> y [M, F] = value * silu(gate) of a layer from load_gated.
void linear_swiglu(const Ctx& ctx, const ConstActivations& x, const Linear& l, const Activations& y);
// y += linear(x), or with a gate y += gate[gate_row[m]] * linear(x).
void linear_add(const Ctx& ctx, const ConstActivations& x, const Linear& l, Mat y);
void linear_gated(const Ctx& ctx, const ConstActivations& x, const Linear& l, Mat y, const float* gate, int64_t gate_stride,
                  const int32_t* gate_row);

}  // namespace zt

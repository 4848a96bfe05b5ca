#pragma once
// Matrix products with prepacked weights: C[M, N] = A[M, K] * W[N, K]^T with a fused end. One routine serves linear layers,
// one-, two- and three-dimensional convolutions and transposed convolutions over channels-last data, because row m of A may be
// a concatenation of runs that lie apart (the taps of a convolution).
// Every output element is summed in one fixed order, whatever the number of threads.
#include <cstdint>
#include <functional>
#include <span>

#include "kernels/activations.h"
#include "kernels/compute.h"
#include "kernels/exec.h"
#include "tensor/tensor.h"

namespace zt {

// Row m of A is the concatenation over s of the `segment` floats at data + m * row_stride + offsets[s]; K = offsets.size() * segment.
// All addresses a row can reach must be readable.
struct GemmInput {
  const float* data = nullptr;
  int64_t rows = 0;
  int64_t row_stride = 0;
  std::span<const int64_t> offsets;   // empty: one run at offset 0
  int64_t segment = 0;
  const uint16_t* tiles = nullptr;    // instead of data: bf16 tiles of Activations, one run of K; for weights with parts == 1 only
};

// W[N, K] in the layout that one ops table wants. A table without bf16 units keeps the weights (rounded where `compute` says so) in
// float32 and multiplies activations as they are, so the result only gets better.
struct PackedWeight {
  Compute compute = Compute::f32;
  int parts = 0;                              // bf16 parts that an activation is split into; 0: float32 panels
  int64_t n = 0, segments = 1, segment = 0;   // K = segments * segment
  Buffer data;
  const Ops* ops = nullptr;                   // the table it was packed for: gemm() refuses another
  // Rows lie in pairs of 16 values and their 16 gates, for gemm_swiglu; value_first: values were the first half of the rows.
  bool paired = false, value_first = false;
  int code_bits = 0;                          // 4, 6 or 8: `data` is coded (kernels/coded.h)
  std::vector<uint16_t> code_table = {};
  int64_t k() const { return segments * segment; }
};

// A matrix whose rows are made as they are packed, so that it never stands whole in float32.
struct RowSource {
  int64_t rows = 0, columns = 0;
  std::function<void(int64_t first, int64_t n, float* out)> read;   // from several threads at once
  bool bf16 = false;                                                // every value is one; false: look at them
};
RowSource row_source(const View& w);   // float32, bf16 or f16, row-major

// What a packing may use: memory of an earlier weight of the same layout, and threads (null: the caller's alone).
struct PackInto {
  PackedWeight old = {};
  Threads* threads = nullptr;
};

// `w` is W[N, segments * segment].
PackedWeight pack_weight(const Ops& ops, const View& w, int64_t segments, Compute compute);
// The same from several matrices stacked along N (q, k and v as one product).
PackedWeight pack_weight(const Ops& ops, std::span<const RowSource> stacked, int64_t segments, Compute compute, PackInto into = {});

// The first layer of a gated feed-forward: W[2 F, K], whose result gemm_swiglu folds. Paired where the table has tile units and 16 divides F.
PackedWeight pack_gated_weight(const Ops& ops, std::span<const RowSource> stacked, bool value_first, Compute compute, PackInto into = {});

enum class Activation { none, silu, gelu_tanh, gelu_erf };

// value = activation(acc + bias); then, with a gate, C += gate[gate_row[m]][n] * value; else C (+)= value.
struct GemmOutput {
  float* data = nullptr;
  int64_t row_stride = 0;
  const float* bias = nullptr;         // [N] or null
  Activation activation = Activation::none;
  bool add = false;                    // C += instead of C =
  const float* gate = nullptr;         // rows of [N] floats, gate_stride apart
  int64_t gate_stride = 0;
  const int32_t* gate_row = nullptr;   // [M] row of the gate for each m; null: row 0 for all
};

void gemm(const Exec& exec, const GemmInput& a, const PackedWeight& w, const GemmOutput& c);

// y [M, F] = swiglu(A * W^T + bias) for weights of pack_gated_weight; bias [2 F] or null, in the order of the rows that were packed.
// Equal to gemm followed by swiglu (kernels/elementwise.h), which is what it does for weights that are not paired.
void gemm_swiglu(const Exec& exec, const GemmInput& a, const PackedWeight& w, const float* bias, const Activations& y);

}  // namespace zt

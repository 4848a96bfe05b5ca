// Kernels alone, at the shapes of the models: products, attention, convolutions of sound, the anti-aliased snake, row operations.
// ZT_ISA and ZT_THREADS choose the table and the threads. The rate is in GFLOP/s (for maps: 1e9 elements a second).
#include <benchmark/benchmark.h>

#include <cmath>
#include <string>
#include <vector>

#include "base/threads.h"
#include "kernels/attention.h"
#include "kernels/elementwise.h"
#include "kernels/gemm.h"

namespace zt {
namespace {

struct Machine {
  Threads threads{default_thread_count()};
  Arena scratch;
  Exec exec() { return {threads, select_ops(), scratch}; }
};

Machine& machine() {
  static Machine m;
  return m;
}

std::vector<float> values(int64_t n, uint32_t seed = 1) {
  std::vector<float> v(static_cast<size_t>(n));
  for (float& x : v) seed = seed * 1664525u + 1013904223u, x = static_cast<float>(static_cast<int32_t>(seed)) * 0x1p-31f;
  return v;
}

void rate(benchmark::State& state, double work) {
  state.counters["rate"] = benchmark::Counter(work * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}

void product(benchmark::State& state, int64_t M, int64_t N, int64_t K, Compute compute) {
  const Exec exec = machine().exec();
  const auto a = values(M * K);
  auto w = values(N * K, 2);
  for (float& x : w) x = compute == Compute::f32 ? x : to_float(to_bf16(x));   // bf16x3 wants weights that bf16 can hold
  const Tensor c({M, N});   // 64-byte aligned, as the buffers of the models are
  const PackedWeight packed = pack_weight(exec.ops, View{w.data(), DType::f32, {N, K}}, 1, compute);
  for (auto _ : state) gemm(exec, {a.data(), M, K, {}, K}, packed, {.data = c.data(), .row_stride = N});
  rate(state, 2.0 * static_cast<double>(M * N * K));
}

// A convolution over time, channels last, `taps` wide with `dilation`.
void conv1d(benchmark::State& state, int64_t T, int64_t C, int64_t taps, int64_t dilation) {
  const Exec exec = machine().exec();
  const auto x = values((T + (taps - 1) * dilation) * C), w = values(C * C * taps, 2), bias = values(C);
  std::vector<float> y(static_cast<size_t>(T * C));
  std::vector<int64_t> offsets;
  for (int64_t k = 0; k < taps; ++k) offsets.push_back(k * dilation * C);
  const PackedWeight packed = pack_weight(exec.ops, View{w.data(), DType::f32, {C, taps * C}}, taps, Compute::f32);
  for (auto _ : state) gemm(exec, {x.data(), T, C, offsets, C}, packed, {.data = y.data(), .row_stride = C, .bias = bias.data()});
  rate(state, 2.0 * static_cast<double>(T * C * C * taps));
}

void self_attention(benchmark::State& state, int64_t S, int heads, int kv_heads, int d, Compute compute) {
  const Exec exec = machine().exec();
  const auto q = values(S * heads * d), k = values(S * kv_heads * d, 2), v = values(S * kv_heads * d, 3);
  std::vector<float> o(q.size());
  AttentionArgs a;
  a.q = q.data(), a.k = k.data(), a.v = v.data(), a.o = o.data();
  a.q_rows = a.kv_rows = S, a.q_stride = a.o_stride = int64_t{heads} * d, a.k_stride = a.v_stride = int64_t{kv_heads} * d;
  a.heads = heads, a.kv_heads = kv_heads, a.head_dim = d, a.scale = 1 / std::sqrt(static_cast<float>(d)), a.compute = compute;
  for (auto _ : state) attention(exec, a);
  rate(state, 4.0 * static_cast<double>(S * S * heads * d));
}

void aa_snake(benchmark::State& state, int64_t T, int64_t C) {
  const Exec exec = machine().exec();
  const auto x = values(T * C), alpha = values(C), filter = values(12);
  std::vector<float> beta(static_cast<size_t>(C), 1.5f), y(x.size());
  for (auto _ : state) {
    snake_anti_aliased(exec, {x.data(), T, C, C}, alpha.data(), beta.data(), filter.data(), filter.data(), {y.data(), T, C, C});
  }
  rate(state, static_cast<double>(T * C));
}

// f(exec, x, y) on [rows, cols].
template <class F>
void rows_of(benchmark::State& state, int64_t rows, int64_t cols, F f) {
  const Exec exec = machine().exec();
  auto x = values(rows * cols);
  std::vector<float> y(x.size());
  for (auto _ : state) f(exec, ConstMat{x.data(), rows, cols, cols}, Mat{y.data(), rows, cols, cols});
  rate(state, static_cast<double>(rows * cols));
}

template <class F, class... Args>
void add(const std::string& name, F f, Args... args) {
  benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& s) { f(s, args...); })->UseRealTime()->Unit(benchmark::kMicrosecond);
}

std::string dims(std::initializer_list<int64_t> sizes) {
  std::string s;
  for (int64_t n : sizes) s += (s.empty() ? "" : "x") + std::to_string(n);
  return s;
}

void register_all() {
  constexpr int64_t products[][3] = {{4096, 4096, 4096}, {1500, 1024, 1024}, {1500, 3840, 1024}, {1500, 5632, 1024}, {1500, 1024, 2816},
                                     {700, 1024, 1024},  {128, 1024, 1024},  {1958, 768, 256},   {1958, 1536, 256},  {1958, 256, 768},
                                     {1, 6144, 1024},    {4, 1536, 256}};
  for (Compute compute : {Compute::f32, Compute::bf16, Compute::bf16x2, Compute::bf16x3, Compute::mxfp8, Compute::mxfp6, Compute::mxfp4, Compute::mxint8}) {
    const std::string type(compute_name(compute));
    for (auto [M, N, K] : products) add("gemm/" + type + "/" + dims({M, N, K}), product, M, N, K, compute);
    if (compute != Compute::f32 && compute != Compute::bf16) continue;
    add("attention/" + type + "/1958x10x128", self_attention, int64_t{1958}, 10, 10, 128, compute);
    add("attention/" + type + "/1312x4x64", self_attention, int64_t{1312}, 4, 4, 64, compute);
    add("attention/" + type + "/1958x4x64", self_attention, int64_t{1958}, 4, 4, 64, compute);
  }
  constexpr int64_t sounds[][2] = {{5000, 512}, {20000, 128}, {41000, 64}, {82000, 32}, {82000, 16}, {165000, 12}, {165000, 8}};
  for (auto [T, C] : sounds) {
    add("conv1d/f32/" + dims({T, C, 3, 1}), conv1d, T, C, int64_t{3}, int64_t{1});
    add("conv1d/f32/" + dims({T, C, 11, 5}), conv1d, T, C, int64_t{11}, int64_t{5});
    add("snake_aa/f32/" + dims({T, C}), aa_snake, T, C);
  }
  add("rms_norm/f32/1958x1024", rows_of<void (*)(const Exec&, ConstMat, Mat)>, int64_t{1958}, int64_t{1024},
      [](const Exec& e, ConstMat x, Mat y) { rms_norm(e, x, nullptr, 1e-6f, y); });
  add("silu/f32/1958x1024", rows_of<void (*)(const Exec&, ConstMat, Mat)>, int64_t{1958}, int64_t{1024},
      [](const Exec& e, ConstMat x, Mat y) { silu(e, x, y); });
  add("gelu_erf/f32/1958x1024", rows_of<void (*)(const Exec&, ConstMat, Mat)>, int64_t{1958}, int64_t{1024},
      [](const Exec& e, ConstMat x, Mat y) { gelu_erf(e, x, y); });
  add("group_norm_silu/f32/65536x128", rows_of<void (*)(const Exec&, ConstMat, Mat)>, int64_t{65536}, int64_t{128},
      [](const Exec& e, ConstMat x, Mat y) { group_norm(e, x, 32, nullptr, nullptr, 1e-6f, true, y); });
}

}  // namespace
}  // namespace zt

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::AddCustomContext("isa", zt::ops_name(zt::select_ops()));
  benchmark::AddCustomContext("commit", ZT_COMMIT);
  zt::register_all();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

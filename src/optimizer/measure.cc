// Short measurements of this machine's kernels at the shapes that a model and a clip ask for.
#include <algorithm>
#include <chrono>

#include "base/rng.h"
#include "kernels/attention.h"
#include "kernels/elementwise.h"
#include "nn/conv.h"
#include "optimizer/hardware.h"
#include "pipeline/inspect.h"

namespace zt {

namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// The least of many short runs after a first that touches the memory: other work on the machine interrupts some, not all.
template <class F>
double seconds(F&& f) {
  f();
  double best = 1e30;
  const double start = now();
  for (int i = 0; i < 5 || (i < 50 && now() - start < 0.1); ++i) {
    const double t = now();
    f();
    best = std::min(best, now() - t);
  }
  return best;
}

Tensor noise(Shape shape, float scale = 1) {
  Tensor t(std::move(shape));
  TorchGenerator(3).randn({t.data(), static_cast<size_t>(t.count())});
  for (int64_t i = 0; i < t.count(); ++i) t.data()[i] *= scale;
  return t;
}

// Weights as released: exactly bf16, which some kinds of products build on.
Tensor weights(Shape shape) {
  Tensor t = noise(std::move(shape), 0.05f);
  for (int64_t i = 0; i < t.count(); ++i) t.data()[i] = to_float(to_bf16(t.data()[i]));
  return t;
}

constexpr int64_t kMostDim = 4096, kMostRows = 2048, kMostHeads = 4;
constexpr double kMostFlop = 1e9;   // of one measured product

struct Bench {
  const Exec& exec;
  Ctx ctx{exec, {}};

  // TFLOP/s over several products [rows, k] x [n, k].
  double gemm(int64_t rows, std::initializer_list<std::pair<int64_t, int64_t>> shapes, Compute compute) const {
    double flop = 0, time = 0;
    for (auto [n, k] : shapes) {
      n = std::min(n, kMostDim), k = std::min(k, kMostDim);
      const int64_t m = std::clamp<int64_t>(static_cast<int64_t>(kMostFlop / (2.0 * static_cast<double>(n * k))), 1, std::min(rows, kMostRows));
      const Tensor x = noise({m, k}), w = weights({n, k});
      Tensor y({m, n});
      const Linear l{pack_weight(exec.ops, w.view(), 1, compute), {}};
      time += seconds([&] { linear(ctx, x.mat(), l, y.mat()); });
      flop += 2.0 * static_cast<double>(m * n * k);
    }
    return flop / time / 1e12;
  }

  double attend(int64_t rows, int64_t heads, int64_t head_dim, Compute compute) const {
    rows = std::min(rows, kMostRows), heads = std::min(heads, kMostHeads);
    const Tensor qkv = noise({rows, 3 * heads * head_dim});
    Tensor o({rows, heads * head_dim});
    AttentionArgs a;
    a.q = qkv.data(), a.k = a.q + heads * head_dim, a.v = a.k + heads * head_dim, a.o = o.data();
    a.q_rows = a.kv_rows = rows, a.q_stride = a.k_stride = a.v_stride = 3 * heads * head_dim, a.o_stride = heads * head_dim;
    a.heads = a.kv_heads = static_cast<int>(heads), a.head_dim = static_cast<int>(head_dim), a.scale = 0.1f, a.compute = compute;
    return 4.0 * static_cast<double>(rows * rows * heads * head_dim) / seconds([&] { attention(exec, a); }) / 1e12;
  }

  // Bytes per second of the passes around the products: each value that is read or written counts once.
  double elements(int64_t rows, int64_t hidden, int64_t heads, int64_t head_dim, int64_t ffn) const {
    rows = std::min(rows, kMostRows);
    const Tensor x = noise({rows, hidden}), ff = noise({rows, 2 * ffn}), table = noise({2, hidden});
    Tensor qkv = noise({rows, heads * head_dim}), y(x.shape()), g({rows, ffn});
    const std::vector<int32_t> row(static_cast<size_t>(rows), 0);
    const std::vector<float> weight(static_cast<size_t>(std::max(hidden, head_dim)), 1.0f);
    const double t = seconds([&] {
      rms_norm_modulate(exec, x.mat(), weight.data(), 1e-5f, table.data(), table.data() + hidden, hidden, row.data(), y.mat());
      head_norm_rope(exec, qkv.data(), rows, heads * head_dim, static_cast<int>(heads), static_cast<int>(head_dim), 1e-5f, weight.data(), nullptr, nullptr, 0);
      swiglu(exec, ff.mat(), true, g.mat());
    });
    return 4.0 * static_cast<double>(rows * (2 * hidden + 2 * heads * head_dim + 3 * ffn)) / t;
  }

  // Weighted by the arithmetic of each stage of the decoder: {convolutions, filters} in TFLOP/s.
  std::pair<double, double> sound(const h3::AudioVaeConfig& a) const {
    double conv_flop = 0, conv_time = 0, filter_flop = 0, filter_time = 0, length = 1;
    for (size_t s = 0; s < a.decoder_rates.size(); ++s) {
      length *= static_cast<double>(a.decoder_rates[s]);
      const int64_t c = a.stage_channels(s), rows = std::clamp<int64_t>((1 << 17) / c, 256, 8192), k = a.resblock_kernel_sizes.back();
      const Tensor w = noise({c, c, k}, 0.1f), x = noise({rows + k - 1, c});
      Tensor y({rows, c}), z(x.shape());
      const Conv1d conv = make_conv1d(exec.ops, {w.data(), static_cast<size_t>(w.count())}, {}, c, c, k);
      const double weight = length * static_cast<double>(c);   // values of this stage in the real decoder
      const double flop = 2.0 * static_cast<double>(rows * k * c * c);
      conv_time += seconds([&] { conv1d(ctx, x.mat(), conv, y.mat()); }) / flop * weight * static_cast<double>(c);
      conv_flop += weight * static_cast<double>(c);
      const std::vector<float> ones(static_cast<size_t>(c), 1.0f), taps(h3::kFilterTaps, 0.1f);
      const double values = static_cast<double>(z.count());
      filter_time += seconds([&] { snake_anti_aliased(exec, x.mat(), ones.data(), ones.data(), taps.data(), taps.data(), z.mat()); }) /
                     (values * 8 * h3::kFilterTaps) * weight;
      filter_flop += weight;
    }
    return {conv_flop / conv_time / 1e12, filter_flop / filter_time / 1e12};
  }

  double memory() const {
    const int64_t n = int64_t{16} << 20;   // floats
    std::vector<float> x(static_cast<size_t>(n), 1.0f), sums(static_cast<size_t>(n / 65536));
    const double t = seconds([&] {
      exec.threads.parallel_for(n / 65536, 1, [&](int64_t b, int64_t e, int) {
        for (int64_t i = b; i < e; ++i) {
          float s[32] = {};   // independent sums, so that the loads and not the additions are waited for
          for (int64_t j = 0; j < 65536; j += 32)
            for (int64_t l = 0; l < 32; ++l) s[l] += x[static_cast<size_t>(i * 65536 + j + l)];
          for (float v : s) sums[static_cast<size_t>(i)] += v;
        }
      });
    });
    return 4.0 * static_cast<double>(n) / t;
  }
};

}  // namespace

Hardware measure_hardware(const ModelDims& m, const ClipShape& c, int thread_count, const std::set<Compute>& kinds) {
  Threads threads(thread_count);
  Arena arena;
  const Exec exec{threads, select_ops(), arena};
  const Bench bench{exec};
  Hardware h;
  h.name = fmt::format("this machine ({}, {} threads)", ops_name(exec.ops), thread_count);
  h.source = "measured by zoetrope";
  h.threads = thread_count;
  h.memory_bytes = static_cast<double>(machine_bytes());
  h.memory_bytes_s = bench.memory();
  const h3::DitConfig& d = m.dit;
  h.elements_bytes_s = bench.elements(c.rows(), d.hidden_size, d.num_attention_heads, d.attention_head_dim, d.ffn_dim);
  h.launch_s = 2e-5;          // some ten waits for all threads, 2 us each
  h.encode_pixels_s = 12e6;   // H.264, AAC and the container in process, as timed over clips of 192x128; not a kernel of ours
  const auto [conv, filter] = bench.sound(m.audio);
  const h3::VideoVaeConfig& v = m.video;
  const int64_t tokens = 7 * std::min<int64_t>(c.latent_height, 16) * std::min<int64_t>(c.latent_width, 16) + v.decoder_num_register_tokens + 1;
  for (Compute kind : kinds) {
    Rates r;
    r.conv = conv, r.filter = filter;
    r.weight_bytes = kind == Compute::f32 ? 4 : 2, r.activation_bytes = 4;
    r.gemm = bench.gemm(c.rows(), {{3 * d.inner_dim(), d.hidden_size}, {d.hidden_size, d.inner_dim()}, {2 * d.ffn_dim, d.hidden_size}, {d.hidden_size, d.ffn_dim}}, kind);
    r.attention = bench.attend(c.rows(), d.num_attention_heads, d.attention_head_dim, kind);
    const std::string name(compute_name(kind));
    h.rates[name] = r;
    h.peaks_tflops["gemm " + name] = r.gemm;
    r.gemm = bench.gemm(tokens, {{3 * v.dim(), v.dim()}, {v.dim(), v.dim()}, {2 * v.ffn_dim(), v.dim()}, {v.dim(), v.ffn_dim()}}, kind);
    r.attention = bench.attend(tokens, v.decoder_num_attention_heads, v.decoder_attention_head_dim, kind);
    h.rates["video decode/" + name] = r;
  }
  return h;
}

}  // namespace zt

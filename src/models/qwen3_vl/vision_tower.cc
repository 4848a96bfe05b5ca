#include "models/qwen3_vl/vision_tower.h"

#include <algorithm>
#include <cmath>

#include "kernels/attention.h"
#include "kernels/elementwise.h"

namespace zt::qwen3_vl {

namespace {

constexpr float kNormEps = 1e-6f;
constexpr float kRopeTheta = 10000.0f;

LayerNorm load_norm(const Weights& w, const std::string& name) { return {w.vector(name + ".weight"), w.vector(name + ".bias")}; }

Merger load_merger(const Weights& w, const Ops& ops, const std::string& name, bool after, Compute compute) {
  return {load_norm(w, name + ".norm"), after, load_linear(w, ops, name + ".linear_fc1", compute), load_linear(w, ops, name + ".linear_fc2", compute)};
}

// One row of the batch: where its patch stands in its picture.
struct PatchPlace {
  int64_t row, col;
};

// Patches go through 2x2 merge blocks: block row, block column, row in block, column in block.
std::vector<PatchPlace> merge_order(int64_t grid_h, int64_t grid_w, int64_t merge) {
  std::vector<PatchPlace> out;
  for (int64_t br = 0; br < grid_h / merge; ++br)
    for (int64_t bc = 0; bc < grid_w / merge; ++bc)
      for (int64_t r = 0; r < merge; ++r)
        for (int64_t c = 0; c < merge; ++c) out.push_back({br * merge + r, bc * merge + c});
  return out;
}

// Pixels of one patch, (channel, time, y, x), as value / 127.5 - 1.
void fill_patch(const VisionConfig& c, const VisionInput& in, int64_t unit, PatchPlace at, float* out) {
  for (int64_t ch = 0; ch < c.in_channels; ++ch)
    for (int64_t t = 0; t < c.temporal_patch_size; ++t) {
      size_t f = std::min(in.frames.size() - 1, static_cast<size_t>(unit * c.temporal_patch_size + t));   // the last frame is repeated
      const Picture& p = in.frames[f];
      for (int64_t y = 0; y < c.patch_size; ++y) {
        const uint8_t* src = p.rgb.data() + ((at.row * c.patch_size + y) * p.width + at.col * c.patch_size) * 3 + ch;
        for (int64_t x = 0; x < c.patch_size; ++x) *out++ = (static_cast<float>(src[x * 3]) - 127.5f) / 127.5f;
      }
    }
}

// Two taps of the learned table along one axis (align_corners).
struct Taps {
  int64_t at[2];
  float weight[2];
};

Taps axis_taps(int64_t index, int64_t size, int64_t side) {
  float src = static_cast<float>(index) * static_cast<float>(side - 1) / static_cast<float>(std::max<int64_t>(size - 1, 1));
  float low = std::floor(src);
  Taps t;
  for (int i = 0; i < 2; ++i) {
    t.at[i] = std::clamp<int64_t>(static_cast<int64_t>(low) + i, 0, side - 1);
    t.weight[i] = std::max(0.0f, 1.0f - std::fabs(src - low - static_cast<float>(i)));
  }
  return t;
}

void add_position(const VisionTower& tower, PatchPlace at, int64_t grid_h, int64_t grid_w, float* x) {
  const int64_t side = static_cast<int64_t>(std::sqrt(static_cast<double>(tower.config.num_position_embeddings)));
  const int64_t hidden = tower.config.hidden_size;
  Taps h = axis_taps(at.row, grid_h, side), w = axis_taps(at.col, grid_w, side);
  for (int64_t d = 0; d < hidden; ++d) {
    float sum = 0;
    for (int i = 0; i < 2; ++i)
      for (int j = 0; j < 2; ++j) sum += tower.pos_embed[static_cast<size_t>((h.at[i] * side + w.at[j]) * hidden + d)] * (h.weight[i] * w.weight[j]);
    x[d] += sum;
  }
}

// Axial angles of one patch: row frequencies, then column frequencies.
void fill_rope(PatchPlace at, int64_t half, float* cosine, float* sine) {
  const int64_t n = half / 2;
  for (int64_t j = 0; j < half; ++j) {
    int64_t k = j % n;
    float inv = 1.0f / std::pow(kRopeTheta, static_cast<float>(2 * k) / static_cast<float>(half));
    float angle = static_cast<float>(j < n ? at.row : at.col) * inv;
    cosine[j] = std::cos(angle);
    sine[j] = std::sin(angle);
  }
}

Tensor merge(const Ctx& ctx, const VisionConfig& c, const Merger& m, ConstMat x) {
  const int64_t group = c.spatial_merge_size * c.spatial_merge_size, tokens = x.rows / group;
  Arena::Scope scope(ctx.arena());
  Mat y = ctx.mat(x.rows, x.cols);
  ConstMat grouped{x.data, tokens, x.cols * group, x.cols * group};   // rows are dense, so grouping is a reshape
  Mat y_grouped{y.data, tokens, x.cols * group, x.cols * group};
  if (m.norm_after_grouping)
    layer_norm(ctx.exec, grouped, m.norm.weight.data(), m.norm.bias.data(), kNormEps, y_grouped);
  else
    layer_norm(ctx.exec, x, m.norm.weight.data(), m.norm.bias.data(), kNormEps, y);
  Mat h = ctx.mat(tokens, m.fc1.out());
  linear(ctx, y_grouped, m.fc1, h, Activation::gelu_erf);
  Tensor out({tokens, m.fc2.out()});
  linear(ctx, h, m.fc2, out.mat());
  return out;
}

}  // namespace

VisionTower load_vision_tower(const Weights& w, const Ops& ops, const VisionConfig& config, Compute compute) {
  const std::string root = "model.visual.";
  VisionTower t;
  t.config = config;
  t.patch_embed = load_linear(w, ops, root + "patch_embed.proj", compute);
  t.pos_embed = w.vector(root + "pos_embed.weight");
  for (int64_t i = 0; i < config.depth; ++i) {
    const std::string b = fmt::format("{}blocks.{}.", root, i);
    t.blocks.push_back({load_norm(w, b + "norm1"), load_norm(w, b + "norm2"), load_linear(w, ops, b + "attn.qkv", compute),
                        load_linear(w, ops, b + "attn.proj", compute), load_linear(w, ops, b + "mlp.linear_fc1", compute),
                        load_linear(w, ops, b + "mlp.linear_fc2", compute)});
  }
  t.merger = load_merger(w, ops, root + "merger", false, compute);
  for (size_t i = 0; i < config.deepstack_visual_indexes.size(); ++i)
    t.deepstack.push_back(load_merger(w, ops, fmt::format("{}deepstack_merger_list.{}", root, i), true, compute));
  return t;
}

int64_t temporal_units(const VisionConfig& c, const VisionInput& input) {
  return input.video ? (static_cast<int64_t>(input.frames.size()) + c.temporal_patch_size - 1) / c.temporal_patch_size : 1;
}

VisionFeatures run_vision_tower(const Ctx& ctx, const VisionTower& tower, std::span<const VisionInput* const> inputs) {
  const VisionConfig& c = tower.config;
  const int64_t head_dim = c.hidden_size / c.num_heads, half = head_dim / 2;
  std::vector<int64_t> unit_rows;   // rows of each group that attends to itself
  int64_t rows = 0;
  for (const VisionInput* in : inputs)
    for (int64_t u = 0; u < temporal_units(c, *in); ++u) {
      unit_rows.push_back(static_cast<int64_t>(in->grid_h) * in->grid_w);
      rows += unit_rows.back();
    }
  Arena::Scope scope(ctx.arena());
  Mat patches = ctx.mat(rows, c.patch_values()), x = ctx.mat(rows, c.hidden_size);
  Mat cosine = ctx.mat(rows, half), sine = ctx.mat(rows, half);
  std::vector<std::pair<PatchPlace, const VisionInput*>> places;
  int64_t r = 0;
  for (const VisionInput* in : inputs) {
    auto order = merge_order(in->grid_h, in->grid_w, c.spatial_merge_size);
    for (int64_t u = 0; u < temporal_units(c, *in); ++u)
      for (PatchPlace at : order) {
        fill_patch(c, *in, u, at, patches.row(r));
        fill_rope(at, half, cosine.row(r), sine.row(r));
        places.push_back({at, in});
        ++r;
      }
  }
  linear(ctx, patches, tower.patch_embed, x);
  for (int64_t i = 0; i < rows; ++i) {
    auto [at, in] = places[static_cast<size_t>(i)];
    add_position(tower, at, in->grid_h, in->grid_w, x.row(i));
  }

  VisionFeatures out;
  for (int64_t i = 0; i < c.depth; ++i) {
    ctx.exec.check_cancel();
    const VisionBlock& b = tower.blocks[static_cast<size_t>(i)];
    Arena::Scope block(ctx.arena());
    Mat y = ctx.mat(rows, c.hidden_size), qkv = ctx.mat(rows, 3 * c.hidden_size), h = ctx.mat(rows, c.intermediate_size);
    layer_norm(ctx.exec, x, b.norm1.weight.data(), b.norm1.bias.data(), kNormEps, y);
    linear(ctx, y, b.qkv, qkv);
    for (int64_t part : {int64_t{0}, c.hidden_size})
      head_norm_rope(ctx.exec, qkv.data + part, rows, qkv.stride, static_cast<int>(c.num_heads), static_cast<int>(head_dim), 0, nullptr, cosine.data,
                     sine.data, half);
    int64_t first = 0;
    for (int64_t n : unit_rows) {
      AttentionArgs a;
      const float* base = qkv.row(first);
      a.q = base, a.k = base + c.hidden_size, a.v = base + 2 * c.hidden_size, a.o = y.row(first);
      a.q_rows = a.kv_rows = n;
      a.q_stride = a.k_stride = a.v_stride = qkv.stride, a.o_stride = y.stride;
      a.heads = a.kv_heads = static_cast<int>(c.num_heads), a.head_dim = static_cast<int>(head_dim);
      a.scale = 1.0f / std::sqrt(static_cast<float>(head_dim));
      a.compute = b.qkv.weight.compute;
      attention(ctx.exec, a);
      first += n;
    }
    linear_add(ctx, y, b.proj, x);
    layer_norm(ctx.exec, x, b.norm2.weight.data(), b.norm2.bias.data(), kNormEps, y);
    linear(ctx, y, b.fc1, h, Activation::gelu_tanh);
    linear_add(ctx, h, b.fc2, x);
    auto& deep = c.deepstack_visual_indexes;
    if (auto it = std::find(deep.begin(), deep.end(), i); it != deep.end())
      out.deepstack.push_back(merge(ctx, c, tower.deepstack[static_cast<size_t>(it - deep.begin())], x));
  }
  out.merged = merge(ctx, c, tower.merger, x);
  return out;
}

}  // namespace zt::qwen3_vl

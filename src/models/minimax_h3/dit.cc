#include "models/minimax_h3/dit.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "kernels/attention.h"
#include "kernels/elementwise.h"
#include "nn/group_reader.h"
#include "nn/linear.h"

namespace zt::h3 {

namespace {

constexpr int kModalities = 3;   // rows of the AdaLN table per timestep: video, text, audio
constexpr int kModulations = 6;  // shift, scale, gate of attention, then of the feed-forward

struct Block {
  std::vector<float> norm1, norm2, norm_q, norm_k;
  Linear qkv, out, fc1, fc2;
};

// What one noise level makes of the modulation matrices.
struct Modulations {
  std::vector<float> blocks;   // [num_layers, 18 * hidden]
  std::vector<float> out;      // [2 * hidden]
};
constexpr size_t kMostModulationFloats = size_t{256} << 20;   // 1 GiB: 13 noise levels of the released model are 0.25 GiB

struct DitState final : Denoiser::Prepared {
  PackedLayout layout;
  Tensor text;          // refined text rows [N, hidden]
  Tensor cosine, sine;  // [S, 3 * rope_freq_dim]
};

// In the memory of `old`, a block of the same shapes or none.
Block load_block(const Weights& w, const Ops& ops, const std::string& b, Compute compute, Threads& threads, Block old) {
  auto into = [&](Linear& l) { return PackInto{std::move(l.weight), &threads}; };
  return {w.vector(b + "norm1.weight"),
          w.vector(b + "norm2.weight"),
          w.vector(b + "attn.norm_q.weight"),
          w.vector(b + "attn.norm_k.weight"),
          load_stacked(w, ops, {b + "attn.to_q", b + "attn.to_k", b + "attn.to_v"}, compute, into(old.qkv)),
          load_linear(w, ops, b + "attn.to_out.0", compute, into(old.out)),
          load_gated(w, ops, {b + "ff.net.0.proj"}, true, compute, into(old.fc1)),
          load_linear(w, ops, b + "ff.net.2", compute, into(old.fc2))};
}

std::string block_name(size_t i) { return fmt::format("transformer_blocks.{}.", i); }
constexpr const char* kAdaln = "adaln_proj.linear";

// Rows of x at `index` -> dense y.
void gather_rows(const Ctx& ctx, ConstMat x, std::span<const int32_t> index, Mat y) {
  ctx.exec.threads.parallel_for(y.rows, 64, [&](int64_t i0, int64_t i1, int) {
    for (int64_t i = i0; i < i1; ++i)
      std::memcpy(y.row(i), x.row(index[static_cast<size_t>(i)]), static_cast<size_t>(y.cols) * sizeof(float));
  });
}

void scatter_rows(const Ctx& ctx, ConstMat x, std::span<const int32_t> index, Mat y) {
  ctx.exec.threads.parallel_for(x.rows, 64, [&](int64_t i0, int64_t i1, int) {
    for (int64_t i = i0; i < i1; ++i)
      std::memcpy(y.row(index[static_cast<size_t>(i)]), x.row(i), static_cast<size_t>(x.cols) * sizeof(float));
  });
}

class Dit final : public Denoiser {
 public:
  Dit(const Ops& ops, Threads& threads, const std::string& folder, WeightFiles files, const DitOptions& options);

  int64_t video_row_width() const override { return config_.patch_values(); }
  int64_t audio_row_width() const override { return config_.audio_in_channels; }
  std::unique_ptr<Denoiser::Prepared> prepare(const Ctx& ctx, const PackedLayout& layout, ConstMat prompt_embeds) const override;
  int64_t prepare_timesteps(const Ctx& ctx, std::span<const float> timesteps) override;
  int64_t timestep_bytes() const override;
  void step(const Ctx& ctx, const Denoiser::Prepared& prepared, std::span<const float> timestep, std::span<const int32_t> timestep_indices,
            ConstMat video_rows, ConstMat audio_rows, Mat video_velocity, Mat audio_velocity) const override;

 private:
  // Groups of the reader: block i without its modulation matrix, and that.
  static size_t main_group(size_t i) { return i; }
  size_t adaln_group(size_t i) const { return streamed_.size() + i; }
  size_t block_count() const { return streamed_.size(); }
  size_t next_streamed(size_t i) const;   // the block after i, round the end, that does not stay
  // Block i and its modulation matrix, valid until the next call; where they are streamed, group `next` is read ahead.
  const Block& block(const Ctx& ctx, size_t i, size_t next) const;
  const Linear& adaln(const Ctx& ctx, size_t i, size_t next) const;
  void load_blocks(const Ops& ops, Threads& threads, int64_t resident);

  void attend(const Ctx& ctx, const Block& b, const Activations& y, const DitState* rope, const Activations& o) const;
  Tensor refine(const Ctx& ctx, ConstMat prompt_embeds) const;
  Mat embed_time(const Ctx& ctx, std::span<const float> timestep) const;
  // The kept modulations of these noise levels, or none if one is missing.
  std::vector<const Modulations*> kept(std::span<const float> timestep) const;
  void run_block(const Ctx& ctx, const Block& b, const DitState& p, ConstMat table, const int32_t* adaln_row, bool tap_attention,
                 Mat x) const;
  void head(const Ctx& ctx, ConstMat x, std::span<const int32_t> index, ConstMat table, std::span<const int32_t> timestep_indices,
            const Linear& proj, Mat velocity) const;

  Compute compute_;
  double attention_mass_;
  std::string folder_;
  DitConfig config_;
  std::vector<float> curve_;   // [curve_points, curve_rank] over t = 0 .. 1, silu applied; empty where the time embedder is
  Linear proj_in_, audio_proj_in_, context_embedder_, time_1_, time_2_, norm_out_linear_, proj_out_, audio_proj_out_;
  std::vector<Block> refiner_, blocks_;     // blocks_: those that are streamed are empty
  std::vector<bool> streamed_;              // of each block
  std::vector<Linear> adaln_;               // of each block; empty where blocks are streamed, for only new noise levels need them
  std::unique_ptr<Weights> weights_;        // null where nothing is streamed, like the reader
  std::unique_ptr<GroupReader> reader_;     // after weights_, which its thread reads
  // What was streamed last. One run at a time changes it, although step() is const.
  struct Streamed {
    Block block;
    Linear adaln;
    size_t block_at = GroupReader::kNone, adaln_at = GroupReader::kNone;
  };
  mutable Streamed last_;
  std::vector<float> refiner_norm_, norm_out_;
  std::map<float, Modulations> modulations_;   // by noise level
};

// Unless blocks are streamed, every tensor is packed here: neither the files nor the adapters are read again.
Dit::Dit(const Ops& ops, Threads& threads, const std::string& folder, WeightFiles files, const DitOptions& options) : folder_(folder) {
  compute_ = options.compute, attention_mass_ = options.attention_mass, config_ = read_dit_config(folder, files);
  weights_ = std::make_unique<Weights>(std::move(files), dit_tensor_specs(config_), folder, options.adapters);
  const Weights& w = *weights_;
  const Compute compute = compute_;
  proj_in_ = load_linear(w, ops, "proj_in", compute);
  audio_proj_in_ = load_linear(w, ops, "audio_proj_in", compute);
  context_embedder_ = load_linear(w, ops, "context_embedder", compute);
  if (config_.has_curve()) {
    curve_ = w.vector("adaln_t_table");
  } else {
    time_1_ = load_linear(w, ops, "time_embedder.linear_1", compute);
    time_2_ = load_linear(w, ops, "time_embedder.linear_2", compute);
  }
  for (int64_t i = 0; i < config_.num_refiner_layers; ++i)
    refiner_.push_back(load_block(w, ops, fmt::format("token_refiner.refiner_blocks.{}.", i), compute, threads, {}));
  refiner_norm_ = w.vector("token_refiner.final_norm.weight");
  norm_out_ = w.vector("norm_out.norm.weight");
  norm_out_linear_ = load_linear(w, ops, "norm_out.linear", compute);
  proj_out_ = load_linear(w, ops, "proj_out", compute);
  audio_proj_out_ = load_linear(w, ops, "audio_proj_out", compute);
  w.release_pages();
  load_blocks(ops, threads, options.resident_blocks);
}

void Dit::load_blocks(const Ops& ops, Threads& threads, int64_t resident) {
  // Those that are streamed lie evenly among those that stay, so that the disk has work all the time.
  const auto n = static_cast<size_t>(config_.num_layers);
  const size_t stay = resident < 0 ? n : std::min(n, static_cast<size_t>(resident)), away = n - stay;
  for (size_t i = 0; i < n; ++i) streamed_.push_back((i + 1) * away / n > i * away / n);
  blocks_.resize(n);
  for (size_t i = 0; i < n; ++i) {
    if (!streamed_[i]) blocks_[i] = load_block(*weights_, ops, block_name(i), compute_, threads, {});
    if (!away) adaln_.push_back(load_linear(*weights_, ops, block_name(i) + kAdaln, compute_, {{}, &threads}));
  }
  if (!away) return weights_.reset();
  std::vector<GroupReader::Group> groups(2 * n);
  for (size_t i = 0; i < n; ++i) {
    const std::string b = block_name(i), a = b + kAdaln;
    groups[main_group(i)] = weights_->stored([&](const std::string& name) { return name.starts_with(b) && !name.starts_with(a); });
    groups[adaln_group(i)] = weights_->stored([&](const std::string& name) { return name.starts_with(a); });
  }
  reader_ = std::make_unique<GroupReader>(*weights_, std::move(groups), true);
}

size_t Dit::next_streamed(size_t i) const {
  for (size_t k = 1; k <= block_count(); ++k)
    if (const size_t j = (i + k) % block_count(); streamed_[j]) return main_group(j);
  return GroupReader::kNone;
}

const Block& Dit::block(const Ctx& ctx, size_t i, size_t next) const {
  if (!streamed_[i]) return blocks_[i];
  Streamed& s = last_;
  if (s.block_at != i) {
    s.block_at = GroupReader::kNone;   // until the new one is whole
    weights_->use(&reader_->acquire(main_group(i), next, ctx.exec.cancel));
    s.block = load_block(*weights_, ctx.exec.ops, block_name(i), compute_, ctx.exec.threads, std::move(s.block));
    weights_->use(nullptr);
    s.block_at = i;
  }
  return s.block;
}

const Linear& Dit::adaln(const Ctx& ctx, size_t i, size_t next) const {
  if (!reader_) return adaln_[i];
  Streamed& s = last_;
  if (s.adaln_at != i) {
    s.adaln_at = GroupReader::kNone;
    weights_->use(&reader_->acquire(adaln_group(i), next, ctx.exec.cancel));
    s.adaln = load_linear(*weights_, ctx.exec.ops, block_name(i) + kAdaln, compute_, {std::move(s.adaln.weight), &ctx.exec.threads});
    weights_->use(nullptr);
    s.adaln_at = i;
  }
  return s.adaln;
}

// y [S, hidden] -> o [S, inner]: attention over all rows, before the output projection. `rope` is null in the refiner.
void Dit::attend(const Ctx& ctx, const Block& b, const Activations& y, const DitState* rope, const Activations& o) const {
  const int heads = static_cast<int>(config_.num_attention_heads), d = static_cast<int>(config_.attention_head_dim);
  const int64_t inner = config_.inner_dim();
  Arena::Scope scope(ctx.arena());
  Mat qkv = ctx.mat(y.rows, 3 * inner);
  linear(ctx, y, b.qkv, qkv);
  const float* cosine = rope ? rope->cosine.data() : nullptr;
  const float* sine = rope ? rope->sine.data() : nullptr;
  const int64_t half = rope ? 3 * config_.rope_freq_dim : 0;
  head_norm_rope(ctx.exec, qkv.data, y.rows, qkv.stride, heads, d, config_.qk_norm_eps, b.norm_q.data(), cosine, sine, half);
  head_norm_rope(ctx.exec, qkv.data + inner, y.rows, qkv.stride, heads, d, config_.qk_norm_eps, b.norm_k.data(), cosine, sine, half);
  AttentionArgs a;
  a.q = qkv.data, a.k = qkv.data + inner, a.v = qkv.data + 2 * inner, a.o = o.data, a.o_tiles = o.tiles;
  a.q_rows = a.kv_rows = y.rows;
  a.q_stride = a.k_stride = a.v_stride = qkv.stride, a.o_stride = o.stride;
  a.heads = a.kv_heads = heads, a.head_dim = d;
  a.scale = 1.0f / std::sqrt(static_cast<float>(d));
  a.compute = b.qkv.weight.compute;
  if (rope) a.mass = attention_mass_, a.sink = rope->layout.rows() - static_cast<int64_t>(rope->layout.video_indices.size());
  attention(ctx.exec, a);
}

// Text rows through the refiner: constant over the evaluations of a request.
Tensor Dit::refine(const Ctx& ctx, ConstMat prompt_embeds) const {
  Tensor text({prompt_embeds.rows, config_.hidden_size});
  if (prompt_embeds.rows == 0) return text;
  Mat x = text.mat();
  linear(ctx, prompt_embeds, context_embedder_, x);
  for (const Block& b : refiner_) {
    ctx.exec.check_cancel();
    Arena::Scope scope(ctx.arena());
    const Activations y = activations_for(ctx, b.qkv, x.rows), o = activations_for(ctx, b.out, x.rows);
    const Activations g = activations_for(ctx, b.fc2, x.rows);
    rms_norm(ctx.exec, x, b.norm1.data(), config_.norm_eps, y);
    attend(ctx, b, y, nullptr, o);
    linear_add(ctx, o, b.out, x);
    rms_norm(ctx.exec, x, b.norm2.data(), config_.norm_eps, y);
    linear_swiglu(ctx, y, b.fc1, g);
    linear_add(ctx, g, b.fc2, x);
  }
  rms_norm(ctx.exec, x, refiner_norm_.data(), config_.final_norm_eps, x);
  return text;
}

std::unique_ptr<Denoiser::Prepared> Dit::prepare(const Ctx& ctx, const PackedLayout& layout, ConstMat prompt_embeds) const {
  if (prompt_embeds.cols != config_.text_dim)
    fail(ErrorKind::model, "{}: text_dim is {}, but the text encoder gives {} channels; they do not belong together", folder_,
         config_.text_dim, prompt_embeds.cols);
  auto p = std::make_unique<DitState>();
  p->layout = layout;
  p->text = refine(ctx, prompt_embeds);
  if (ctx.tap) ctx.tap("dit.text_refined", p->text.view());
  const int64_t rows = layout.rows(), f = config_.rope_freq_dim;
  p->cosine = Tensor({rows, 3 * f});
  p->sine = Tensor({rows, 3 * f});
  std::vector<float> inverse(static_cast<size_t>(f));
  for (int64_t j = 0; j < f; ++j)
    inverse[static_cast<size_t>(j)] =
        1.0f / std::pow(static_cast<float>(config_.rope_theta), static_cast<float>(2 * j) / static_cast<float>(2 * f));
  ctx.exec.threads.parallel_for(rows, 256, [&](int64_t r0, int64_t r1, int) {
    for (int64_t r = r0; r < r1; ++r)
      for (int64_t axis = 0; axis < 3; ++axis)
        for (int64_t j = 0; j < f; ++j) {
          float angle = static_cast<float>(layout.position_ids[static_cast<size_t>(r * 3 + axis)]) * inverse[static_cast<size_t>(j)];
          p->cosine.mat().row(r)[axis * f + j] = std::cos(angle);
          p->sine.mat().row(r)[axis * f + j] = std::sin(angle);
        }
  });
  return p;
}

// The row of a table over t = 0 .. 1, linear between its points.
void curve_at(const std::vector<float>& table, int64_t points, int64_t rank, float t, float* out) {
  const float at = std::clamp(t, 0.0f, 1.0f) * static_cast<float>(points - 1);
  const int64_t i = std::min(static_cast<int64_t>(at), points - 2);
  const float part = at - static_cast<float>(i);
  const float *low = table.data() + i * rank, *high = low + rank;
  for (int64_t r = 0; r < rank; ++r) out[r] = low[r] + part * (high[r] - low[r]);
}

// silu(time embedding) of each distinct t in [0, 1] (unscaled): [timesteps, adaln_dim].
Mat Dit::embed_time(const Ctx& ctx, std::span<const float> timestep) const {
  const int64_t n = static_cast<int64_t>(timestep.size()), half = config_.freq_dim / 2;
  Mat out = ctx.mat(n, config_.adaln_dim());
  for (int64_t i = 0; config_.has_curve() && i < n; ++i)
    curve_at(curve_, config_.curve_points, config_.curve_rank, timestep[static_cast<size_t>(i)], out.row(i));
  if (config_.has_curve()) return out;
  Arena::Scope scope(ctx.arena());
  Mat features = ctx.mat(n, config_.freq_dim), hidden = ctx.mat(n, config_.time_embed_hidden_dim);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < half; ++j) {
      float frequency = std::exp(-static_cast<float>(std::log(10000.0)) * static_cast<float>(j) / static_cast<float>(half));
      float angle = timestep[static_cast<size_t>(i)] * frequency;
      features.row(i)[j] = std::cos(angle);
      features.row(i)[half + j] = std::sin(angle);
    }
  linear(ctx, features, time_1_, hidden, Activation::silu);
  linear(ctx, hidden, time_2_, out);
  if (ctx.tap) {
    ctx.tap("dit.time_features", {features.data, DType::f32, {n, config_.freq_dim}});
    ctx.tap("dit.temb", {out.data, DType::f32, {n, config_.time_embed_dim}});
  }
  silu(ctx.exec, out, out);
  return out;
}

int64_t Dit::prepare_timesteps(const Ctx& ctx, std::span<const float> timesteps) {
  std::vector<float> missing;
  for (float t : timesteps)
    if (!modulations_.count(t) && std::find(missing.begin(), missing.end(), t) == missing.end()) missing.push_back(t);
  const size_t h = static_cast<size_t>(config_.hidden_size), width = kModalities * kModulations * h, each = block_count() * width + 2 * h;
  const int64_t n = static_cast<int64_t>(missing.size());
  if (missing.empty() || each * missing.size() > kMostModulationFloats) return n;
  if (each * (modulations_.size() + missing.size()) > kMostModulationFloats) modulations_.clear();
  Arena::Scope scope(ctx.arena());
  Mat temb = embed_time({ctx.exec, {}}, missing), rows = ctx.mat(n, static_cast<int64_t>(width)), out = ctx.mat(n, static_cast<int64_t>(2 * h));
  std::map<float, Modulations> made;   // kept only when whole: a cancelled run leaves nothing half done
  for (float t : missing) made[t] = {std::vector<float>(block_count() * width), std::vector<float>(2 * h)};
  for (size_t b = 0; b < block_count(); ++b) {
    ctx.exec.check_cancel();
    linear(ctx, temb, adaln(ctx, b, b + 1 < block_count() ? adaln_group(b + 1) : next_streamed(b)), rows);
    for (int64_t i = 0; i < n; ++i) std::copy_n(rows.row(i), width, made[missing[static_cast<size_t>(i)]].blocks.begin() + static_cast<int64_t>(b * width));
  }
  linear(ctx, temb, norm_out_linear_, out);
  for (int64_t i = 0; i < n; ++i) std::copy_n(out.row(i), 2 * h, made[missing[static_cast<size_t>(i)]].out.begin());
  modulations_.merge(made);
  last_.adaln = {}, last_.adaln_at = GroupReader::kNone;   // its memory is not wanted in the steps
  return n;
}

int64_t Dit::timestep_bytes() const {
  int64_t floats = 0;
  for (const auto& [t, m] : modulations_) floats += static_cast<int64_t>(m.blocks.size() + m.out.size());
  return floats * static_cast<int64_t>(sizeof(float));
}

std::vector<const Modulations*> Dit::kept(std::span<const float> timestep) const {
  std::vector<const Modulations*> out;
  for (float t : timestep) {
    auto it = modulations_.find(t);
    if (it == modulations_.end()) return {};
    out.push_back(&it->second);
  }
  return out;
}

// table: row 3 * timestep + tag of [6, hidden].
void Dit::run_block(const Ctx& ctx, const Block& b, const DitState& p, ConstMat table, const int32_t* adaln_row, bool tap_attention,
                    Mat x) const {
  const int64_t h = config_.hidden_size, stride = kModulations * h;
  Arena::Scope scope(ctx.arena());
  const float *shift_msa = table.data, *scale_msa = shift_msa + h, *gate_msa = scale_msa + h;
  const float *shift_mlp = gate_msa + h, *scale_mlp = shift_mlp + h, *gate_mlp = scale_mlp + h;
  const Activations y = activations_for(ctx, b.qkv, x.rows);
  rms_norm_modulate(ctx.exec, x, b.norm1.data(), config_.norm_eps, scale_msa, shift_msa, stride, adaln_row, y);
  {
    Arena::Scope attention_scope(ctx.arena());
    const Activations o = activations_for(ctx, b.out, x.rows);
    attend(ctx, b, y, &p, o);
    if (tap_attention) {
      Mat branch = ctx.mat(x.rows, h);
      linear(ctx, o, b.out, branch);
      ctx.tap("dit.block0_attn_out", {branch.data, DType::f32, {x.rows, h}});
    }
    linear_gated(ctx, o, b.out, x, gate_msa, stride, adaln_row);
  }
  ctx.exec.check_cancel();
  const Activations g = activations_for(ctx, b.fc2, x.rows);
  rms_norm_modulate(ctx.exec, x, b.norm2.data(), config_.norm_eps, scale_mlp, shift_mlp, stride, adaln_row, y);
  linear_swiglu(ctx, y, b.fc1, g);
  linear_gated(ctx, g, b.fc2, x, gate_mlp, stride, adaln_row);
}

// Final norm, modulation per timestep, and one modality's head on its rows only.
void Dit::head(const Ctx& ctx, ConstMat x, std::span<const int32_t> index, ConstMat table, std::span<const int32_t> timestep_indices,
               const Linear& proj, Mat velocity) const {
  const int64_t n = static_cast<int64_t>(index.size()), h = config_.hidden_size;
  if (n == 0) return;
  Arena::Scope scope(ctx.arena());
  Mat rows = ctx.mat(n, h);
  gather_rows(ctx, x, index, rows);
  std::vector<int32_t> table_row;
  for (int32_t i : index) table_row.push_back(timestep_indices[static_cast<size_t>(i)]);
  rms_norm_modulate(ctx.exec, rows, norm_out_.data(), config_.final_norm_eps, table.data + h, table.data, table.stride, table_row.data(),
                    rows);
  linear(ctx, rows, proj, velocity);
}

void Dit::step(const Ctx& ctx, const Denoiser::Prepared& prepared, std::span<const float> timestep,
               std::span<const int32_t> timestep_indices, ConstMat video_rows, ConstMat audio_rows, Mat video_velocity,
               Mat audio_velocity) const {
  const auto& p = static_cast<const DitState&>(prepared);
  const PackedLayout& layout = p.layout;
  const int64_t rows = layout.rows(), h = config_.hidden_size;
  Arena::Scope scope(ctx.arena());
  const int64_t levels = static_cast<int64_t>(timestep.size());
  const std::vector<const Modulations*> known = ctx.tap ? std::vector<const Modulations*>{} : kept(timestep);   // a trace wants the embedding itself
  Mat temb = known.empty() ? embed_time(ctx, timestep) : Mat{}, x = ctx.mat(rows, h);
  {
    Arena::Scope embed_scope(ctx.arena());
    Mat video = ctx.mat(video_rows.rows, h), audio = ctx.mat(audio_rows.rows, h);
    linear(ctx, video_rows, proj_in_, video);
    linear(ctx, audio_rows, audio_proj_in_, audio);
    scatter_rows(ctx, p.text.mat(), layout.text_indices, x);
    scatter_rows(ctx, video, layout.video_indices, x);
    scatter_rows(ctx, audio, layout.audio_indices, x);
  }
  std::vector<int32_t> adaln_row(static_cast<size_t>(rows));
  for (size_t i = 0; i < adaln_row.size(); ++i) adaln_row[i] = timestep_indices[i] * kModalities + layout.token_tags[i];

  // The residual stream before and after each block, for a trace of models small enough to keep it.
  constexpr int64_t kTapBytes = int64_t{256} << 20;
  std::vector<float> stream;
  auto keep = [&] {
    if (ctx.tap && (config_.num_layers + 1) * rows * h * 4 <= kTapBytes) stream.insert(stream.end(), x.data, x.data + rows * h);
  };
  keep();
  Mat modulation = ctx.mat(levels, kModalities * kModulations * h), table = ctx.mat(levels, 2 * h);   // table: shift, scale per timestep
  for (size_t i = 0; i < block_count(); ++i) {
    ctx.exec.check_cancel();
    const size_t after = known.empty() ? adaln_group((i + 1) % block_count()) : next_streamed(i);
    if (known.empty()) linear(ctx, temb, adaln(ctx, i, streamed_[i] ? main_group(i) : after), modulation);
    for (size_t t = 0; t < known.size(); ++t)
      std::copy_n(known[t]->blocks.data() + static_cast<int64_t>(i) * modulation.cols, modulation.cols, modulation.row(static_cast<int64_t>(t)));
    run_block(ctx, block(ctx, i, after), p, modulation, adaln_row.data(), ctx.tap && i == 0, x);
    keep();
  }
  if (!stream.empty()) ctx.tap("dit.hidden", {stream.data(), DType::f32, {config_.num_layers + 1, rows, h}});

  if (known.empty()) linear(ctx, temb, norm_out_linear_, table);
  for (size_t t = 0; t < known.size(); ++t) std::copy_n(known[t]->out.data(), table.cols, table.row(static_cast<int64_t>(t)));
  head(ctx, x, layout.video_indices, table, timestep_indices, proj_out_, video_velocity);
  head(ctx, x, layout.audio_indices, table, timestep_indices, audio_proj_out_, audio_velocity);
}

}  // namespace

std::unique_ptr<Denoiser> load_dit(const Ops& ops, Threads& threads, const std::string& folder, const DitOptions& options) {
  return std::make_unique<Dit>(ops, threads, folder, open_checkpoint(folder), options);
}

std::unique_ptr<Adapters> open_adapters(const std::string& folder, const std::vector<AdapterUse>& uses) {
  return std::make_unique<Adapters>(uses, dit_tensor_specs(read_dit_config(folder, open_checkpoint(folder))));
}

}  // namespace zt::h3

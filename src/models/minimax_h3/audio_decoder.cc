#include "models/minimax_h3/audio_decoder.h"

#include <algorithm>
#include <cmath>

#include "kernels/elementwise.h"
#include "models/minimax_h3/weight_norm.h"

namespace zt::h3 {

namespace {

// An output of the filtered activation sees this many input rows before and behind: 2 * 3 of the downsampling filter's half width in
// upsampled rows, and 2 more input rows of the upsampling one (12 taps each).
constexpr int64_t kActivationReach = 5;

AudioDecoder::Activation load_activation(const Weights& w, const std::string& prefix) {
  auto exponentials = [&](const char* name) {
    auto v = w.vector(prefix + name);
    for (float& x : v) x = std::exp(x);
    return v;
  };
  return {exponentials(".act.alpha"), exponentials(".act.beta"), w.vector(prefix + ".upsample.filter"), w.vector(prefix + ".downsample.lowpass.filter")};
}

int64_t padding(const Conv1d& c) { return c.reach() / 2; }

// Everything that can be made of `x` so far, appended to `y`.
void activate(const Ctx& ctx, const AudioDecoder::Activation& a, const Track& x, Track& y) {
  const int64_t first = y.filled(), end = x.complete() ? x.length() : x.filled() - kActivationReach;
  if (end <= first) return;
  const int64_t from = std::max(first - kActivationReach, int64_t{0}), to = std::min(end + kActivationReach, x.length());
  // The edges of this window are the signal's only at its true ends; rows that see another edge are not asked for.
  snake_anti_aliased(ctx.exec, x.rows(from, to - from), a.alpha.data(), a.beta.data(), a.up_filter.data(), a.down_filter.data(),
                     y.append(end - first), first - from);
}

// The same for a padded convolution of stride 1: x is a track padded by padding(c). With `residual`, y = residual + conv(x).
void convolve(const Ctx& ctx, const Conv1d& c, Track& x, Track& y, const Track* residual = nullptr) {
  const int64_t first = y.filled(), end = x.available() - padding(c);
  if (end <= first) return;
  Mat fresh = y.append(end - first);
  if (residual) std::copy_n(residual->rows(first, end - first).data, fresh.rows * fresh.cols, fresh.data);
  conv1d(ctx, x.rows(first - padding(c), end - first + 2 * padding(c)), c, fresh, residual != nullptr);
  x.drop_before(end - padding(c));
}

}  // namespace

AudioDecoder load_audio_decoder(const Weights& w, const Ops& ops, const AudioVaeConfig& c) {
  AudioDecoder d;
  d.dec_in_proj = load_linear(w, ops, "dec_in_proj", Compute::f32);
  d.conv_pre = load_conv1d(w, ops, "decoder.conv_pre");
  for (size_t s = 0; s < c.decoder_rates.size(); ++s) {
    AudioDecoder::Stage stage;
    stage.up = load_transposed_conv1d(w, ops, fmt::format("decoder.ups.{}.0", s), c.decoder_rates[s]);
    for (size_t b = 0; b < c.resblock_kernel_sizes.size(); ++b) {
      const std::string p = fmt::format("decoder.resblocks.{}.", s * c.resblock_kernel_sizes.size() + b);
      auto& units = stage.blocks.emplace_back();
      for (size_t u = 0; u < c.resblock_dilation_sizes[b].size(); ++u)
        units.push_back({load_activation(w, fmt::format("{}activations.{}", p, 2 * u)), load_activation(w, fmt::format("{}activations.{}", p, 2 * u + 1)),
                         load_conv1d(w, ops, fmt::format("{}convs1.{}", p, u), 1, c.resblock_dilation_sizes[b][u]),
                         load_conv1d(w, ops, fmt::format("{}convs2.{}", p, u))});
    }
    d.stages.push_back(std::move(stage));
  }
  d.activation_post = load_activation(w, "decoder.activation_post");
  d.conv_post = load_conv1d(w, ops, "decoder.conv_post");
  return d;
}

AudioDecoding::AudioDecoding(const AudioDecoder& d, int64_t latents)
    : d_(d), in_(d.conv_pre.in, latents, padding(d.conv_pre)), last_(d.conv_post.in, 0, 0), activated_(1, 0, 0), out_(1, 0, 0) {
  int64_t length = latents;
  for (const AudioDecoder::Stage& s : d.stages) {
    StageTracks t{.in = Track(s.up.in, length, s.up.taps - 1), .up = Track(s.up.out, length * s.up.stride, 0), .blocks_done = 0, .units = {}};
    length *= s.up.stride;
    for (const auto& block : s.blocks) {
      auto& units = t.units.emplace_back();
      for (const AudioDecoder::Unit& u : block)
        units.push_back({Track(s.up.out, length, padding(u.conv1)), Track(s.up.out, length, 0), Track(s.up.out, length, padding(u.conv2)),
                         Track(s.up.out, length, 0)});
    }
    stages_.push_back(std::move(t));
  }
  last_ = Track(d.conv_post.in, length, 0);
  activated_ = Track(d.conv_post.in, length, padding(d.conv_post));
  out_ = Track(1, length, 0);
}

void AudioDecoding::upsample(const Ctx& ctx, const AudioDecoder::Stage& s, StageTracks& t) {
  const int64_t taps = s.up.taps, rate = s.up.stride, shift = (s.up.kernel - rate) / 2;
  // Block q reads rows q - taps + 1 .. q and makes rows q * rate - shift onwards.
  const int64_t first = t.blocks_done, end = t.in.available();
  if (end <= first) return;
  Arena::Scope scope(ctx.arena());
  Mat made = ctx.mat((end - first) * rate, s.up.out);
  transposed_conv1d(ctx, t.in.rows(first - taps + 1, end - first + taps - 1), s.up, made);
  const int64_t origin = first * rate - shift, from = std::max(origin, int64_t{0}), to = std::min(origin + made.rows, t.up.length());
  if (to > from) {
    Mat fresh = t.up.append(to - from);
    std::copy_n(made.row(from - origin), fresh.rows * fresh.cols, fresh.data);
  }
  t.blocks_done = end;
  t.in.drop_before(end - taps + 1);
}

// One of the parallel blocks of a stage; the last unit's output track is open. Returns the first row of `in` that it will need again.
int64_t AudioDecoding::run_block(const Ctx& ctx, const std::vector<AudioDecoder::Unit>& units, std::vector<UnitTracks>& tracks, const Track& in) {
  Arena::Scope scope(ctx.arena());
  int64_t needed = 0;
  for (size_t u = 0; u < units.size(); ++u) {
    ctx.exec.check_cancel();
    UnitTracks& t = tracks[u];
    Track* before = u > 0 ? &tracks[u - 1].out : nullptr;
    const Track& x = before ? *before : in;
    if (u + 1 < units.size()) t.out.open(ctx.arena(), x.filled() - t.out.filled());
    {
      Arena::Scope inner(ctx.arena());
      for (Track* y : {&t.activated1, &t.hidden, &t.activated2}) y->open(ctx.arena(), x.filled() - y->filled());
      activate(ctx, units[u].act1, x, t.activated1);
      convolve(ctx, units[u].conv1, t.activated1, t.hidden);
      activate(ctx, units[u].act2, t.hidden, t.activated2);
      convolve(ctx, units[u].conv2, t.activated2, t.out, &x);
      t.hidden.drop_before(t.activated2.filled() - kActivationReach);
      for (Track* y : {&t.activated1, &t.hidden, &t.activated2}) y->settle();
    }
    const int64_t keep = std::min(t.activated1.filled() - kActivationReach, t.out.filled());
    if (!before) {
      needed = keep;
    } else {
      before->drop_before(keep);
      before->settle();
    }
  }
  return needed;
}

void AudioDecoding::run_stage(const Ctx& ctx, const AudioDecoder::Stage& s, StageTracks& t, Track& out) {
  const int64_t most = std::min(t.in.available() * s.up.stride, t.up.length());
  out.open(ctx.arena(), most - out.filled());
  Arena::Scope scope(ctx.arena());
  t.up.open(ctx.arena(), most - t.up.filled());
  upsample(ctx, s, t);
  t.in.settle();
  int64_t ready = t.up.length(), needed = t.up.length();
  for (auto& units : t.units) units.back().out.open(ctx.arena(), t.up.filled() - units.back().out.filled());
  for (size_t b = 0; b < s.blocks.size(); ++b) {
    needed = std::min(needed, run_block(ctx, s.blocks[b], t.units[b], t.up));
    ready = std::min(ready, t.units[b].back().out.filled());
  }
  t.up.drop_before(needed);
  t.up.settle();

  const int64_t first = out.filled(), rows = ready - first;
  if (rows > 0) {
    Mat mean = out.append(rows);
    const auto blocks = static_cast<float>(s.blocks.size());
    ctx.exec.threads.parallel_for(rows * mean.cols, 1 << 14, [&](int64_t begin, int64_t end, int) {
      for (size_t b = 0; b < t.units.size(); ++b) {
        const float* x = std::as_const(t.units[b].back().out).rows(first, rows).data;
        if (b == 0) std::copy(x + begin, x + end, mean.data + begin);
        for (int64_t i = begin; i < end && b > 0; ++i) mean.data[i] += x[i];
      }
      for (int64_t i = begin; i < end && blocks > 1; ++i) mean.data[i] /= blocks;
    });
  }
  for (auto& units : t.units) {
    units.back().out.drop_before(ready);
    units.back().out.settle();
  }
}

void AudioDecoding::feed(const Ctx& ctx, ConstMat latents) {
  Arena::Scope scope(ctx.arena());
  in_.open(ctx.arena(), latents.rows);
  linear(ctx, latents, d_.dec_in_proj, in_.append(latents.rows));
  stages_.front().in.open(ctx.arena(), in_.filled() - stages_.front().in.filled());
  convolve(ctx, d_.conv_pre, in_, stages_.front().in);
  in_.settle();
  for (size_t i = 0; i < stages_.size(); ++i) run_stage(ctx, d_.stages[i], stages_[i], i + 1 < stages_.size() ? stages_[i + 1].in : last_);

  activated_.open(ctx.arena(), last_.filled() - activated_.filled());
  out_.open(ctx.arena(), last_.filled() - out_.filled());
  activate(ctx, d_.activation_post, last_, activated_);
  last_.drop_before(activated_.filled() - kActivationReach);
  last_.settle();
  const int64_t first = out_.filled();
  convolve(ctx, d_.conv_post, activated_, out_);
  activated_.settle();
  Mat fresh = out_.rows(first, out_.filled() - first);
  for (int64_t i = 0; i < fresh.rows; ++i) fresh.data[i] = std::clamp(fresh.data[i], -1.0f, 1.0f);
  out_.settle();
}

void AudioDecoding::drop_samples(int64_t n) {
  taken_ += n;
  out_.drop_before(taken_);
}

int64_t AudioDecoding::held_floats() const {
  int64_t n = in_.held_floats() + last_.held_floats() + activated_.held_floats() + out_.held_floats();
  for (const StageTracks& s : stages_) {
    n += s.in.held_floats() + s.up.held_floats();
    for (const auto& block : s.units)
      for (const UnitTracks& u : block) n += u.activated1.held_floats() + u.hidden.held_floats() + u.activated2.held_floats() + u.out.held_floats();
  }
  return n;
}

}  // namespace zt::h3

#include "models/minimax_h3/layout.h"

#include <algorithm>
#include <cmath>

namespace zt::h3 {

namespace {

constexpr double kFrameRescale = 5.0 / 3.0;
constexpr int kFramesPerLatent[5] = {1, 4, 4, 4, 4};
constexpr double kSpatialScale = 32.0;

double span_of(int64_t latent) { return kFrameRescale * kFramesPerLatent[latent % 5]; }

// Time of every latent frame from `origin`, with the sequential sums of torch.cumsum.
std::vector<double> temporal_grid(int64_t n, double origin) {
  std::vector<double> out(static_cast<size_t>(n));
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    out[static_cast<size_t>(i)] = origin + sum;
    sum += span_of(i);
  }
  return out;
}

// numpy's sum of up to 128 values: eight accumulators, then a tree, then the tail.
double numpy_sum(std::span<const double> v) {
  const size_t n = v.size();
  if (n > 128) {
    size_t half = n / 2;
    half -= half % 8;
    return numpy_sum(v.first(half)) + numpy_sum(v.subspan(half));
  }
  if (n < 8) {
    double s = n ? v[0] : 0;
    for (size_t i = 1; i < n; ++i) s += v[i];
    return s;
  }
  double r[8];
  std::copy_n(v.begin(), 8, r);
  size_t i = 8;
  for (; i + 8 <= n; i += 8)
    for (size_t k = 0; k < 8; ++k) r[k] += v[i + k];
  double s = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
  for (; i < n; ++i) s += v[i];
  return s;
}

// numpy.linspace(left, left + ratio, n, endpoint=False) * 32
std::vector<double> spatial_grid(int64_t dim, int64_t patch, double sqrt_area) {
  const double ratio = static_cast<double>(dim) / sqrt_area, left = (1.0 - ratio) / 2.0;
  const int64_t n = dim / patch;
  const double delta = (left + ratio) - left, step = delta / static_cast<double>(n);
  std::vector<double> out(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) out[static_cast<size_t>(i)] = (static_cast<double>(i) * step + left) * kSpatialScale;
  return out;
}

struct FrameGrid {
  std::vector<double> h, w;
  FrameGrid(int64_t height, int64_t width, int64_t patch_h, int64_t patch_w) {
    const double area = std::sqrt(static_cast<double>(height * width));
    h = spatial_grid(height, patch_h, area);
    w = spatial_grid(width, patch_w, area);
  }
};

// Appends rows to the layout in packed order.
struct Builder {
  PackedLayout out;

  int32_t add(double t, double h, double w, int32_t tag) {
    out.position_ids.insert(out.position_ids.end(), {t, h, w});
    out.token_tags.push_back(tag);
    return static_cast<int32_t>(out.token_tags.size()) - 1;
  }
  void video_frame(double t, const FrameGrid& g) {
    for (double h : g.h)
      for (double w : g.w) out.video_indices.push_back(add(t, h, w, kVideoTag));
  }
  // Latent frames [begin, end) of a video that starts at `origin`.
  void video(double origin, int64_t begin, int64_t end, const FrameGrid& g) {
    const std::vector<double> times = temporal_grid(end, origin);
    for (int64_t i = begin; i < end; ++i) video_frame(times[static_cast<size_t>(i)], g);
  }
  // Channel-major, each channel pinned to one end of the width axis.
  void audio(double origin, int64_t begin, int64_t end, const FrameGrid& g) {
    for (double w : {g.w.front(), g.w.back()})
      for (int64_t k = begin; k < end; ++k) out.audio_indices.push_back(add(origin + static_cast<double>(k), 0, w, kAudioTag));
  }
};

double last_anchor_time(int64_t frames, double origin) {
  std::vector<double> spans;
  for (int64_t i = 0; i < frames; ++i) spans.push_back(span_of(i));
  return origin + numpy_sum(spans) - kFrameRescale;
}

}  // namespace

int64_t round_half_even(double x) { return static_cast<int64_t>(std::nearbyint(x)); }

Canvas resolve_canvas(double aspect_width, double aspect_height, const CanvasRule& rule) {
  const double ratio = aspect_width / aspect_height;
  if (!(aspect_width > 0) || !(aspect_height > 0) || !(ratio >= 0.25 && ratio <= 4.0))
    fail(ErrorKind::request, "the aspect ratio is {}:{}; MiniMax-H3 makes 1:4 to 4:1", aspect_width, aspect_height);
  const double edge = static_cast<double>(rule.short_edge);
  double width = ratio >= 1.0 ? edge * ratio : edge, height = ratio >= 1.0 ? edge : edge / ratio;
  const double area = width * height, cap = static_cast<double>(rule.max_pixels);
  if (area > cap) {
    const double scale = std::sqrt(cap / area);
    width *= scale, height *= scale;
  }
  auto snap = [&](double x) { return std::max(rule.multiple, round_half_even(x / static_cast<double>(rule.multiple)) * rule.multiple); };
  return {snap(width), snap(height)};
}

int64_t align_frames(int64_t frames) {
  while (frames % kFramesPerChunk != kLatentsPerChunk) ++frames;
  return frames;
}

bool is_legal_frame_count(int64_t frames) { return frames > 0 && frames % kFramesPerChunk == kLatentsPerChunk; }

int64_t video_latent_frames(int64_t f) { return (f - kLatentsPerChunk) / kFramesPerChunk * kLatentsPerChunk + 2; }

int64_t audio_latents(int64_t frames) { return round_half_even(static_cast<double>(frames) / kFps * kAudioLatentsPerSecond); }

PackedLayout build_layout(const LayoutRequest& r) {
  Builder b;
  const FrameGrid grid(r.target.height, r.target.width, r.patch_h, r.patch_w);
  const int64_t text = static_cast<int64_t>(r.text_token_tags.size());
  for (int64_t i = 0; i < text; ++i)
    b.out.text_indices.push_back(b.add(static_cast<double>(i), 0, 0, r.text_token_tags[static_cast<size_t>(i)]));
  double clock = static_cast<double>(text);
  for (Anchor a : r.keyframes) b.video_frame(a == Anchor::first ? clock : last_anchor_time(r.target.frames, clock), grid);
  for (const ReferenceBlock& ref : r.references) {
    using Kind = ReferenceBlock::Kind;
    if (ref.kind == Kind::audio) {
      b.audio(clock, 0, ref.audio_latents, grid);
      clock += static_cast<double>(ref.audio_latents);
      continue;
    }
    const FrameGrid own(ref.latents.height, ref.latents.width, r.patch_h, r.patch_w);
    if (ref.kind == Kind::image) {
      b.video_frame(clock, own);
      clock += 1.0;
      continue;
    }
    if (ref.audio_latents) b.audio(clock, 0, ref.audio_latents, own);
    b.video(clock, 0, ref.latents.frames, own);
    double span = 0;
    for (int64_t i = 0; i < ref.latents.frames; ++i) span += span_of(i);
    clock += std::max(static_cast<double>(ref.audio_latents), span);
  }
  b.video(clock, 0, r.history_frames, grid);
  b.audio(clock, 0, r.history_audio_latents, grid);
  b.out.text_rows = text;
  b.out.condition_video_rows = static_cast<int64_t>(b.out.video_indices.size());
  b.out.condition_audio_rows = static_cast<int64_t>(b.out.audio_indices.size());
  b.audio(clock, r.history_audio_latents, r.target_audio_latents, grid);
  b.video(clock, r.history_frames, r.target.frames, grid);
  return std::move(b.out);
}

RowTimesteps row_timesteps(const PackedLayout& layout, float t_video, float t_audio, double condition_level) {
  const float condition = static_cast<float>(std::max(static_cast<double>(t_video), condition_level));
  std::vector<float> row(static_cast<size_t>(layout.rows()), t_video);
  for (int64_t i = 0; i < static_cast<int64_t>(layout.video_indices.size()); ++i)
    if (i < layout.condition_video_rows) row[static_cast<size_t>(layout.video_indices[static_cast<size_t>(i)])] = condition;
  for (int64_t i = 0; i < static_cast<int64_t>(layout.audio_indices.size()); ++i)
    row[static_cast<size_t>(layout.audio_indices[static_cast<size_t>(i)])] = i < layout.condition_audio_rows ? 1.0f : t_audio;
  RowTimesteps out;
  out.timestep = row;
  std::sort(out.timestep.begin(), out.timestep.end());
  out.timestep.erase(std::unique(out.timestep.begin(), out.timestep.end()), out.timestep.end());
  for (float t : row)
    out.timestep_indices.push_back(static_cast<int32_t>(std::lower_bound(out.timestep.begin(), out.timestep.end(), t) - out.timestep.begin()));
  return out;
}

namespace {
// Calls f(row, column, offset in [C, T, h, w]) for every value.
template <class F>
void for_each_patch_value(int64_t channels, LatentShape s, int64_t ph, int64_t pw, F&& f) {
  int64_t row = 0;
  for (int64_t t = 0; t < s.frames; ++t)
    for (int64_t y = 0; y < s.height / ph; ++y)
      for (int64_t x = 0; x < s.width / pw; ++x, ++row) {
        int64_t col = 0;
        for (int64_t c = 0; c < channels; ++c)
          for (int64_t dy = 0; dy < ph; ++dy)
            for (int64_t dx = 0; dx < pw; ++dx, ++col) f(row, col, ((c * s.frames + t) * s.height + y * ph + dy) * s.width + x * pw + dx);
      }
}
}  // namespace

void patchify(const float* latents, int64_t channels, LatentShape s, int64_t ph, int64_t pw, Mat rows) {
  for_each_patch_value(channels, s, ph, pw, [&](int64_t r, int64_t c, int64_t at) { rows.row(r)[c] = latents[at]; });
}

void unpatchify(ConstMat rows, int64_t channels, LatentShape s, int64_t ph, int64_t pw, float* latents) {
  for_each_patch_value(channels, s, ph, pw, [&](int64_t r, int64_t c, int64_t at) { latents[at] = rows.row(r)[c]; });
}

}  // namespace zt::h3

#include "pipeline/conditions.h"

#include <algorithm>
#include <cmath>

#include "kernels/resample.h"

namespace zt {

namespace {

constexpr size_t kMaxImages = 9, kMaxVideos = 3, kMaxSounds = 3, kMaxReferences = 12;

h3::CanvasRule canvas_rule(const Request& r, int64_t multiple) {
  return {multiple, r.short_edge.value_or(r.config.canvas_short_edge), r.config.canvas_max_pixels};
}

Picture to_size(const Picture& p, int64_t width, int64_t height) {
  return p.width == width && p.height == height ? p : resize_lanczos(p, static_cast<int>(width), static_cast<int>(height));
}

// The second keyframe covers the canvas and is cut at its middle.
Picture cover_crop(const Picture& p, int64_t width, int64_t height) {
  if (p.width == width && p.height == height) return p;
  const double scale = std::max(static_cast<double>(width) / p.width, static_cast<double>(height) / p.height);
  const int64_t w = std::max(width, h3::round_half_even(p.width * scale)), h = std::max(height, h3::round_half_even(p.height * scale));
  return crop(to_size(p, w, h), static_cast<int>((w - width) / 2), static_cast<int>((h - height) / 2), static_cast<int>(width), static_cast<int>(height));
}

Condition image_condition(Picture pixels, const qwen3_vl::ProcessorConfig& processor) {
  Condition c;
  c.item.kind = h3::PresentedItem::Kind::image;
  c.vision = qwen3_vl::process_image(processor, pixels);
  c.item.block_tokens = qwen3_vl::block_tokens(processor, *c.vision);
  c.pixels.push_back(std::move(pixels));
  return c;
}

Condition image_reference(const Picture& p, const Request& r, int64_t multiple, const qwen3_vl::ProcessorConfig& processor) {
  if (p.width > 4 * p.height || p.height > 4 * p.width)
    fail(ErrorKind::request, "a reference picture is {}x{}; its sides may differ by at most 4 to 1", p.width, p.height);
  const double scale = static_cast<double>(r.config.reference_image_short_edge) / std::min(p.width, p.height), m = static_cast<double>(multiple);
  auto snap = [&](int x) { return std::max(multiple, h3::round_half_even(x * scale / m) * multiple); };
  return image_condition(to_size(p, snap(p.width), snap(p.height)), processor);
}

// Frames onto 24 a second by holding: each until the slot of the next one.
std::vector<size_t> hold_slots(size_t frames, double fps) {
  std::vector<size_t> out;
  const double scale = h3::kFps / fps;
  auto slot = [&](size_t i) { return static_cast<int64_t>(std::floor(static_cast<double>(i) * scale + 0.5)); };
  for (size_t i = 0; i < frames; ++i)
    for (int64_t n = fps == h3::kFps ? 1 : slot(i + 1) - slot(i); n > 0; --n) out.push_back(i);
  return out;
}

Sound normalize_sound(const Sound& in, int64_t num_frames, int sample_rate) {
  if (in.channels.empty() || in.channels.size() > 2) fail(ErrorKind::request, "a reference sound has {} channels, wanted 1 or 2", in.channels.size());
  Sound s = in;
  const double seconds = static_cast<double>(num_frames) / h3::kFps;
  const size_t limit = static_cast<size_t>(seconds * in.sample_rate);
  for (auto& c : s.channels)
    if (c.size() > limit) c.resize(limit);
  if (s.samples() == 0) fail(ErrorKind::request, "a reference sound has no samples");
  if (s.channels.size() == 1) s.channels.push_back(s.channels[0]);
  return s.sample_rate == sample_rate ? s : resample(s, sample_rate);
}

Condition video_reference(const Clip& clip, const Request& r, const Geometry& g, int64_t multiple, const qwen3_vl::ProcessorConfig& processor,
                          int sample_rate) {
  if (clip.frames.empty()) fail(ErrorKind::request, "a reference video has no frames");
  if (!(clip.fps > 0)) fail(ErrorKind::request, "a reference video has a frame rate of {}", clip.fps);
  std::vector<size_t> slots = hold_slots(clip.frames.size(), clip.fps);
  if (static_cast<int64_t>(slots.size()) > g.num_frames) slots.resize(static_cast<size_t>(g.num_frames));
  if (slots.empty()) fail(ErrorKind::request, "a reference video of {} frames at {} a second lasts no frame at 24 a second", clip.frames.size(), clip.fps);
  const h3::Canvas canvas = h3::resolve_canvas(clip.frames[0].width, clip.frames[0].height, canvas_rule(r, multiple));
  std::vector<Picture> frames;
  for (size_t i = 0; i < slots.size(); ++i)
    frames.push_back(i && slots[i] == slots[i - 1] ? frames.back() : to_size(clip.frames[slots[i]], canvas.width, canvas.height));

  Condition c;
  c.item.kind = h3::PresentedItem::Kind::video;
  h3::VideoSampling sampling = h3::sample_video(static_cast<int64_t>(frames.size()), processor.temporal_patch_size);
  std::vector<Picture> sampled;
  for (int64_t i : sampling.indices) sampled.push_back(frames[static_cast<size_t>(i)]);
  c.vision = qwen3_vl::process_video(processor, sampled);
  c.item.block_tokens = qwen3_vl::block_tokens(processor, *c.vision);
  c.item.timestamps = sampling.timestamps;
  const int64_t n = static_cast<int64_t>(frames.size());
  const int64_t kept = std::max<int64_t>(1, (n - h3::kLatentsPerChunk) / h3::kFramesPerChunk) * h3::kFramesPerChunk + h3::kLatentsPerChunk;
  if (n > kept) frames.resize(static_cast<size_t>(kept));
  c.pixels = std::move(frames);
  if (clip.sound) {
    c.sound = normalize_sound(*clip.sound, g.num_frames, sample_rate);
    c.item.has_sound = true;
  }
  return c;
}

void check_references(const Request& r) {
  size_t images = 0, videos = 0, sounds = 0;
  for (const Reference& ref : r.references) {
    images += std::holds_alternative<Picture>(ref);
    videos += std::holds_alternative<Clip>(ref);
    sounds += std::holds_alternative<Sound>(ref);
  }
  auto limit = [](size_t n, size_t most, const char* what) {
    if (n > most) fail(ErrorKind::request, "{} {} references; MiniMax-H3 takes at most {}", n, what, most);
  };
  limit(images, kMaxImages, "picture");
  limit(videos, kMaxVideos, "video");
  limit(sounds, kMaxSounds, "sound");
  limit(r.references.size(), kMaxReferences, "");
  if (r.references.empty()) fail(ErrorKind::request, "task ref2va needs at least one --reference; use t2va for a prompt alone");
  if (sounds == r.references.size()) fail(ErrorKind::request, "a sound reference needs a picture or video reference beside it");
}

}  // namespace

Geometry resolve_geometry(const Request& r, int64_t multiple) {
  const bool fl2va = r.task == Task::fl2va;
  if (fl2va && !r.first_frame && !r.last_frame) fail(ErrorKind::request, "task fl2va needs --first-frame, --last-frame or both");
  if (!fl2va && (r.first_frame || r.last_frame))
    fail(ErrorKind::request, "a first or last frame belongs to task fl2va, not to {}", task_name(r.task));
  if (r.task == Task::ref2va) check_references(r);
  if (r.history && r.task != Task::continuation) fail(ErrorKind::request, "a history belongs to task continuation, not to {}", task_name(r.task));
  if (!r.history && r.task == Task::continuation) fail(ErrorKind::request, "task continuation needs the history that it follows");
  if (r.task != Task::ref2va && !r.references.empty()) fail(ErrorKind::request, "references belong to task ref2va, not to {}", task_name(r.task));
  if (r.width.has_value() != r.height.has_value()) fail(ErrorKind::request, "give width and height together, or neither of them");

  Geometry g{};
  if (r.width) {
    g.width = *r.width, g.height = *r.height;
    if (g.width < multiple || g.height < multiple || g.width % multiple || g.height % multiple)
      fail(ErrorKind::request, "size {}x{}: both sides must be multiples of {}; try {}x{}", g.width, g.height, multiple,
           std::max<int64_t>(1, (g.width + multiple / 2) / multiple) * multiple, std::max<int64_t>(1, (g.height + multiple / 2) / multiple) * multiple);
  } else {
    double w = 16, h = 9;
    if (r.aspect_ratio) w = *r.aspect_ratio, h = 1;
    else if (const Picture* anchor = r.first_frame ? &*r.first_frame : r.last_frame ? &*r.last_frame : nullptr) w = anchor->width, h = anchor->height;
    const h3::Canvas c = h3::resolve_canvas(w, h, canvas_rule(r, multiple));
    g.width = c.width, g.height = c.height;
  }
  if (r.num_frames < 1) fail(ErrorKind::request, "{} frames; at least 1 is needed", r.num_frames);
  if ((r.start || r.start_clip) && !r.long_video) fail(ErrorKind::request, "a clip that another goes on from belongs to a long video");
  if (r.long_video && r.task != Task::t2va) fail(ErrorKind::request, "a long video is made of a prompt alone (task t2va), not by task {}", task_name(r.task));
  const double longest = (r.long_video ? 3600.0 : r.config.max_duration_s) * h3::kFps;
  g.num_frames = static_cast<double>(r.num_frames) > longest ? r.num_frames : h3::align_frames(r.num_frames);
  const double seconds = static_cast<double>(g.num_frames) / h3::kFps;
  if ((seconds < r.config.min_duration_s && !r.history) || static_cast<double>(g.num_frames) > longest)
    fail(ErrorKind::request,
         "{} frames{} are {:.3f} s at 24 a second; this model makes {:g} to {:g} s ({} to {} frames). A --config with min_duration_s or "
         "max_duration_s moves the limits; --long-video has none",
         r.num_frames, g.num_frames != r.num_frames ? fmt::format(" (aligned to {})", g.num_frames) : "", seconds, r.config.min_duration_s,
         longest / h3::kFps, static_cast<int64_t>(std::ceil(r.config.min_duration_s * h3::kFps)), static_cast<int64_t>(longest));
  return g;
}

namespace {

std::vector<size_t> slots_of(const Clip& clip) { return clip.fps > 0 ? hold_slots(clip.frames.size(), clip.fps) : std::vector<size_t>(); }

// How many of them can be gone on from, of the end; 0: too few.
int64_t history_of(const std::vector<size_t>& slots) {
  const int64_t n = static_cast<int64_t>(slots.size()), rest = h3::kLatentsPerChunk;
  return n < h3::kFramesPerChunk + rest ? 0 : (n - rest) / h3::kFramesPerChunk * h3::kFramesPerChunk + rest;
}

}  // namespace

int64_t start_frames(const Clip& clip) { return history_of(slots_of(clip)); }

Condition start_condition(const Clip& clip, int64_t width, int64_t height, int sample_rate) {
  const std::vector<size_t> slots = slots_of(clip);
  const int64_t kept = history_of(slots);
  if (kept == 0) fail(ErrorKind::request, "the video has {} frames at {:g} a second; at least 22 at 24 a second are needed to go on from", clip.frames.size(), clip.fps);
  const size_t first = slots.size() - static_cast<size_t>(kept);
  Condition c;
  for (size_t i = first; i < slots.size(); ++i)
    c.pixels.push_back(i > first && slots[i] == slots[i - 1] ? c.pixels.back() : cover_crop(clip.frames[slots[i]], width, height));
  c.sound = Sound{sample_rate, {{}, {}}};
  if (clip.sound && clip.sound->samples() > 0) c.sound = normalize_sound(*clip.sound, static_cast<int64_t>(slots.size()), sample_rate);
  const int64_t late = static_cast<int64_t>(first) * sample_rate / h3::kFps, samples = h3::audio_latents(kept) * sample_rate / h3::kAudioLatentsPerSecond;
  for (auto& channel : c.sound->channels) {
    channel.erase(channel.begin(), channel.begin() + std::min(late, static_cast<int64_t>(channel.size())));
    channel.resize(static_cast<size_t>(samples));
  }
  return c;
}

std::vector<Condition> prepare_conditions(const Request& r, const Geometry& g, int64_t multiple, const qwen3_vl::ProcessorConfig& processor,
                                          int sample_rate) {
  std::vector<Condition> out;
  if (r.first_frame) out.push_back(image_condition(to_size(*r.first_frame, g.width, g.height), processor));
  if (r.last_frame)   // alone it anchors the geometry and is stretched like a first frame
    out.push_back(image_condition(r.first_frame ? cover_crop(*r.last_frame, g.width, g.height) : to_size(*r.last_frame, g.width, g.height), processor));
  for (const Reference& ref : r.references) {
    if (auto* p = std::get_if<Picture>(&ref)) out.push_back(image_reference(*p, r, multiple, processor));
    if (auto* c = std::get_if<Clip>(&ref)) out.push_back(video_reference(*c, r, g, multiple, processor, sample_rate));
    if (auto* s = std::get_if<Sound>(&ref)) {
      Condition c;
      c.item.kind = h3::PresentedItem::Kind::audio;
      c.sound = normalize_sound(*s, g.num_frames, sample_rate);
      out.push_back(std::move(c));
    }
  }
  return out;
}

}  // namespace zt

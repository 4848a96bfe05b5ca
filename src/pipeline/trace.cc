#include "pipeline/trace.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace zt {

namespace {

constexpr int64_t kSoundEdge = 2400;      // samples kept at each end
constexpr int64_t kSoundHead = 16000;     // samples kept as int16 (t2va)

// Which frames the golden files keep as bytes: around the borders of clips, and all near the first one of a 39-frame fl2va clip.
bool keeps_frame(int64_t f, int64_t total, Task task) {
  for (int64_t k : {int64_t{0}, int64_t{1}, int64_t{4}, int64_t{5}, total / 2, int64_t{16}, int64_t{17}, int64_t{21}, total - 1})
    if (f == k) return true;
  return total == 39 && task == Task::fl2va && f >= 15 && f < 24;
}

}  // namespace

Tap TraceRecorder::tap() {
  return [this](std::string_view name, const View& v) { put(std::string(name), v); };
}

void TraceRecorder::put(const std::string& name, const View& v) {
  if (kept_.count(name)) return;
  Kept k{v.dtype, v.shape, std::vector<std::byte>(static_cast<size_t>(v.bytes()))};
  if (v.bytes()) std::memcpy(k.bytes.data(), v.data, k.bytes.size());
  kept_.emplace(name, std::move(k));
}

void TraceRecorder::append(const std::string& name, const View& v) {
  auto it = kept_.find(name);
  if (it == kept_.end()) {
    Shape shape{1};
    shape.insert(shape.end(), v.shape.begin(), v.shape.end());
    return put(name, {v.data, v.dtype, shape});
  }
  Kept& k = it->second;
  const size_t old = k.bytes.size();
  k.bytes.resize(old + static_cast<size_t>(v.bytes()));
  std::memcpy(k.bytes.data() + old, v.data, static_cast<size_t>(v.bytes()));
  ++k.shape[0];
}

void TraceRecorder::frames(const FrameChunk& chunk, const ClipInfo& clip, Task task) {
  const int64_t plane = static_cast<int64_t>(chunk.height) * chunk.width;
  for (int64_t i = 0; i < chunk.count; ++i) {
    const int64_t f = chunk.first_frame + i;
    const float* data = chunk.data + i * 3 * plane;
    for (int c = 0; c < 3; ++c) {
      double sum = 0;
      for (int64_t p = 0; p < plane; ++p) sum += chunk.shown(c, data[c * plane + p]);
      frames_mean_.push_back(static_cast<float>(sum / static_cast<double>(plane)));
    }
    if (keeps_frame(f, clip.num_frames, task)) {
      frame_index_.push_back(static_cast<int32_t>(f));
      for (int64_t p = 0; p < plane; ++p)
        for (int c = 0; c < 3; ++c) frames_u8_.push_back(static_cast<uint8_t>(std::nearbyint(chunk.shown(c, data[c * plane + p]) * 255.0f)));
    }
    if (f == clip.num_frames / 2) {
      const int32_t index = static_cast<int32_t>(f);
      std::vector<float> frame(data, data + 3 * plane);
      for (int64_t p = 0; p < 3 * plane; ++p) frame[static_cast<size_t>(p)] = chunk.shown(p / plane, data[p]);
      put("frames_f32", {frame.data(), DType::f32, {1, 3, chunk.height, chunk.width}});
      put("frames_f32_index", {&index, DType::i32, {1}});
    }
  }
  if (chunk.first_frame + chunk.count == clip.num_frames) {
    const int64_t kept = static_cast<int64_t>(frame_index_.size());
    put("frames_u8", {frames_u8_.data(), DType::u8, {kept, chunk.height, chunk.width, 3}});
    put("frames_u8_index", {frame_index_.data(), DType::i32, {kept}});
    put("frames_mean", {frames_mean_.data(), DType::f32, {clip.num_frames, 3}});
  }
}

void TraceRecorder::sound(const SoundChunk& chunk, const ClipInfo&) {
  sound_.resize(chunk.channels.size());
  for (size_t c = 0; c < sound_.size(); ++c) sound_[c].insert(sound_[c].end(), chunk.channels[c], chunk.channels[c] + chunk.count);
}

void TraceRecorder::finish(Task task) {
  if (sound_.empty()) return;
  const int64_t n = static_cast<int64_t>(sound_[0].size()), edge = std::min(n, kSoundEdge), head = std::min(n, kSoundHead);
  const int64_t channels = static_cast<int64_t>(sound_.size());
  std::vector<float> first, last;
  std::vector<int16_t> s16;
  for (auto& s : sound_) {
    first.insert(first.end(), s.begin(), s.begin() + edge);
    last.insert(last.end(), s.end() - edge, s.end());
    for (int64_t i = 0; i < head; ++i) s16.push_back(static_cast<int16_t>(std::nearbyint(s[static_cast<size_t>(i)] * 32767.0f)));
  }
  put("audio_f32_head", {first.data(), DType::f32, {channels, edge}});
  put("audio_f32_tail", {last.data(), DType::f32, {channels, edge}});
  if (task == Task::t2va) put("audio_s16", {s16.data(), DType::i16, {channels, head}});
}

}  // namespace zt

#include "models/minimax_h3/presentation.h"

#include <cmath>

#include "base/error.h"
#include "models/minimax_h3/layout.h"

namespace zt::h3 {

namespace {

constexpr double kSampleFps = 2.0;

struct Writer {
  const Tokenizer& tokenizer;
  int32_t image_pad, video_pad;
  Presentation out;

  void add(int32_t id, int32_t tag) {
    out.token_ids.push_back(id);
    out.text_token_tags.push_back(tag);
    out.mm_token_type_ids.push_back(id == image_pad ? 1 : id == video_pad ? 2 : 0);
  }
  void text(const std::string& s) {
    for (int32_t id : tokenizer.encode(s)) add(id, kTextTag);
  }
  void block(int32_t pad, int64_t n) {
    add(tokenizer.id_of("<|vision_start|>"), kVideoTag);
    for (int64_t i = 0; i < n; ++i) add(pad, kVideoTag);
    add(tokenizer.id_of("<|vision_end|>"), kVideoTag);
  }
};

}  // namespace

Presentation present(const Tokenizer& tokenizer, const std::string& prompt, const std::vector<PresentedItem>& items) {
  using Kind = PresentedItem::Kind;
  Writer w{tokenizer, tokenizer.id_of("<|image_pad|>"), tokenizer.id_of("<|video_pad|>"), {}};
  int images = 0, videos = 0, sounds = 0;
  for (const PresentedItem& item : items) {
    if (item.kind == Kind::audio || item.has_sound) w.text(fmt::format("<Audio {}>: ", ++sounds));
    if (item.kind == Kind::image) {
      w.text(fmt::format("<Picture {}>: ", ++images));
      w.block(w.image_pad, item.block_tokens);
    } else if (item.kind == Kind::video) {
      w.text(fmt::format("<Video {}>: ", ++videos));
      for (double t : item.timestamps) {
        w.text(fmt::format("<{:.1f} seconds>", t));   // an exact tie goes to even, as in Python: 0.25 -> 0.2
        w.block(w.video_pad, item.block_tokens);
      }
    }
  }
  w.text(prompt);
  return std::move(w.out);
}

VideoSampling sample_video(int64_t frames, int64_t temporal_patch) {
  const double stride = kFps / kSampleFps;
  VideoSampling s;
  for (double cursor = 0; round_half_even(cursor) < frames; cursor += stride)
    if (s.indices.empty() || round_half_even(cursor) > s.indices.back()) s.indices.push_back(round_half_even(cursor));
  const int64_t n = static_cast<int64_t>(s.indices.size());
  if (n < temporal_patch) {
    const int64_t least = round_half_even(static_cast<double>(temporal_patch - 1) * stride) + 1;
    fail(ErrorKind::request, "a reference video has {} frames at 24 a second; at least {} are needed ({:.2f} s)", frames, least,
         static_cast<double>(least) / kFps);
  }
  std::vector<double> times;
  for (int64_t i = 0; i < n; ++i) times.push_back(static_cast<double>(i) / kSampleFps);
  while (static_cast<int64_t>(times.size()) % temporal_patch) times.push_back(times.back());
  for (size_t i = 0; i < times.size(); i += static_cast<size_t>(temporal_patch))
    s.timestamps.push_back((times[i] + times[i + static_cast<size_t>(temporal_patch) - 1]) / 2);
  return s;
}

}  // namespace zt::h3

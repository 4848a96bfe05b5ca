#pragma once
// What the text encoder is shown: labels, vision blocks and the prompt, each piece tokenised on its own.
// Source: diffusers 0.42.1 modular_pipelines/minimax_h3/encoders.py.
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace zt::h3 {

// One keyframe or reference, in packed order.
struct PresentedItem {
  enum class Kind { image, video, audio } kind;
  bool has_sound = false;               // a video with a soundtrack
  int64_t block_tokens = 0;             // pads of one vision block
  std::vector<double> timestamps;       // video: seconds of each block
};

struct Presentation {
  std::vector<int32_t> token_ids;            // [N]
  std::vector<int32_t> text_token_tags;      // [N] 1 text, 0 vision start, pads and end
  std::vector<int32_t> mm_token_type_ids;    // [N] 0 text, 1 image pad, 2 video pad
};

// Errors (kind model): a tokenizer without the vision tokens.
Presentation present(const Tokenizer& tokenizer, const std::string& prompt, const std::vector<PresentedItem>& items);

// Which of `frames` frames (24 a second) the text encoder sees, at 2 a second, and the time of each merged group.
struct VideoSampling {
  std::vector<int64_t> indices;
  std::vector<double> timestamps;
};
// Errors (kind request): fewer frames than one group needs.
VideoSampling sample_video(int64_t frames, int64_t temporal_patch);

}  // namespace zt::h3

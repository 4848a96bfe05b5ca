#pragma once
// The picture side of the Qwen3-VL processor: sizes and resizing before the vision tower.
// Source: transformers 5.23 image_processing_qwen2_vl.py and video_processing_qwen3_vl.py.
#include <span>
#include <string>

#include "models/roles.h"

namespace zt::qwen3_vl {

struct ProcessorConfig {
  int64_t patch_size = 16, temporal_patch_size = 2, merge_size = 2;
  int64_t image_min_pixels = 65536, image_max_pixels = 16777216;
  int64_t video_min_pixels = 4096, video_max_pixels = 25165824;   // of frames * height * width
};

// Reads preprocessor_config.json and video_preprocessor_config.json of a folder. Errors (kind model).
ProcessorConfig read_processor_config(const std::string& folder);

// One picture, resized to a multiple of patch * merge within the pixel limits. Errors (kind request): a side ratio over 200.
VisionInput process_image(const ProcessorConfig& config, const Picture& picture);
// Sampled frames of a video, all of one size; an odd number repeats the last.
VisionInput process_video(const ProcessorConfig& config, std::span<const Picture> frames);
// Tokens of one block (an image, or one temporal unit of a video).
int64_t block_tokens(const ProcessorConfig& config, const VisionInput& input);

}  // namespace zt::qwen3_vl

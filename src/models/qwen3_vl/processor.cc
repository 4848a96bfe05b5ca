#include "models/qwen3_vl/processor.h"

#include <algorithm>
#include <cmath>

#include "base/json.h"
#include "kernels/resample.h"

namespace zt::qwen3_vl {

namespace {

struct Size {
  int64_t height, width;
};

// `frames` is 1 for a picture. `counted` is the frame count that the pixel limits see.
Size smart_resize(Size s, int64_t frames, int64_t counted, int64_t factor, int64_t min_pixels, int64_t max_pixels) {
  if (std::max(s.height, s.width) > 200 * std::min(s.height, s.width))
    fail(ErrorKind::request, "a picture of {}x{} is too narrow: the longer side may be at most 200 times the shorter one", s.width, s.height);
  const double f = static_cast<double>(factor), h = static_cast<double>(s.height), w = static_cast<double>(s.width);
  Size out{static_cast<int64_t>(std::nearbyint(h / f)) * factor, static_cast<int64_t>(std::nearbyint(w / f)) * factor};
  const double area = static_cast<double>(frames) * h * w;
  if (counted * out.height * out.width > max_pixels) {
    const double beta = std::sqrt(area / static_cast<double>(max_pixels));
    out = {std::max(factor, static_cast<int64_t>(std::floor(h / beta / f)) * factor), std::max(factor, static_cast<int64_t>(std::floor(w / beta / f)) * factor)};
  } else if (counted * out.height * out.width < min_pixels) {
    const double beta = std::sqrt(static_cast<double>(min_pixels) / area);
    out = {static_cast<int64_t>(std::ceil(h * beta / f)) * factor, static_cast<int64_t>(std::ceil(w * beta / f)) * factor};
  }
  return out;
}

Picture to_size(const Picture& p, Size s) {
  return p.width == s.width && p.height == s.height ? p : resize_bicubic(p, static_cast<int>(s.width), static_cast<int>(s.height));
}

void read_one(const std::string& path, ProcessorConfig& c, int64_t& min_pixels, int64_t& max_pixels) {
  Json json = read_json(path);
  JsonView j(json, path);
  c.patch_size = j.integer("patch_size", 1, 256, c.patch_size);
  c.temporal_patch_size = j.integer("temporal_patch_size", 1, 8, c.temporal_patch_size);
  c.merge_size = j.integer("merge_size", 1, 8, c.merge_size);
  JsonView size = j.child("size");
  min_pixels = size.integer("shortest_edge", 1, int64_t{1} << 40);
  max_pixels = size.integer("longest_edge", min_pixels, int64_t{1} << 40);
  for (const char* key : {"image_mean", "image_std"})
    if (j.has(key))
      for (float v : j.floats(key, 3))
        if (v != 0.5f) fail(ErrorKind::model, "{}: \"{}\" is not 0.5 throughout; this processor is not Qwen3-VL's", path, key);
}

}  // namespace

ProcessorConfig read_processor_config(const std::string& folder) {
  ProcessorConfig c;
  read_one(folder + "/preprocessor_config.json", c, c.image_min_pixels, c.image_max_pixels);
  read_one(folder + "/video_preprocessor_config.json", c, c.video_min_pixels, c.video_max_pixels);
  return c;
}

VisionInput process_image(const ProcessorConfig& c, const Picture& picture) {
  Size s = smart_resize({picture.height, picture.width}, 1, 1, c.patch_size * c.merge_size, c.image_min_pixels, c.image_max_pixels);
  VisionInput out;
  out.grid_h = static_cast<int>(s.height / c.patch_size), out.grid_w = static_cast<int>(s.width / c.patch_size);
  out.frames.push_back(to_size(picture, s));
  return out;
}

VisionInput process_video(const ProcessorConfig& c, std::span<const Picture> frames) {
  const int64_t n = static_cast<int64_t>(frames.size()), factor = c.patch_size * c.merge_size;
  Size s{frames[0].height, frames[0].width};
  if (s.height < factor || s.width < factor) {
    const double scale = std::max(static_cast<double>(factor) / static_cast<double>(s.height), static_cast<double>(factor) / static_cast<double>(s.width));
    s = {static_cast<int64_t>(static_cast<double>(s.height) * scale), static_cast<int64_t>(static_cast<double>(s.width) * scale)};
  }
  const int64_t counted = static_cast<int64_t>(std::nearbyint(static_cast<double>(n) / static_cast<double>(c.temporal_patch_size))) * c.temporal_patch_size;
  s = smart_resize(s, n, counted, factor, c.video_min_pixels, c.video_max_pixels);
  VisionInput out;
  out.video = true;
  out.grid_h = static_cast<int>(s.height / c.patch_size), out.grid_w = static_cast<int>(s.width / c.patch_size);
  for (const Picture& f : frames) out.frames.push_back(to_size(f, s));
  while (static_cast<int64_t>(out.frames.size()) % c.temporal_patch_size) out.frames.push_back(out.frames.back());
  return out;
}

int64_t block_tokens(const ProcessorConfig& c, const VisionInput& input) {
  return static_cast<int64_t>(input.grid_h) * input.grid_w / (c.merge_size * c.merge_size);
}

}  // namespace zt::qwen3_vl

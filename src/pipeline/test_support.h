#pragma once
// What tests of whole clips share.
#include <vector>

#include "pipeline/engine.h"

namespace zt {

// The base of a request for a square clip of two evaluations.
inline Request small_request(const Engine& engine, const std::string& prompt, int64_t side, int64_t frames) {
  Request r;
  r.prompt = prompt, r.seed = 3, r.width = r.height = side, r.num_frames = frames, r.grid_points = 3;
  r.config = engine.index().config;
  r.config.min_duration_s = 0;
  return r;
}

// The pixels and the first channel's samples of the clip that `engine` makes of it, as they come.
inline std::vector<float> clip_of(Engine& engine, const Request& request, const Hooks& hooks = {}) {
  std::vector<float> out;
  int64_t frame_bytes = 0;
  Sink sink{[&](const ClipInfo& c) { frame_bytes = 3 * c.width * c.height; }, [&](const uint8_t* p, int64_t n) { out.insert(out.end(), p, p + n * frame_bytes); },
            [&](const std::vector<const float*>& c, int64_t n) { out.insert(out.end(), c[0], c[0] + n); }};
  engine.generate(request, sink, hooks);
  return out;
}

}  // namespace zt

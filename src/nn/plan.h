#pragma once
// The plan: every choice that trades exactness for speed, one section per part of the model. The optimizer writes such files;
// everything else only reads them. `exact` is a plan: the accuracy of float32 throughout.
#include <string>

#include "base/json.h"
#include "kernels/compute.h"

namespace zt {

struct Plan {
  std::string name = "exact";
  Compute text_encoder = Compute::bf16x3;    // of the matrices; bf16x3 is as exact as f32, and faster where weights are bf16
  Compute denoiser = Compute::bf16x3;
  Compute video_encoder = Compute::f32;      // always f32 as released; a field, so that a plan can say so
  Compute video_decoder = Compute::bf16x3;
  Compute audio_codec = Compute::f32;        // bf16 is audible; f32 only
};

Plan exact_plan();
// bf16 matrices and attention in denoiser and video decoder, bf16x2 in the text encoder; float32 residuals, norms, islands and audio.
Plan fast_plan();
// "exact", "fast", or a plan file: {"name": ..., "text_encoder": {"compute": a name of kernels/compute.h}, "denoiser": {...}, "video_decoder": {...}}.
// Errors (kind request): no such plan or file, an unknown key, an unknown compute type.
Plan read_plan(const std::string& name_or_path);
Json plan_to_json(const Plan& plan);

}  // namespace zt

#pragma once
// The plan: every choice that trades exactness for speed, one section per part of the model. The optimizer writes such files;
// everything else only reads them. `exact` is a plan: float32 throughout.
#include <string>

#include "base/json.h"
#include "tensor/dtype.h"

namespace zt {

struct Plan {
  std::string name = "exact";
  DType text_encoder = DType::f32;    // compute type of the matrices: f32 or bf16
  DType denoiser = DType::f32;
  DType video_encoder = DType::f32;   // always f32 as released; a field, so that a plan can say so
  DType video_decoder = DType::f32;
  DType audio_codec = DType::f32;     // bf16 is audible; f32 only
};

Plan exact_plan();
// bf16 matrices and attention in text encoder, denoiser and video decoder; float32 residuals, norms, islands and audio.
Plan fast_plan();
// "exact", "fast", or a plan file: {"name": ..., "text_encoder": {"compute": "f32"|"bf16"}, "denoiser": {...}, "video_decoder": {...}}.
// Errors (kind request): no such plan or file, an unknown key, an unknown compute type.
Plan read_plan(const std::string& name_or_path);
Json plan_to_json(const Plan& plan);

}  // namespace zt

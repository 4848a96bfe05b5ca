#pragma once
// The plan: every choice that trades exactness for speed, one section per part of the model. The optimizer writes such files;
// everything else only reads them. `exact` is a plan: the accuracy of float32 throughout.
#include <string>
#include <vector>

#include "base/json.h"
#include "kernels/compute.h"

namespace zt {

// Reuse of velocities between evaluations: an evaluation is left out while the changes foreseen since the last computed one stay below
// both budgets. Separate budgets, because the ear and the eye forgive different things.
struct ReusePlan {
  double video = 0, sound = 0;   // relative L2 of the velocities; 0: every evaluation is computed
  int64_t most = 1;              // evaluations left out in a row
  bool on() const { return video > 0 && sound > 0; }
};

struct Plan {
  std::string name = "exact";
  Compute text_encoder = Compute::bf16x3;    // of the matrices; bf16x3 is as exact as f32, and faster where weights are bf16
  Compute denoiser = Compute::bf16x3;
  Compute video_encoder = Compute::f32;      // always f32 as released; a field, so that a plan can say so
  Compute video_decoder = Compute::bf16x3;
  Compute audio_codec = Compute::f32;        // bf16 is audible; f32 only
  double attention_mass = 1;                 // of the denoiser's attention: blocks of keys are left out while the rest is expected to hold this share of the weight
  bool adaln_tables = true;                  // modulations of each noise level are computed once and kept; the same bytes
  bool overlap = true;                       // encoding runs beside decoding; the same bytes
  int64_t evaluations = 0;                   // of a request that names none; 0: the reference's 49
  ReusePlan reuse;
  std::string encoder_preset = "veryfast";   // x264's
  std::string sound_coder = "twoloop";       // AAC's search: twoloop, or fast
  Json measured;                             // what the optimizer found for this plan: errors, seconds, how; null if nothing
};

Plan exact_plan();
// bf16 matrices and attention in denoiser and video decoder, bf16x2 in the text encoder; float32 residuals, norms, islands and audio.
Plan fast_plan();
// fast-mxint8, fast-mxfp6, fast-mxfp4: plan fast with the matrices of denoiser and text encoder rounded to that OCP MX type, for models that do
// not fit otherwise; the most exact first.
std::vector<Plan> compact_plans();
// "error:Q" (the fastest plan of the model whose measured error is at most Q), a plan that comes with the model
// (`model_folder`/plans/NAME.json), a built-in one by its name, or a plan file:
// {"name": ..., "text_encoder": {"compute": "f32"|"bf16"|...}, "denoiser": {..., "adaln_tables": true, "attention_mass": 1}, "video_decoder": {...},
//  "stages": {"overlap": true}, "sampler": {"evaluations": 4, "reuse_video": 0.05, "reuse_sound": 0.05, "reuse_most": 1},
//  "encoder": {"preset": "veryfast", "sound_coder": "twoloop"}, "measured": anything}.
// Errors (kind request): no such plan or file, an unknown key, a value out of range.
Plan read_plan(const std::string& name_or_path, const std::string& model_folder = "");
Json plan_to_json(const Plan& plan);
// Names of the plans that come with a model, sorted; none if it has none.
std::vector<std::string> shipped_plans(const std::string& model_folder);

}  // namespace zt

#pragma once
// Seconds, memory and communication of a clip on given hardware, from the work of its stages.
// A stage takes the longest of arithmetic at the rates of its kinds, bytes of weights and activations at the memory's rate, and weights that
// must stream in; communication and launches come on top. Ranks share the rows (Ulysses: an all-to-all before and after attention), the
// decoder's tiles, and the text encoder's matrices; weights are held whole by every rank.
#include <vector>

#include "nn/plan.h"
#include "optimizer/hardware.h"

namespace zt {

struct PredictOptions {
  int ranks = 1;                             // 1 to 8
  std::string text = "bf16", denoiser = "bf16", video = "bf16", audio = "f32";   // stacks of the hardware profile
};

struct StagePrediction {
  std::string stage;
  double seconds = 0;                        // of all runs
  int64_t runs = 1;
  double flop = 0;                           // of all runs and ranks
  double compute_seconds = 0, memory_seconds = 0, stream_seconds = 0, link_seconds = 0, launch_seconds = 0;
  double link_bytes = 0;                     // sent by one rank in all runs
  std::string bound;                         // compute, memory, stream or link: the largest part
};

struct Prediction {
  std::vector<StagePrediction> stages;       // text, denoise, video decode, audio decode, encode
  double generation_seconds = 0;             // all but encode
  double total_seconds = 0;
  double weight_bytes = 0, activation_bytes = 0;   // of one rank
  bool fits = true;                          // of a rank's memory
};

// One rank, and the stacks of a CPU profile that `plan` runs.
PredictOptions options_of(const Plan& plan);

// Errors (kind request): ranks out of range, or more than one on hardware without a link.
Prediction predict(const ModelDims& model, const ClipShape& clip, const Hardware& hardware, const PredictOptions& options);

}  // namespace zt

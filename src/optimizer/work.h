#pragma once
// What a clip costs, from the configs alone: arithmetic, bytes and parameters of every stage. One multiply-add is two FLOP.
#include <string>

#include "models/minimax_h3/audio_vae_config.h"
#include "models/minimax_h3/dit.h"
#include "models/minimax_h3/video_vae_config.h"
#include "models/qwen3_vl/config.h"

namespace zt {

// The dimensions of a model; no weights.
struct ModelDims {
  h3::DitConfig dit;
  h3::VideoVaeConfig video;
  h3::AudioVaeConfig audio;
  qwen3_vl::Config text;
  int64_t text_layers = 50;                  // of the text encoder, as many as are run
};
// From the component folders' config.json; modular_model_index.json, where there, names the text layer. Errors (kind model).
ModelDims read_model_dims(const std::string& folder);

struct ClipShape {
  int64_t width = 1344, height = 768, frames = 124, text_rows = 64, evaluations = 49;
  int64_t video_rows = 0, audio_rows = 0;    // of the packed sequence
  int64_t latent_frames = 0, latent_height = 0, latent_width = 0, audio_latents = 0;
  int64_t rows() const { return text_rows + audio_rows + video_rows; }
};
// Fills what follows from size and length; frames are aligned up to 17 n + 5. Errors (kind request): a size that is no multiple of a row's pixels.
ClipShape resolve_clip(const ModelDims& model, ClipShape clip);

// The work of one stage. FLOP by kind, because kinds run at different rates.
struct StageWork {
  double gemm = 0, attention = 0;
  double adaln = 0;                          // products of a few rows with the modulation matrices: bound by their bytes
  double conv = 0, filter = 0;               // of the audio decoder: convolutions; resampling filters around each activation
  double parameters = 0, adaln_parameters = 0;   // read once a run of the stage
  double elements = 0;                       // activations read or written by element-wise passes
  double layers = 0;                         // sequential steps, for latencies and launches
  double total() const { return gemm + attention + adaln + conv + filter; }
};

StageWork text_work(const ModelDims& model, const ClipShape& clip);
// One evaluation; `timesteps` distinct noise levels (t2va: 2 after the first evaluation).
StageWork denoise_work(const ModelDims& model, const ClipShape& clip, int64_t timesteps = 2);
StageWork video_decode_work(const ModelDims& model, const ClipShape& clip);
StageWork audio_decode_work(const ModelDims& model, const ClipShape& clip);

// Parameters of a component as its tensor table counts them, those never read left out.
double used_parameters(const TensorSpecs& specs);

}  // namespace zt

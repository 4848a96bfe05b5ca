#pragma once
// The packed self-attention transformer of MiniMax-H3: one forward gives the velocities of video and audio rows.
// Source: diffusers 0.42.1 transformer_minimax_h3.py.
#include <memory>
#include <string>

#include "base/json.h"
#include "kernels/compute.h"
#include "models/roles.h"
#include "nn/adapter.h"

namespace zt::h3 {

struct DitConfig {
  int64_t num_attention_heads, attention_head_dim, hidden_size, num_layers, num_refiner_layers, ffn_dim;
  int64_t in_channels, audio_in_channels, text_dim, freq_dim, time_embed_hidden_dim, time_embed_dim, rope_freq_dim;
  int64_t patch_h, patch_w;
  int64_t curve_points, curve_rank;   // of checkpoints that hold the time embedding as a table [points, rank]; else 0
  double rope_theta;
  float norm_eps, qk_norm_eps, final_norm_eps;
  int64_t inner_dim() const { return num_attention_heads * attention_head_dim; }
  int64_t patch_values() const { return in_channels * patch_h * patch_w; }
  bool has_curve() const { return curve_points > 0; }
  int64_t adaln_dim() const { return has_curve() ? curve_rank : time_embed_dim; }   // inputs of the modulation matrices
  bool operator==(const DitConfig&) const = default;
};

// Of a diffusers config.json. Errors (kind model): a key missing, out of range or inconsistent.
DitConfig parse_dit_config(const JsonView& json);
// From the diffusers config.json of `folder`. Without one, or beside one of the released spelling, the dimensions are those of the
// tensors and the constants those of the released model. Errors (kind model): those of parse_dit_config; a tensor that tells a dimension
// missing.
DitConfig read_dit_config(const std::string& folder, const WeightFiles& files);
TensorSpecs dit_tensor_specs(const DitConfig& config);
// What `folder`/config.json says its spelling is; one that is absent tells nothing.
enum class DitSpelling { unstated, diffusers, released };
DitSpelling stated_spelling(const std::string& folder);
// A config.json of either spelling, as text. The released one says less: read_dit_config takes the rest from the tensors.
std::string dit_config_text(const DitConfig& config, DitSpelling spelling);
// The tensor rope.inv_freq of other spellings.
std::vector<float> rope_frequencies(const DitConfig& config);

struct DitOptions {
  Compute compute = Compute::f32;       // islands stay float32
  double attention_mass = 1;            // AttentionArgs::mass of the transformer's blocks (not of the refiner's)
  const Adapters* adapters = nullptr;   // of open_adapters for the same folder; outlives the denoiser where blocks are streamed
  // Blocks that stay packed; -1: all. The others are read from disk in every evaluation, and the modulation matrices of all blocks when
  // noise levels are prepared. The results are the same to the byte.
  int64_t resident_blocks = -1;
};
// `folder`: as open_checkpoint. `threads` pack the weights, during this call alone.
std::unique_ptr<Denoiser> load_dit(const Ops& ops, Threads& threads, const std::string& folder, const DitOptions& options);
// Adapters held against the folder's tensors. Errors as Adapters.
std::unique_ptr<Adapters> open_adapters(const std::string& folder, const std::vector<AdapterUse>& uses);

}  // namespace zt::h3

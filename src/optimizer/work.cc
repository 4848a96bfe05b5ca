#include "optimizer/work.h"

#include <filesystem>

#include "models/minimax_h3/layout.h"
#include "models/minimax_h3/model_index.h"
#include "models/minimax_h3/tiling.h"
#include "models/minimax_h3/video_vae.h"

namespace zt {

namespace {

double d(int64_t x) { return static_cast<double>(x); }

Json read_object(const std::string& path) { return read_json(path); }

// Other spellings of a transformer have no config that tells its dimensions: their weights do.
h3::DitConfig read_dit(const std::string& folder) {
  const std::string path = folder + "/config.json";
  const Json json = std::filesystem::exists(path) ? read_object(path) : Json::object();
  if (json.contains("hidden_size") && json.contains("ffn_dim")) return h3::parse_dit_config(JsonView(json, path));
  return h3::read_dit_config(folder, open_checkpoint(folder));
}

}  // namespace

ModelDims read_model_dims(const std::string& folder) {
  if (!std::filesystem::is_directory(folder)) fail(ErrorKind::model, "{}: no such model folder; give one with transformer/config.json, vae/config.json, "
                                                   "audio_vae/config.json and text_encoder/config.json (weights are not needed)", folder);
  ModelDims m;
  m.dit = read_dit(folder + "/transformer");
  const std::string vae = folder + "/vae/config.json", audio = folder + "/audio_vae/config.json", index = folder + "/modular_model_index.json";
  const Json video_json = read_object(vae), audio_json = read_object(audio);
  m.video = h3::parse_video_vae_config(JsonView(video_json, vae));
  m.audio = h3::parse_audio_vae_config(JsonView(audio_json, audio));
  m.text = qwen3_vl::read_config(folder + "/text_encoder/config.json");
  h3::PipelineConfig config;
  if (std::filesystem::exists(index)) {
    const Json json = read_object(index);
    h3::apply_config(JsonView(json, index), config, false);
  }
  m.text_layers = std::min(config.text_encoder_layer, m.text.text.num_hidden_layers);
  return m;
}

ClipShape resolve_clip(const ModelDims& m, ClipShape c) {
  const int64_t ratio = m.video.spatial_ratio(), unit_w = ratio * m.dit.patch_w, unit_h = ratio * m.dit.patch_h;
  if (c.width < unit_w || c.height < unit_h || c.width % unit_w || c.height % unit_h)
    fail(ErrorKind::request, "--size {}x{}: wanted multiples of {} and {}", c.width, c.height, unit_w, unit_h);
  c.frames = h3::align_frames(c.frames);
  c.latent_frames = h3::video_latent_frames(c.frames);
  c.latent_height = c.height / ratio, c.latent_width = c.width / ratio;
  c.audio_latents = h3::audio_latents(c.frames);
  c.video_rows = c.latent_frames * (c.latent_height / m.dit.patch_h) * (c.latent_width / m.dit.patch_w);
  c.audio_rows = 2 * c.audio_latents;
  return c;
}

double used_parameters(const TensorSpecs& specs) {
  double n = 0;
  for (const TensorSpec& s : specs)
    if (s.use != TensorSpec::Use::dead && s.use != TensorSpec::Use::foreign) n += d(element_count(s.shape));
  return n;
}

StageWork text_work(const ModelDims& m, const ClipShape& c) {
  const auto& t = m.text.text;
  const double n = d(c.text_rows), h = d(t.hidden_size), q = d(t.num_attention_heads * t.head_dim), kv = d(t.num_key_value_heads * t.head_dim);
  const double layers = d(m.text_layers), weights = h * (q + 2 * kv) + q * h + 3 * h * d(t.intermediate_size);
  StageWork w;
  w.gemm = 2 * layers * n * weights;
  w.attention = 2 * layers * n * n * q;      // causal: half of 2 * 2 * n * n * q
  w.parameters = layers * weights;           // the embedding is a look-up of n rows
  w.elements = layers * n * (6 * h + 2 * (q + kv) + 3 * d(t.intermediate_size));
  w.layers = layers;
  return w;
}

StageWork denoise_work(const ModelDims& m, const ClipShape& c, int64_t timesteps) {
  const h3::DitConfig& g = m.dit;
  const double h = d(g.hidden_size), inner = d(g.inner_dim()), f = d(g.ffn_dim), s = d(c.rows()), t = d(c.text_rows);
  const double linear = h * 3 * inner + inner * h + 3 * h * f, blocks = d(g.num_layers), refiner = d(g.num_refiner_layers);
  const double patch = d(g.patch_values()), sound = d(g.audio_in_channels), adaln = d(g.time_embed_dim) * (18 * h * blocks + 2 * h);
  StageWork w;
  // The refiner runs once a request here and in diffusers each time; it is some 64 rows and is counted each time.
  w.gemm = 2 * (blocks * s * linear + refiner * t * linear + t * d(g.text_dim) * h + 2 * d(c.video_rows) * patch * h + 2 * d(c.audio_rows) * sound * h);
  w.attention = 2 * (blocks * 2 * s * s * inner + refiner * 2 * t * t * inner);
  w.adaln = 2 * d(timesteps) * adaln;
  w.parameters = blocks * linear + 2 * h * (patch + sound);
  w.adaln_parameters = adaln;
  w.elements = blocks * s * (8 * h + 6 * inner + 3 * f);
  w.layers = blocks;
  return w;
}

StageWork video_decode_work(const ModelDims& m, const ClipShape& c) {
  const h3::VideoVaeConfig& v = m.video;
  const int64_t chunk = v.tokens_chunk_size(), overlap = v.token_overlap(), drop = v.token_drop % chunk, ratio = v.spatial_ratio();
  const int64_t pad = (chunk - (c.latent_frames + drop) % chunk) % chunk, clips = (c.latent_frames + drop + pad) / chunk - 1;
  const h3::Tiling tiling;
  const h3::TileAxis y = h3::split_tiles(c.height, tiling.size, tiling.min_overlap, ratio), x = h3::split_tiles(c.width, tiling.size, tiling.min_overlap, ratio);
  const double width = d(v.dim()), ffn = d(v.ffn_dim()), layers = d(v.decoder_num_layers);
  const double block = 4 * width * width + 3 * width * ffn, ends = d(v.latent_channels) * width + width * d(v.patch_floats());
  StageWork w;
  for (int64_t i = 0; i < std::max<int64_t>(clips, 1); ++i) {
    const int64_t frames = std::min(chunk + overlap, c.latent_frames + pad - i * chunk);
    for (int64_t th : y.length)
      for (int64_t tw : x.length) {
        const double tokens = d(frames * (th / ratio) * (tw / ratio) + v.decoder_num_register_tokens + 1);
        w.gemm += 2 * tokens * (layers * block + ends);
        w.attention += 2 * layers * 2 * tokens * tokens * width;
        w.elements += layers * tokens * (14 * width + 3 * ffn);
        w.layers += layers;
      }
  }
  w.parameters = layers * block + ends;
  return w;
}

StageWork audio_decode_work(const ModelDims& m, const ClipShape& c) {
  const h3::AudioVaeConfig& a = m.audio;
  double channels = d(a.decoder_dim), t = d(c.audio_latents), conv = t * (d(a.latent_channels * a.latent_dim) + 7 * d(a.latent_dim) * channels), filter = 0, units = 0;
  StageWork w;
  w.parameters = d(a.latent_channels * a.latent_dim) + 7 * d(a.latent_dim) * channels;
  for (size_t i = 0; i < a.decoder_rates.size(); ++i) {
    conv += t * channels * (channels / 2) * d(a.decoder_kernel_sizes[i]);
    w.parameters += channels * (channels / 2) * d(a.decoder_kernel_sizes[i]);
    channels /= 2, t *= d(a.decoder_rates[i]);
    for (size_t b = 0; b < a.resblock_kernel_sizes.size(); ++b) {
      const double n = 2 * d(static_cast<int64_t>(a.resblock_dilation_sizes[b].size()));   // convolutions, and an activation before each
      conv += t * d(a.resblock_kernel_sizes[b]) * n * channels * channels;
      w.parameters += d(a.resblock_kernel_sizes[b]) * n * channels * channels;
      filter += t * n * channels * 2 * 2 * d(h3::kFilterTaps);   // at twice the rate, one filter up and one down
      units += n;
    }
  }
  conv += t * channels * 7;
  w.conv = 2 * 2 * conv, w.filter = 2 * 2 * filter;   // two ears
  w.layers = units;
  return w;
}

}  // namespace zt

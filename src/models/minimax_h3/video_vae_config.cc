#include "models/minimax_h3/video_vae_config.h"

#include <functional>
#include <numeric>

namespace zt::h3 {

namespace {

int64_t product(const std::vector<int64_t>& v) { return std::accumulate(v.begin(), v.end(), int64_t{1}, std::multiplies<>()); }

std::vector<int64_t> per_level(const JsonView& c, const std::string& key, size_t levels) {
  auto v = c.integers(key, 1, 2);
  if (v.size() != levels)
    fail(ErrorKind::model, "{}: \"{}\" has {} entries, wanted {}, one for each of \"block_out_channels\"", c.origin(), key, v.size(), levels);
  return v;
}

void check_levels(const JsonView& c, const VideoVaeConfig& v) {
  for (int64_t n : v.block_out_channels)
    if (n % v.norm_num_groups)
      fail(ErrorKind::model, "{}: \"block_out_channels\" holds {}, wanted a multiple of \"norm_num_groups\" {}", c.origin(), n, v.norm_num_groups);
  for (size_t i = 0; i < v.block_out_channels.size(); ++i)
    if (v.temporal_downsample_factors[i] == 2 && v.spatial_downsample_factors[i] == 1)
      fail(ErrorKind::model, "{}: level {} halves time but not space, which this VAE cannot do; check \"spatial_downsample_factors\"", c.origin(), i);
  // Tiles of 256 pixels that overlap by 64 must stand on whole latents.
  if (v.spatial_ratio() > 64)
    fail(ErrorKind::model, "{}: \"spatial_downsample_factors\" multiply to {}, wanted at most 64", c.origin(), v.spatial_ratio());
}

class Table {
 public:
  explicit Table(TensorSpecs& specs) : specs_(specs) {}
  void matrix(const std::string& name, Shape shape, TensorSpec::Use use = TensorSpec::Use::matrix) {
    specs_.push_back({.name = name, .shape = std::move(shape), .use = use});
  }
  void vector(const std::string& name, int64_t n) { matrix(name, {n}, TensorSpec::Use::vector); }
  void linear(const std::string& prefix, int64_t out, int64_t in, TensorSpec::Use use = TensorSpec::Use::matrix) {
    matrix(prefix + ".weight", {out, in}, use);
    vector(prefix + ".bias", out);
  }
  void conv(const std::string& prefix, int64_t out, int64_t in, int64_t k) {
    matrix(prefix + ".weight", {out, in, k, k, k}, TensorSpec::Use::island);
    vector(prefix + ".bias", out);
  }
  void norm(const std::string& prefix, int64_t n) {
    vector(prefix + ".weight", n);
    vector(prefix + ".bias", n);
  }

 private:
  TensorSpecs& specs_;
};

void encoder_specs(Table& t, const VideoVaeConfig& c) {
  int64_t channels = c.block_out_channels[0];
  t.conv("encoder.conv_in", channels, c.in_channels, 3);
  for (size_t level = 0; level < c.block_out_channels.size(); ++level) {
    const int64_t out = c.block_out_channels[level];
    const std::string block = fmt::format("encoder.down_blocks.{}", level);
    for (int64_t j = 0; j < c.layers_per_block; ++j, channels = out) {
      const std::string resnet = fmt::format("{}.resnets.{}", block, j);
      t.norm(resnet + ".norm1", channels);
      t.conv(resnet + ".conv1", out, channels, 3);
      t.norm(resnet + ".norm2", out);
      t.conv(resnet + ".conv2", out, out, 3);
      if (channels != out) t.conv(resnet + ".conv_shortcut", out, channels, 1);
    }
    if (c.downsamples(level)) t.conv(block + ".downsamplers.0.conv", out, out, 3);
  }
  t.norm("encoder.norm_out", channels);
  t.conv("encoder.conv_out", 2 * c.latent_channels, channels, 3);
  t.conv("quant_conv", 2 * c.latent_channels, 2 * c.latent_channels, 1);
}

void decoder_specs(Table& t, const VideoVaeConfig& c) {
  const int64_t dim = c.dim();
  t.conv("post_quant_conv", c.latent_channels, c.latent_channels, 1);
  t.linear("decoder.proj_in", dim, c.latent_channels, TensorSpec::Use::island);
  t.matrix("decoder.register_tokens", {1, c.decoder_num_register_tokens, dim}, TensorSpec::Use::vector);
  for (int64_t i = 0; i < c.decoder_num_layers; ++i) {
    const std::string block = fmt::format("decoder.transformer_blocks.{}.", i);
    for (const char* name : {"norm1.weight", "scale1", "norm2.weight", "scale2"}) t.vector(block + name, dim);
    for (const char* name : {"attn.to_q", "attn.to_k", "attn.to_v", "attn.to_out.0"}) t.linear(block + name, dim, dim);
    t.linear(block + "ff.net.0.proj", 2 * c.ffn_dim(), dim);
    t.linear(block + "ff.net.2", dim, c.ffn_dim());
  }
  t.norm("decoder.norm_out", dim);
  t.linear("decoder.proj_out", c.patch_floats(), dim);
}

// Parts of names that the released file, and the graph editors' after it, spell otherwise. Its q, k, v stand head by head in both.
TensorSource released_source(const std::string& name, int64_t heads) {
  using Rows = TensorSource::Rows;
  TensorSource s{name};
  const auto rename = [&](std::string_view ours, std::string_view theirs) {
    if (const size_t at = s.name.find(ours); at != std::string::npos) return s.name.replace(at, ours.size(), theirs), true;
    return false;
  };
  rename("down_blocks.", "down."), rename(".resnets.", ".block."), rename(".downsamplers.0.", ".downsample."), rename("conv_shortcut", "nin_shortcut");
  rename("decoder.proj_in.", "decoder.x_embedder."), rename("attn.to_out.0.", "attn.to_out."), rename("ff.net.2.", "ff.w2.");
  if (rename("ff.net.0.proj.", "ff.w1.")) s.rows = Rows::halves_swapped;
  int64_t part = 0;
  for (const char* p : {"attn.to_q.", "attn.to_k.", "attn.to_v."}) {
    if (rename(p, "attn.to_qkv.")) s.rows = Rows::fused_by_head, s.part = part, s.heads = heads;
    ++part;
  }
  return s;
}

}  // namespace

int64_t VideoVaeConfig::spatial_ratio() const { return product(spatial_downsample_factors); }
int64_t VideoVaeConfig::temporal_ratio() const { return product(temporal_downsample_factors); }

VideoVaeConfig parse_video_vae_config(const JsonView& c) {
  VideoVaeConfig v;
  v.in_channels = c.integer("in_channels", 3, 3);     // RGB
  v.out_channels = c.integer("out_channels", 3, 3);
  v.latent_channels = c.integer("latent_channels", 1, 1024);
  v.block_out_channels = c.integers("block_out_channels", 1, 16384);
  if (v.block_out_channels.empty() || v.block_out_channels.size() > 16)
    fail(ErrorKind::model, "{}: \"block_out_channels\" has {} entries, wanted 1 to 16", c.origin(), v.block_out_channels.size());
  v.spatial_downsample_factors = per_level(c, "spatial_downsample_factors", v.block_out_channels.size());
  v.temporal_downsample_factors = per_level(c, "temporal_downsample_factors", v.block_out_channels.size());
  v.layers_per_block = c.integer("layers_per_block", 1, 64);
  v.norm_num_groups = c.integer("norm_num_groups", 1, 16384);
  v.norm_eps = static_cast<float>(c.number("norm_eps", 0, 1));
  check_levels(c, v);
  if (std::string mode = c.text("spatial_padding_mode"); mode != "reflect")
    fail(ErrorKind::model, "{}: \"spatial_padding_mode\" is \"{}\", wanted \"reflect\", the only one that is built", c.origin(), mode);
  v.decoder_num_layers = c.integer("decoder_num_layers", 1, 512);
  v.decoder_num_attention_heads = c.integer("decoder_num_attention_heads", 1, 1024);
  v.decoder_attention_head_dim = c.integer("decoder_attention_head_dim", 1, 1024);
  v.decoder_num_register_tokens = c.integer("decoder_num_register_tokens", 0, 4096);
  v.decoder_ffn_mult = c.integer("decoder_ffn_mult", 1, 64);
  v.decoder_rope_theta = c.number("decoder_rope_theta", 1, 1e12);
  v.decoder_rope_dim_ratio = c.number("decoder_rope_dim_ratio", 0, 1);
  if (v.rope_dim() < 6 || v.rope_dim() % 6)
    fail(ErrorKind::model, "{}: \"decoder_attention_head_dim\" {} times \"decoder_rope_dim_ratio\" {} rotates {} channels, wanted a multiple of 6",
         c.origin(), v.decoder_attention_head_dim, v.decoder_rope_dim_ratio, v.rope_dim());
  v.decoder_norm_eps = static_cast<float>(c.number("decoder_norm_eps", 0, 1));
  v.clip_length = c.integer("clip_length", 1, 1024);
  v.token_drop = c.integer("token_drop", 0, v.tokens_chunk_size() - 1);
  v.latents_mean = c.floats("latents_mean", static_cast<size_t>(v.latent_channels));
  v.latents_std = c.floats("latents_std", static_cast<size_t>(v.latent_channels), 1e-6f);
  return v;
}

TensorSpecs video_vae_specs(const VideoVaeConfig& c) {
  TensorSpecs specs;
  Table t(specs);
  encoder_specs(t, c);
  decoder_specs(t, c);
  for (TensorSpec& s : specs)
    if (TensorSource other = released_source(s.name, c.decoder_num_attention_heads); other.name != s.name) s.sources = {std::move(other)};
  // What the config says, and a token that nothing reads.
  for (const char* name : {"latents_mean", "latents_std", "decoder.mask_token"}) specs.push_back({name, {}, TensorSpec::Use::foreign});
  return specs;
}

}  // namespace zt::h3

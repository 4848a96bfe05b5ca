#include "models/minimax_h3/audio_vae_config.h"

#include <functional>
#include <numeric>

namespace zt::h3 {

namespace {

constexpr int64_t kMaxHop = 1 << 20;

int64_t product(const std::vector<int64_t>& v) { return std::accumulate(v.begin(), v.end(), int64_t{1}, std::multiplies<>()); }

std::vector<int64_t> list(const JsonView& c, const std::string& key, int64_t low, int64_t high, size_t most) {
  auto v = c.integers(key, low, high);
  if (v.empty() || v.size() > most)
    fail(ErrorKind::model, "{}: \"{}\" has {} entries, wanted 1 to {}", c.origin(), key, v.size(), most);
  return v;
}

void parse_decoder(const JsonView& c, AudioVaeConfig& a) {
  a.decoder_dim = c.integer("decoder_dim", 1, 65536);
  a.decoder_rates = list(c, "decoder_rates", 1, 64, 12);
  a.decoder_kernel_sizes = list(c, "decoder_kernel_sizes", 1, 256, 12);
  if (a.decoder_kernel_sizes.size() != a.decoder_rates.size())
    fail(ErrorKind::model, "{}: \"decoder_kernel_sizes\" has {} entries, wanted {}, one for each of \"decoder_rates\"", c.origin(),
         a.decoder_kernel_sizes.size(), a.decoder_rates.size());
  for (size_t i = 0; i < a.decoder_rates.size(); ++i)
    if (a.decoder_kernel_sizes[i] < a.decoder_rates[i] || (a.decoder_kernel_sizes[i] - a.decoder_rates[i]) % 2)
      fail(ErrorKind::model, "{}: \"decoder_kernel_sizes\" holds {} for the rate {}, wanted the rate plus an even number", c.origin(),
           a.decoder_kernel_sizes[i], a.decoder_rates[i]);
  if (a.stage_channels(a.decoder_rates.size() - 1) < 1)
    fail(ErrorKind::model, "{}: \"decoder_dim\" {} is halved {} times, wanted at least {}", c.origin(), a.decoder_dim, a.decoder_rates.size(),
         int64_t{1} << a.decoder_rates.size());
  a.resblock_kernel_sizes = list(c, "resblock_kernel_sizes", 1, 255, 16);
  for (int64_t k : a.resblock_kernel_sizes)
    if (k % 2 == 0) fail(ErrorKind::model, "{}: \"resblock_kernel_sizes\" holds {}, wanted odd numbers", c.origin(), k);
  const Json& dilations = c.at("resblock_dilation_sizes");
  if (!dilations.is_array() || dilations.size() != a.resblock_kernel_sizes.size())
    fail(ErrorKind::model, "{}: \"resblock_dilation_sizes\" wants a list of {} lists, one for each of \"resblock_kernel_sizes\"", c.origin(),
         a.resblock_kernel_sizes.size());
  for (const Json& d : dilations) {
    const Json wrapped = {{"resblock_dilation_sizes", d}};
    a.resblock_dilation_sizes.push_back(list(JsonView(wrapped, c.origin()), "resblock_dilation_sizes", 1, 1024, 16));
  }
}

class Table {
 public:
  explicit Table(TensorSpecs& specs) : specs_(specs) {}
  void add(const std::string& name, Shape shape, TensorSpec::Use use) { specs_.push_back({.name = name, .shape = std::move(shape), .use = use}); }
  void vector(const std::string& name, int64_t n) { add(name, {n}, TensorSpec::Use::vector); }
  void linear(const std::string& prefix, int64_t out, int64_t in) {
    add(prefix + ".weight", {out, in}, TensorSpec::Use::island);
    vector(prefix + ".bias", out);
  }
  // A weight-normalised convolution: g over dim 0, v as PyTorch keeps the weight. The graph editors' file has g * v / |v| as one weight.
  void conv(const std::string& prefix, int64_t dim0, int64_t dim1, int64_t kernel, int64_t bias) {
    add(prefix + ".weight_g", {dim0, 1, 1}, TensorSpec::Use::vector);
    specs_.back().sources = {{prefix + ".weight", TensorSource::Rows::norms}};
    add(prefix + ".weight_v", {dim0, dim1, kernel}, TensorSpec::Use::island);
    specs_.back().sources = {{prefix + ".weight"}};
    if (bias) vector(prefix + ".bias", bias);
  }
  void pointwise(const std::string& prefix, int64_t out, int64_t in, TensorSpec::Use use = TensorSpec::Use::island) {
    add(prefix + ".weight", {out, in, 1}, use);
    add(prefix + ".bias", {out}, use == TensorSpec::Use::dead ? use : TensorSpec::Use::vector);
  }
  void norm(const std::string& prefix, int64_t n) {
    vector(prefix + ".weight", n);
    vector(prefix + ".bias", n);
  }
  void snake(const std::string& name, int64_t n) { add(name + ".alpha", {1, n, 1}, TensorSpec::Use::vector); }
  void activation(const std::string& prefix, int64_t n) {
    vector(prefix + ".act.alpha", n);
    vector(prefix + ".act.beta", n);
    add(prefix + ".upsample.filter", {1, 1, kFilterTaps}, TensorSpec::Use::vector);
    add(prefix + ".downsample.lowpass.filter", {1, 1, kFilterTaps}, TensorSpec::Use::vector);
  }

 private:
  TensorSpecs& specs_;
};

void encoder_specs(Table& t, const AudioVaeConfig& c) {
  int64_t dim = c.encoder_dim;
  t.conv("encoder.block.0", dim, 1, 7, dim);
  size_t i = 1;
  for (int64_t rate : c.encoder_rates) {
    const std::string block = fmt::format("encoder.block.{}.block.", i++);
    for (int unit = 0; unit < 3; ++unit) {
      const std::string p = fmt::format("{}{}.block.", block, unit);
      t.snake(p + "0", dim);
      t.conv(p + "1", dim, dim, 7, dim);
      t.snake(p + "2", dim);
      t.conv(p + "3", dim, dim, 1, dim);
    }
    t.snake(block + "3", dim);
    t.conv(block + "4", 2 * dim, dim, 2 * rate, 2 * dim);
    dim *= 2;
  }
  t.snake(fmt::format("encoder.block.{}", i), dim);
  t.conv(fmt::format("encoder.block.{}", i + 1), c.latent_dim, dim, 3, c.latent_dim);
}

void pre_block_specs(Table& t, const AudioVaeConfig& c) {
  const int64_t in = c.latent_dim, out = c.latent_channels;
  t.norm("pre_block.norm1", in);
  t.add("pre_block.attn.qkv.weight", {3 * in, in}, TensorSpec::Use::island);
  t.vector("pre_block.attn.q_bias", in);
  t.vector("pre_block.attn.v_bias", in);
  t.vector("pre_block.attn.zero_k_bias", in);
  t.linear("pre_block.attn.proj", out, out);
  t.linear("pre_block.proj", out, in);
  t.norm("pre_block.norm3", in);
  t.norm("pre_block.norm2", out);
  t.norm("pre_block.mlp.norm", out);
  t.linear("pre_block.mlp.w0", 2 * out, out);
  t.linear("pre_block.mlp.w1", 2 * out, out);
  t.linear("pre_block.mlp.w2", out, 2 * out);
  t.pointwise("mean_proj", out, out);
  t.pointwise("logs_proj", out, out, TensorSpec::Use::dead);   // H3 takes the posterior's mean
}

void decoder_specs(Table& t, const AudioVaeConfig& c) {
  t.pointwise("dec_in_proj", c.latent_dim, c.latent_channels);
  t.conv("decoder.conv_pre", c.decoder_dim, c.latent_dim, 7, c.decoder_dim);
  const size_t blocks = c.resblock_kernel_sizes.size();
  int64_t channels = c.decoder_dim;
  for (size_t s = 0; s < c.decoder_rates.size(); ++s) {
    const int64_t in = std::exchange(channels, c.stage_channels(s));
    t.conv(fmt::format("decoder.ups.{}.0", s), in, channels, c.decoder_kernel_sizes[s], channels);
    for (size_t b = 0; b < blocks; ++b) {
      const std::string p = fmt::format("decoder.resblocks.{}.", s * blocks + b);
      for (size_t u = 0; u < c.resblock_dilation_sizes[b].size(); ++u) {
        t.conv(fmt::format("{}convs1.{}", p, u), channels, channels, c.resblock_kernel_sizes[b], channels);
        t.conv(fmt::format("{}convs2.{}", p, u), channels, channels, c.resblock_kernel_sizes[b], channels);
        t.activation(fmt::format("{}activations.{}", p, 2 * u), channels);
        t.activation(fmt::format("{}activations.{}", p, 2 * u + 1), channels);
      }
    }
  }
  t.activation("decoder.activation_post", channels);
  t.conv("decoder.conv_post", 1, channels, 7, 0);
}

}  // namespace

int64_t AudioVaeConfig::hop() const { return product(encoder_rates); }

AudioVaeConfig parse_audio_vae_config(const JsonView& c) {
  AudioVaeConfig a;
  a.encoder_dim = c.integer("encoder_dim", 1, 8192);
  a.encoder_rates = list(c, "encoder_rates", 2, 64, 12);
  a.latent_dim = c.integer("latent_dim", 1, 65536);
  a.latent_channels = c.integer("latent_channels", 1, 4096);
  a.num_attention_heads = c.integer("num_attention_heads", 1, 1024);
  if (a.latent_dim % a.latent_channels || a.latent_dim % a.num_attention_heads)
    fail(ErrorKind::model, "{}: \"latent_dim\" is {}, wanted a multiple of \"latent_channels\" {} and of \"num_attention_heads\" {}", c.origin(),
         a.latent_dim, a.latent_channels, a.num_attention_heads);
  parse_decoder(c, a);
  // The limit comes first: the product of twelve rates need not fit in 64 bits.
  double hop = 1;
  for (int64_t r : a.encoder_rates) hop *= static_cast<double>(r);
  if (hop > static_cast<double>(kMaxHop)) fail(ErrorKind::model, "{}: \"encoder_rates\" multiply to {}, wanted at most {}", c.origin(), hop, kMaxHop);
  double up = 1;
  for (int64_t r : a.decoder_rates) up *= static_cast<double>(r);
  if (up != hop)
    fail(ErrorKind::model, "{}: \"decoder_rates\" multiply to {}, wanted {} as \"encoder_rates\" do", c.origin(), up, hop);
  a.sampling_rate = c.integer("sampling_rate", 1000, 768000);
  a.latents_mean = c.floats("latents_mean", static_cast<size_t>(a.latent_channels));
  a.latents_std = c.floats("latents_std", static_cast<size_t>(a.latent_channels), 1e-6f);
  return a;
}

TensorSpecs audio_vae_specs(const AudioVaeConfig& c) {
  TensorSpecs specs;
  Table t(specs);
  encoder_specs(t, c);
  pre_block_specs(t, c);
  decoder_specs(t, c);
  for (const char* name : {"latents_mean", "latents_std"}) t.add(name, {}, TensorSpec::Use::foreign);   // the config says them
  return specs;
}

}  // namespace zt::h3

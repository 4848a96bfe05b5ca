#include "models/minimax_h3/audio_vae.h"

#include <algorithm>


namespace zt::h3 {

namespace {

constexpr int64_t kPiece = 64;   // latents read at a time
constexpr int64_t kEndless = int64_t{1} << 40;   // latents of an open stream: 870 years

AudioVaeConfig read_config(const std::string& folder) {
  const std::string path = folder + "/config.json";
  const Json json = read_json(path);
  return parse_audio_vae_config({json, path});
}

class Stream final : public SoundStream {
 public:
  Stream(const AudioVae& vae, Tensor latents, int64_t piece, bool normalised, bool open)
      : config_(vae.config()), latents_(std::move(latents)), piece_(piece), normalised_(normalised), open_(open) {
    if (latents_.shape().size() != 3 || latents_.dim(1) != config_.latent_channels)
      fail(ErrorKind::internal, "audio latents to decode are {}, wanted [channels, {}, T]", to_string(latents_.shape()), config_.latent_channels);
    if (latents_.dim(0) < 1 || latents_.dim(2) < 1) fail(ErrorKind::request, "no audio latents to decode, wanted at least one");
    for (int64_t i = 0; i < latents_.dim(0); ++i) channels_.emplace_back(vae.decoder(), open ? kEndless : latents_.dim(2));
  }

  bool next(const Ctx& ctx, SoundChunk& chunk) override {
    for (AudioDecoding& d : channels_) d.drop_samples(given_);
    given_ = 0;
    while (channels_[0].ready_samples() == 0) {
      if (fed_ == latents_.dim(2)) return false;
      feed(ctx);
    }
    given_ = channels_[0].ready_samples();
    chunk = {.first_sample = channels_[0].first_sample(), .count = given_, .channels = {}};
    for (const AudioDecoding& d : channels_) chunk.channels.push_back(d.samples());
    return true;
  }

  void append(const Tensor& more) override {
    if (!open_ || more.shape().size() != 3 || more.dim(0) != latents_.dim(0) || more.dim(1) != latents_.dim(1))
      fail(ErrorKind::internal, "audio latents {} cannot follow {} in {} stream", to_string(more.shape()), to_string(latents_.shape()), open_ ? "an open" : "a closed");
    const int64_t rows = latents_.dim(0) * latents_.dim(1), rest = latents_.dim(2) - fed_, n = more.dim(2);
    Tensor all({latents_.dim(0), latents_.dim(1), rest + n});
    for (int64_t r = 0; r < rows; ++r) {
      std::copy_n(latents_.data() + r * latents_.dim(2) + fed_, rest, all.data() + r * (rest + n));
      std::copy_n(more.data() + r * n, n, all.data() + r * (rest + n) + rest);
    }
    latents_ = std::move(all), fed_ = 0;
  }

 private:
  void feed(const Ctx& ctx) {
    if (broken_) fail(ErrorKind::internal, "an audio decode goes on after it was cancelled; start a new one");
    broken_ = true;
    const int64_t n = std::min(piece_, latents_.dim(2) - fed_);
    for (size_t i = 0; i < channels_.size(); ++i) {
      Arena::Scope scope(ctx.arena());
      Mat z = ctx.mat(n, config_.latent_channels);
      for (int64_t k = 0; k < z.cols; ++k) {
        const float* row = latents_.data() + (static_cast<int64_t>(i) * z.cols + k) * latents_.dim(2) + fed_;
        const auto at = static_cast<size_t>(k);
        for (int64_t t = 0; t < n; ++t) z.row(t)[k] = normalised_ ? row[t] * config_.latents_std[at] + config_.latents_mean[at] : row[t];
      }
      channels_[i].feed(ctx, z);
    }
    fed_ += n;
    broken_ = false;
  }

  const AudioVaeConfig& config_;
  Tensor latents_;
  int64_t piece_, fed_ = 0, given_ = 0;   // latents; samples of the chunk that is out
  bool normalised_, open_, broken_ = false;   // broken: a feed was cut short
  std::vector<AudioDecoding> channels_;
};

}  // namespace

AudioVae::AudioVae(const Ops& ops, const Weights& weights, const AudioVaeConfig& config, bool with_encoder)
    : config_(config), decoder_(load_audio_decoder(weights, ops, config)) {
  if (with_encoder) encoder_ = load_audio_encoder(weights, ops, config);
}

AudioVae::AudioVae(const Ops& ops, const std::string& folder, bool with_encoder)
    : AudioVae(ops, Weights(open_checkpoint(folder), audio_vae_specs(read_config(folder)), folder), read_config(folder), with_encoder) {}

std::unique_ptr<AudioVae> load_audio_vae(const Ops& ops, const std::string& folder, bool with_encoder) {
  return std::make_unique<AudioVae>(ops, folder, with_encoder);
}

Tensor AudioVae::encode(const Ctx& ctx, const Sound& sound) const {
  if (!encoder_) fail(ErrorKind::internal, "the audio VAE was loaded without its encoder; load it with_encoder");
  if (sound.samples() < 1) fail(ErrorKind::request, "the sound to encode is empty, wanted at least one sample");
  if (sound.sample_rate != sample_rate())
    fail(ErrorKind::request, "the sound to encode has {} Hz, wanted {}; resample it", sound.sample_rate, sample_rate());
  const int64_t latents = (sound.samples() + hop() - 1) / hop();
  Tensor means({static_cast<int64_t>(sound.channels.size()), config_.latent_channels, latents});
  float* to = means.data();
  for (const std::vector<float>& channel : sound.channels) {
    if (static_cast<int64_t>(channel.size()) != sound.samples()) fail(ErrorKind::request, "the channels of the sound to encode differ in length");
    std::vector<float> padded(channel);
    padded.resize(static_cast<size_t>(latents * hop()), 0.0f);
    Tensor mono = encode_mono(ctx, *encoder_, config_, padded);
    for (int64_t k = 0; k < config_.latent_channels; ++k)
      for (int64_t t = 0; t < latents; ++t) *to++ = mono.data()[t * config_.latent_channels + k];
  }
  return means;
}

std::unique_ptr<SoundStream> AudioVae::decode(Tensor latents) const { return decode_pieces(std::move(latents), kPiece, true); }

std::unique_ptr<SoundStream> AudioVae::decode_pieces(Tensor latents, int64_t piece, bool normalised) const {
  return std::make_unique<Stream>(*this, std::move(latents), piece, normalised, false);
}

std::unique_ptr<SoundStream> AudioVae::open(Tensor latents) const { return std::make_unique<Stream>(*this, std::move(latents), kPiece, true, true); }

}  // namespace zt::h3

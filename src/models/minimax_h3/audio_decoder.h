#pragma once
// The BigVGAN decoder of the audio VAE, fed piece by piece: every layer works on what has arrived and keeps only the rows that
// its next outputs will see. No row is computed twice, so a piecewise decode gives the samples of a whole one.
// Source: diffusers autoencoder_kl_minimax_h3_audio.py, MiniMaxH3AudioBigVGANDecoder.
#include <memory>
#include <vector>

#include "models/minimax_h3/audio_track.h"
#include "models/minimax_h3/audio_vae_config.h"
#include "nn/conv.h"

namespace zt::h3 {

struct AudioDecoder {
  struct Activation {                              // SnakeBeta between a 2x upsampler and a 2x downsampler
    std::vector<float> alpha, beta;                // [channels], exponentiated
    std::vector<float> up_filter, down_filter;     // [kFilterTaps]
  };
  struct Unit {                                    // x += conv2(act2(conv1(act1 x)))
    Activation act1, act2;
    Conv1d conv1, conv2;
  };
  struct Stage {
    TransposedConv1d up;
    std::vector<std::vector<Unit>> blocks;         // their outputs are averaged
  };
  Linear dec_in_proj;
  Conv1d conv_pre, conv_post;
  std::vector<Stage> stages;
  Activation activation_post;
};

AudioDecoder load_audio_decoder(const Weights& w, const Ops& ops, const AudioVaeConfig& c);

// One mono decode under way.
class AudioDecoding {
 public:
  AudioDecoding(const AudioDecoder& decoder, int64_t latents);   // how many latents there will be
  // latents [n, latent_channels], denormalised. Throws Cancelled between layers; nothing may be fed after that.
  void feed(const Ctx& ctx, ConstMat latents);
  // Samples in [-1, 1] that are ready and were not taken yet; valid until the next call of feed or drop_samples.
  int64_t first_sample() const { return taken_; }
  int64_t ready_samples() const { return out_.filled() - taken_; }
  const float* samples() const { return out_.rows(taken_, 0).data; }
  void drop_samples(int64_t n);
  int64_t held_floats() const;                                   // in all tracks, between two pieces

 private:
  struct UnitTracks {
    Track activated1, hidden, activated2, out;
  };
  struct StageTracks {
    Track in, up;                                                // in: padded for the transposed convolution
    int64_t blocks_done = 0;                                     // blocks of `rate` rows made by the transposed convolution
    std::vector<std::vector<UnitTracks>> units;
  };
  static void upsample(const Ctx& ctx, const AudioDecoder::Stage& s, StageTracks& t);
  static int64_t run_block(const Ctx& ctx, const std::vector<AudioDecoder::Unit>& units, std::vector<UnitTracks>& tracks, const Track& in);
  static void run_stage(const Ctx& ctx, const AudioDecoder::Stage& s, StageTracks& t, Track& out);

  const AudioDecoder& d_;
  Track in_;                                                     // after dec_in_proj
  std::vector<StageTracks> stages_;
  Track last_, activated_, out_;
  int64_t taken_ = 0;
};

}  // namespace zt::h3

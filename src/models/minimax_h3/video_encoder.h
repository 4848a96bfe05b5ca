#pragma once
// The causal convolutional encoder of the video VAE. Frames go through one by one; every convolution keeps the two frames before,
// so no clip is ever held whole. Source: diffusers autoencoder_kl_minimax_h3.py, MiniMaxH3VideoEncoder3d.
#include <optional>
#include <vector>

#include "models/minimax_h3/video_vae_config.h"
#include "nn/conv.h"

namespace zt::h3 {

struct VideoEncoder {
  struct Norm {
    std::vector<float> weight, bias;   // [channels]
  };
  struct Resnet {
    Norm norm1, norm2;
    CausalConv3d conv1, conv2;
    std::optional<Linear> conv_shortcut;
  };
  struct Level {
    std::vector<Resnet> resnets;
    std::optional<CausalConv3d> downsampler;
    int64_t temporal_stride = 1, spatial_stride = 1;
  };
  CausalConv3d conv_in, conv_out;
  std::vector<Level> levels;
  Norm norm_out;
  Linear quant_conv;
};

VideoEncoder load_video_encoder(const Weights& w, const Ops& ops, const VideoVaeConfig& c);

// frame(t, plane) writes frame t < frames as [height * width, 3], ImageNet-normalised. Height and width are multiples of the spatial ratio
// and at least twice it. moments [latent frames * height / ratio * width / ratio, 2 * latent_channels]. Throws Cancelled between blocks.
using FrameSource = std::function<void(int64_t t, Mat plane)>;
void encode_clip(const Ctx& ctx, const VideoEncoder& e, const VideoVaeConfig& c, int64_t frames, int64_t height, int64_t width,
                 const FrameSource& frame, Mat moments);

}  // namespace zt::h3

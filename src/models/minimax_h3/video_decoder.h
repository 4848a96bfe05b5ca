#pragma once
// The ViT decoder of the video VAE: one token a latent voxel, full attention inside a tile of a clip.
// Source: diffusers autoencoder_kl_minimax_h3.py, MiniMaxH3VideoViTDecoder3d.
#include <vector>

#include "models/minimax_h3/video_vae_config.h"
#include "nn/linear.h"

namespace zt::h3 {

struct VideoDecoder {
  struct Block {
    std::vector<float> norm1, scale1, norm2, scale2;   // [dim]
    Linear qkv, out;                                   // dim -> 3 dim -> dim
    Linear fc1, fc2;                                   // dim -> [value; gate] -> dim
  };
  Linear post_quant_conv, proj_in;                     // latent -> latent -> dim, always float32
  std::vector<float> suffix;                           // [registers + 1, dim]: learned register tokens, then an all-zero token
  std::vector<Block> blocks;
  std::vector<float> norm_out_weight, norm_out_bias;   // [dim]
  Linear proj_out;                                     // dim -> (channel, frame, row, column) of a patch
};

// `compute`: f32, or bf16 for what multiplies inside blocks and for proj_out, as the reference at torch_dtype=bfloat16.
VideoDecoder load_video_decoder(const Weights& w, const Ops& ops, const VideoVaeConfig& c, Compute compute);

// latents [frames * height * width, latent_channels], denormalised, of one tile -> patches [same rows, patch_floats]: each row the pixels
// (channel, frame, row, column) of its voxel, in the VAE's ImageNet-normalised range. Throws Cancelled between blocks.
void decode_patches(const Ctx& ctx, const VideoDecoder& d, const VideoVaeConfig& c, ConstMat latents, int64_t frames, int64_t height,
                    int64_t width, Mat patches);

}  // namespace zt::h3

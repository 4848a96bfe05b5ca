#pragma once
// Resampling of pictures and sound with the arithmetic of the libraries that the reference uses, to the last bit where they
// work in integers. Here and not in the media room, because models need it and may not know FFmpeg.
#include "tensor/media.h"

namespace zt {

// PIL.Image.resize((width, height), LANCZOS) on RGB uint8: support 3 * max(scale, 1), horizontal then vertical pass, 8-bit
// intermediate, 22-bit fixed-point weights (Pillow src/libImaging/Resample.c).
Picture resize_lanczos(const Picture& in, int width, int height);
// torchvision resize(BICUBIC, antialias=True) on uint8 tensors: a = -0.5, output uint8 (ATen UpSampleKernel.cpp).
Picture resize_bicubic(const Picture& in, int width, int height);
Picture crop(const Picture& in, int left, int top, int width, int height);
// torchaudio.functional.resample: sinc_interp_hann, lowpass_filter_width 6, rolloff 0.99.
Sound resample(const Sound& in, int sample_rate);

}  // namespace zt

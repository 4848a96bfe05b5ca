#pragma once
// Resampling of pictures and sound with the arithmetic of the libraries that the reference uses, to the last bit where they
// work in integers. Here and not in the media room, because models need it and may not know FFmpeg.
#include "tensor/media.h"

namespace zt {

// PIL.Image.resize((width, height), LANCZOS) of Pillow 13 on RGB uint8: support 3 * max(scale, 1), two passes with an 8-bit
// intermediate, 22-bit fixed-point weights (Pillow src/libImaging/Resample.c). Errors (internal), all three: a size below 1.
Picture resize_lanczos(const Picture& in, int width, int height);
// torchvision resize(BICUBIC, antialias=True) on uint8 tensors: a = -0.5, output uint8 (ATen UpSampleKernel.cpp).
Picture resize_bicubic(const Picture& in, int width, int height);
// The box [left, left + width) x [top, top + height). Errors (internal): a box not inside `in`, or empty.
Picture crop(const Picture& in, int left, int top, int width, int height);
// torchaudio.transforms.Resample(in.sample_rate, sample_rate): sinc_interp_hann, lowpass_filter_width 6, rolloff 0.99, the
// filters made in float64 and rounded to float32. ceil(samples * new / old) samples come out. Errors (internal): a rate below 1.
Sound resample(const Sound& in, int sample_rate);

}  // namespace zt

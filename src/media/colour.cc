#include "media/colour.h"

#include <algorithm>

namespace zt {
namespace {

// Kr = 0.2126, Kb = 0.0722 times 219/255 (luma) and 224/255 (chroma), in 1/65536. Each chroma row sums to zero and the luma
// row to 219/255, so that grey has no colour and white is exactly 235.
constexpr int kBits = 16;
constexpr int kYR = 11966, kYG = 40254, kYB = 4064;
constexpr int kUR = -6596, kUG = -22189, kUB = 28785;
constexpr int kVR = 28785, kVG = -26145, kVB = -2640;
static_assert(kYR + kYG + kYB == 56284 && kUR + kUG + kUB == 0 && kVR + kVG + kVB == 0);

uint8_t luma(const uint8_t* p) {
  return static_cast<uint8_t>((kYR * p[0] + kYG * p[1] + kYB * p[2] + (16 << kBits) + (1 << (kBits - 1))) >> kBits);
}

// c: sums of eight weighted samples
uint8_t chroma(const int c[3], int r, int g, int b) {
  const int sum = r * c[0] + g * c[1] + b * c[2] + (128 << (kBits + 3)) + (1 << (kBits + 2));
  return static_cast<uint8_t>(std::clamp(sum >> (kBits + 3), 16, 240));
}

}  // namespace

void rgb_to_yuv420_bt709(const uint8_t* rgb, int width, int height, const Planes420& out) noexcept {
  const int64_t stride = int64_t{width} * 3;
  for (int y = 0; y < height; y++)
    for (int x = 0; x < width; x++) out.y[y * out.y_stride + x] = luma(rgb + y * stride + x * 3);
  for (int y = 0; y < height / 2; y++) {
    const uint8_t* top = rgb + 2 * y * stride;
    const uint8_t* bottom = top + stride;
    for (int x = 0; x < width / 2; x++) {
      const int here = 6 * x, left = std::max(here - 3, 0), right = here + 3;  // bytes; the left edge repeats
      int c[3];
      for (int i = 0; i < 3; i++)
        c[i] = top[left + i] + 2 * top[here + i] + top[right + i] + bottom[left + i] + 2 * bottom[here + i] + bottom[right + i];
      out.u[y * out.u_stride + x] = chroma(c, kUR, kUG, kUB);
      out.v[y * out.v_stride + x] = chroma(c, kVR, kVG, kVB);
    }
  }
}

}  // namespace zt

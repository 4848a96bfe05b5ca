#include "base/rng.h"

#include <bit>
#include <cmath>
#include <numbers>

namespace zt {

namespace {

// Natural logarithm of x in (0, 1]: Cephes single-precision polynomial on [sqrt(1/2), sqrt(2)) with torch's fused steps.
float cephes_log(float x) {
  constexpr float kPoly[] = {-1.1514610310E-1f, 1.1676998740E-1f,  -1.2420140846E-1f, 1.4249322787E-1f,
                             -1.6668057665E-1f, 2.0000714765E-1f,  -2.4999993993E-1f, 3.3333331174E-1f};
  x = std::max(x, 0x1p-126f);
  uint32_t u = std::bit_cast<uint32_t>(x);
  float e = static_cast<float>(static_cast<int>(u >> 23) - 127) + 1.0f;
  float m = std::bit_cast<float>((u & 0x807FFFFFu) | 0x3F000000u);   // mantissa in [0.5, 1)
  if (m < 0.707106781186547524f) {
    e -= 1.0f;
    m = (m - 1.0f) + m;
  } else {
    m = m - 1.0f;
  }
  float z = m * m, y = 7.0376836292E-2f;
  for (float k : kPoly) y = std::fma(y, m, k);
  y = std::fma(y * m, z, e * -2.12194440e-4f);
  y = y - z * 0.5f;
  return std::fma(e, 0.693359375f, m + y);
}

// Sine and cosine of x in [0, 2 pi): Cephes with a three-part pi/4.
void cephes_sincos(float x, float& sine, float& cosine) {
  int j = (static_cast<int>(x * 1.27323954473516f) + 1) & ~1;
  float q = static_cast<float>(j);
  x = std::fma(q, -0.78515625f, x);
  x = std::fma(q, -2.4187564849853515625e-4f, x);
  x = std::fma(q, -3.77489497744594108e-8f, x);
  float z = x * x;
  float yc = std::fma(std::fma(2.443315711809948E-5f, z, -1.388731625493765E-3f), z, 4.166664568298827E-2f);
  yc = std::fma(yc * z, z, -(z * 0.5f)) + 1.0f;
  float ys = std::fma(std::fma(-1.9515295891E-4f, z, 8.3321608736E-3f), z, -1.6666654611E-1f);
  ys = std::fma(ys * z, x, x);
  bool direct = (j & 2) == 0;
  uint32_t sign_s = static_cast<uint32_t>(j & 4) << 29, sign_c = static_cast<uint32_t>(~(j - 2) & 4) << 29;
  sine = std::bit_cast<float>(std::bit_cast<uint32_t>(direct ? ys : yc) ^ sign_s);
  cosine = std::bit_cast<float>(std::bit_cast<uint32_t>(direct ? yc : ys) ^ sign_c);
}

// Box-Muller on a block of 16 uniforms in place: j and j + 8 are a pair.
void normal_block(float* d) {
  for (int j = 0; j < 8; ++j) {
    float u1 = 1.0f - d[j], u2 = d[j + 8], s, c;
    float r = std::sqrt(-2.0f * cephes_log(u1));
    cephes_sincos(static_cast<float>(2.0 * std::numbers::pi) * u2, s, c);
    d[j] = r * c;
    d[j + 8] = r * s;
  }
}

}  // namespace

double TorchGenerator::uniform53() {
  uint64_t high = mt_(), low = mt_();
  return static_cast<double>(((high << 32) | low) & ((uint64_t{1} << 53) - 1)) * 0x1p-53;
}

double TorchGenerator::normal() {   // the second value of a pair waits for the next call
  if (cached_) {
    cached_ = false;
    return cache_;
  }
  double u1 = uniform53(), u2 = uniform53();
  double r = std::sqrt(-2.0 * std::log1p(-u2)), t = 2.0 * std::numbers::pi * u1;
  cache_ = r * std::sin(t);
  cached_ = true;
  return r * std::cos(t);
}

void TorchGenerator::randn(std::span<float> out) {
  const size_t n = out.size();
  if (n < 16) {   // small tensors go one value at a time, in double
    for (float& x : out) x = static_cast<float>(normal());
    return;
  }
  for (float& x : out) x = uniform();
  for (size_t i = 0; i + 16 <= n; i += 16) normal_block(&out[i]);
  if (n % 16) {   // the last 16 values are drawn again, over the tail of the block before
    float* p = out.data() + n - 16;
    for (int i = 0; i < 16; ++i) p[i] = uniform();
    normal_block(p);
  }
}

}  // namespace zt

#include "base/rng.h"

#include <bit>
#include <cmath>
#include <numbers>

#if defined(__x86_64__)
#include <immintrin.h>
#define ZT_AVX2 __attribute__((target("avx2,fma")))
#endif

namespace zt {

namespace {

constexpr float kLog[] = {7.0376836292E-2f,   -1.1514610310E-1f, 1.1676998740E-1f, -1.2420140846E-1f, 1.4249322787E-1f,
                          -1.6668057665E-1f,  2.0000714765E-1f,  -2.4999993993E-1f, 3.3333331174E-1f};
constexpr float kCos[] = {2.443315711809948E-5f, -1.388731625493765E-3f, 4.166664568298827E-2f};
constexpr float kSin[] = {-1.9515295891E-4f, 8.3321608736E-3f, -1.6666654611E-1f};
constexpr float kQuarter[] = {-0.78515625f, -2.4187564849853515625e-4f, -3.77489497744594108e-8f};   // pi/4 in three parts, negative

// Natural logarithm of x in (0, 1]: Cephes single-precision polynomial on [sqrt(1/2), sqrt(2)) with torch's fused steps.
float cephes_log(float x) {
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
  float z = m * m, y = 0;
  for (float k : kLog) y = std::fma(y, m, k);
  y = std::fma(y * m, z, e * -2.12194440e-4f);
  y = y - z * 0.5f;
  return std::fma(e, 0.693359375f, m + y);
}

// Sine and cosine of x in [0, 2 pi): Cephes with a three-part pi/4.
void cephes_sincos(float x, float& sine, float& cosine) {
  int j = (static_cast<int>(x * 1.27323954473516f) + 1) & ~1;
  float q = static_cast<float>(j);
  for (float part : kQuarter) x = std::fma(q, part, x);
  float z = x * x;
  float yc = std::fma(std::fma(kCos[0], z, kCos[1]), z, kCos[2]);
  yc = std::fma(yc * z, z, -(z * 0.5f)) + 1.0f;
  float ys = std::fma(std::fma(kSin[0], z, kSin[1]), z, kSin[2]);
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

#if defined(__x86_64__)
ZT_AVX2 inline __m256 splat(float x) { return _mm256_set1_ps(x); }

ZT_AVX2 inline __m256 cephes_log(__m256 x) {
  const __m256 one = splat(1), half = splat(0.5f);
  x = _mm256_max_ps(x, splat(0x1p-126f));
  const __m256i u = _mm256_castps_si256(x);
  __m256 e = _mm256_cvtepi32_ps(_mm256_sub_epi32(_mm256_srli_epi32(u, 23), _mm256_set1_epi32(126)));
  __m256 m = _mm256_castsi256_ps(_mm256_or_si256(_mm256_and_si256(u, _mm256_set1_epi32(0x007FFFFF)), _mm256_set1_epi32(0x3F000000)));
  const __m256 low = _mm256_cmp_ps(m, splat(0.707106781186547524f), _CMP_LT_OQ);
  e = _mm256_sub_ps(e, _mm256_and_ps(low, one));
  m = _mm256_add_ps(_mm256_sub_ps(m, one), _mm256_and_ps(low, m));
  __m256 z = _mm256_mul_ps(m, m), y = _mm256_setzero_ps();
  for (float k : kLog) y = _mm256_fmadd_ps(y, m, splat(k));
  y = _mm256_fmadd_ps(_mm256_mul_ps(y, m), z, _mm256_mul_ps(e, splat(-2.12194440e-4f)));
  y = _mm256_sub_ps(y, _mm256_mul_ps(z, half));
  return _mm256_fmadd_ps(e, splat(0.693359375f), _mm256_add_ps(m, y));
}

ZT_AVX2 inline void cephes_sincos(__m256 x, __m256& sine, __m256& cosine) {
  const __m256i two = _mm256_set1_epi32(2), four = _mm256_set1_epi32(4), one = _mm256_set1_epi32(1);
  const __m256i j = _mm256_andnot_si256(one, _mm256_add_epi32(_mm256_cvttps_epi32(_mm256_mul_ps(x, splat(1.27323954473516f))), one));
  const __m256 q = _mm256_cvtepi32_ps(j);
  for (float part : kQuarter) x = _mm256_fmadd_ps(q, splat(part), x);
  const __m256 z = _mm256_mul_ps(x, x);
  __m256 yc = _mm256_fmadd_ps(_mm256_fmadd_ps(splat(kCos[0]), z, splat(kCos[1])), z, splat(kCos[2]));
  yc = _mm256_add_ps(_mm256_fmsub_ps(_mm256_mul_ps(yc, z), z, _mm256_mul_ps(z, splat(0.5f))), splat(1));
  __m256 ys = _mm256_fmadd_ps(_mm256_fmadd_ps(splat(kSin[0]), z, splat(kSin[1])), z, splat(kSin[2]));
  ys = _mm256_fmadd_ps(_mm256_mul_ps(ys, z), x, x);
  const __m256 direct = _mm256_castsi256_ps(_mm256_cmpeq_epi32(_mm256_and_si256(j, two), _mm256_setzero_si256()));
  const __m256i sign_s = _mm256_slli_epi32(_mm256_and_si256(j, four), 29), sign_c = _mm256_slli_epi32(_mm256_andnot_si256(_mm256_sub_epi32(j, two), four), 29);
  sine = _mm256_xor_ps(_mm256_blendv_ps(yc, ys, direct), _mm256_castsi256_ps(sign_s));
  cosine = _mm256_xor_ps(_mm256_blendv_ps(ys, yc, direct), _mm256_castsi256_ps(sign_c));
}

// As normal_block(), to the same bits: without these instructions each fused step is a call.
ZT_AVX2 void normal_blocks_avx2(float* d, size_t count) {
  for (float* end = d + 16 * count; d < end; d += 16) {
    __m256 s, c;
    const __m256 r = _mm256_sqrt_ps(_mm256_mul_ps(splat(-2), cephes_log(_mm256_sub_ps(splat(1), _mm256_loadu_ps(d)))));
    cephes_sincos(_mm256_mul_ps(splat(static_cast<float>(2.0 * std::numbers::pi)), _mm256_loadu_ps(d + 8)), s, c);
    _mm256_storeu_ps(d, _mm256_mul_ps(r, c));
    _mm256_storeu_ps(d + 8, _mm256_mul_ps(r, s));
  }
}
#endif

void normal_blocks(float* d, size_t count) {
#if defined(__x86_64__)
  static const bool wide = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (wide) return normal_blocks_avx2(d, count);
#endif
  for (size_t i = 0; i < count; ++i) normal_block(d + 16 * i);
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
  normal_blocks(out.data(), n / 16);
  if (n % 16) {   // the last 16 values are drawn again, over the tail of the block before
    float* p = out.data() + n - 16;
    for (int i = 0; i < 16; ++i) p[i] = uniform();
    normal_block(p);
  }
}

}  // namespace zt

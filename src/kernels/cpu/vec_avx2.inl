// Eight float lanes. Included inside an anonymous namespace of a unit compiled with AVX2 and FMA.
using vf = __m256;
constexpr int kLanes = 8;

inline __m256i mask_of(int64_t n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(n >= 8 ? 8 : int(n)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
inline vf vload(const float* p) { return _mm256_loadu_ps(p); }
inline vf vload_n(const float* p, int64_t n) { return n >= 8 ? vload(p) : _mm256_maskload_ps(p, mask_of(n)); }
inline void vstore(float* p, vf v) { _mm256_storeu_ps(p, v); }
inline void vstore_n(float* p, int64_t n, vf v) { n >= 8 ? vstore(p, v) : _mm256_maskstore_ps(p, mask_of(n), v); }
inline void vstream(float* p, vf v) { _mm256_stream_ps(p, v); }   // past the caches; p on a vector's boundary
inline vf vset(float x) { return _mm256_set1_ps(x); }
inline vf vkeep(vf v, int64_t n) { return _mm256_and_ps(v, _mm256_castsi256_ps(mask_of(n))); }   // zero from lane n on
inline vf vzero() { return _mm256_setzero_ps(); }
inline vf vadd(vf a, vf b) { return _mm256_add_ps(a, b); }
inline vf vsub(vf a, vf b) { return _mm256_sub_ps(a, b); }
inline vf vmul(vf a, vf b) { return _mm256_mul_ps(a, b); }
inline vf vdiv(vf a, vf b) { return _mm256_div_ps(a, b); }
inline vf vfma(vf a, vf b, vf c) { return _mm256_fmadd_ps(a, b, c); }      // a b + c
inline vf vfnma(vf a, vf b, vf c) { return _mm256_fnmadd_ps(a, b, c); }    // c - a b
inline vf vmax(vf a, vf b) { return _mm256_max_ps(a, b); }                 // b if either is NaN
inline vf vmin(vf a, vf b) { return _mm256_min_ps(a, b); }
inline vf vabs(vf a) { return _mm256_andnot_ps(vset(-0.0f), a); }
inline vf vround(vf a) { return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
// p 2^n in two factors, since 2^n alone may be out of range while the product is not.
inline vf vscale2(vf p, vf n) {
  __m256i i = _mm256_cvtps_epi32(n), low = _mm256_srai_epi32(i, 1), high = _mm256_sub_epi32(i, low);
  const __m256i bias = _mm256_set1_epi32(127);
  vf a = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(low, bias), 23));
  vf b = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(high, bias), 23));
  return vmul(vmul(p, a), b);
}
inline vf vnegative(vf x, vf a, vf b) { return _mm256_blendv_ps(b, a, _mm256_cmp_ps(x, vzero(), _CMP_LT_OQ)); }  // x < 0 ? a : b
inline float vsum(vf a) {
  __m128 s = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  s = _mm_add_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_add_ss(s, _mm_shuffle_ps(s, s, 1)));
}
inline float vmax_all(vf a) {
  __m128 s = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  s = _mm_max_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_max_ss(s, _mm_shuffle_ps(s, s, 1)));
}
inline bool vall_finite(vf a) {   // exponent bits all ones: infinite or NaN
  const __m256i top = _mm256_set1_epi32(0x7F800000);
  return _mm256_testz_si256(_mm256_cmpeq_epi32(_mm256_and_si256(_mm256_castps_si256(a), top), top), _mm256_set1_epi32(-1));
}
// The lowest bytes of lanes 0 .. n as r, g, b, r, ...
inline void vstore_rgb(uint8_t* p, int64_t n, vf r, vf g, vf b) {
  const __m256i low = _mm256_set1_epi32(0xFF);
  const __m256i red = _mm256_and_si256(_mm256_castps_si256(r), low);
  const __m256i green = _mm256_slli_epi32(_mm256_and_si256(_mm256_castps_si256(g), low), 8);
  const __m256i blue = _mm256_slli_epi32(_mm256_and_si256(_mm256_castps_si256(b), low), 16);
  const __m256i close = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1));   // four pixels in twelve bytes
  const __m256i parts = _mm256_setr_epi32(0, 1, 2, 4, 5, 6, 3, 3);
  alignas(32) uint8_t bytes[32];
  _mm256_store_si256((__m256i*)bytes, _mm256_permutevar8x32_epi32(_mm256_shuffle_epi8(_mm256_or_si256(_mm256_or_si256(red, green), blue), close), parts));
  __builtin_memcpy(p, bytes, n < 8 ? size_t(3 * n) : 24);
}

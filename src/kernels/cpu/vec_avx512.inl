// Sixteen float lanes. Included inside an anonymous namespace of a unit compiled with AVX-512 F, BW, DQ and VL.
using vf = __m512;
constexpr int kLanes = 16;

inline __mmask16 mask_of(int64_t n) { return n >= 16 ? __mmask16(0xFFFF) : __mmask16((1u << n) - 1); }
inline vf vload(const float* p) { return _mm512_loadu_ps(p); }
inline vf vload_n(const float* p, int64_t n) { return _mm512_maskz_loadu_ps(mask_of(n), p); }
inline void vstore(float* p, vf v) { _mm512_storeu_ps(p, v); }
inline void vstore_n(float* p, int64_t n, vf v) { _mm512_mask_storeu_ps(p, mask_of(n), v); }
inline void vstream(float* p, vf v) { _mm512_stream_ps(p, v); }   // past the caches; p on a vector's boundary
inline vf vset(float x) { return _mm512_set1_ps(x); }
inline vf vkeep(vf v, int64_t n) { return _mm512_maskz_mov_ps(mask_of(n), v); }   // zero from lane n on
inline vf vzero() { return _mm512_setzero_ps(); }
inline vf vadd(vf a, vf b) { return _mm512_add_ps(a, b); }
inline vf vsub(vf a, vf b) { return _mm512_sub_ps(a, b); }
inline vf vmul(vf a, vf b) { return _mm512_mul_ps(a, b); }
inline vf vdiv(vf a, vf b) { return _mm512_div_ps(a, b); }
inline vf vfma(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }      // a b + c
inline vf vfnma(vf a, vf b, vf c) { return _mm512_fnmadd_ps(a, b, c); }    // c - a b
inline vf vmax(vf a, vf b) { return _mm512_max_ps(a, b); }                 // b if either is NaN
inline vf vmin(vf a, vf b) { return _mm512_min_ps(a, b); }
inline vf vabs(vf a) { return _mm512_abs_ps(a); }
inline vf vround(vf a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
inline vf vscale2(vf p, vf n) { return _mm512_scalef_ps(p, n); }           // p 2^n
inline vf vnegative(vf x, vf a, vf b) { return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, vzero(), _CMP_LT_OQ), b, a); }  // x < 0 ? a : b
inline float vsum(vf a) { return _mm512_reduce_add_ps(a); }
inline float vmax_all(vf a) { return _mm512_reduce_max_ps(a); }
inline bool vall_finite(vf a) {   // exponent bits all ones: infinite or NaN
  const __m512i top = _mm512_set1_epi32(0x7F800000);
  return _mm512_cmpeq_epi32_mask(_mm512_and_si512(_mm512_castps_si512(a), top), top) == 0;
}
// The lowest bytes of lanes 0 .. n as r, g, b, r, ...
inline void vstore_rgb(uint8_t* p, int64_t n, vf r, vf g, vf b) {
  const __m512i low = _mm512_set1_epi32(0xFF);
  const __m512i rg = _mm512_ternarylogic_epi32(low, _mm512_castps_si512(r), _mm512_slli_epi32(_mm512_castps_si512(g), 8), 0xCA);
  const __m512i rgb = _mm512_ternarylogic_epi32(_mm512_set1_epi32(0xFFFF), rg, _mm512_slli_epi32(_mm512_castps_si512(b), 16), 0xCA);
  const __m512i close = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1));   // four pixels in twelve bytes
  const __m512i parts = _mm512_setr_epi32(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, 3, 3, 3, 3);
  const __m512i bytes = _mm512_permutexvar_epi32(parts, _mm512_shuffle_epi8(rgb, close));
  const int64_t count = n < 16 ? 3 * n : 48;
  _mm512_mask_storeu_epi8(p, (uint64_t{1} << count) - 1, bytes);
}

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

// Coded weights back to bf16 tiles. A table gives the bf16 of each code; the scale of a column's 32 values is added to the exponent.

struct Code4 {   // byte b of a row of 32: codes b and b + 16
  __m512i table;
  explicit Code4(const uint16_t* t) : table(_mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i*)t))) {}
  static constexpr int64_t kRow = 16;
  static __m512i low_nibbles(const uint8_t* row) {
    const __m256i v = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i*)row));
    const __m256i low = _mm256_and_si256(v, _mm256_set1_epi16(15)), high = _mm256_srli_epi16(v, 4);
    return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
  }
  __m512i operator()(const uint8_t* row) const { return _mm512_permutexvar_epi16(low_nibbles(row), table); }
};

struct Code6 {   // 16 bytes of low nibbles as above, then 8 bytes: bits 2i, 2i + 1 of byte b are the high bits of code 8 i + b
  __m512i low, high, shift;
  explicit Code6(const uint16_t* t) : low(_mm512_loadu_si512(t)), high(_mm512_loadu_si512(t + 32)) {
    const __m512i i = _mm512_castsi128_si512(_mm_setzero_si128());
    shift = _mm512_inserti32x4(_mm512_inserti32x4(_mm512_inserti32x4(i, _mm_set1_epi16(2), 1), _mm_set1_epi16(4), 2), _mm_set1_epi16(6), 3);
    shift = _mm512_inserti32x4(shift, _mm_setzero_si128(), 0);
  }
  static constexpr int64_t kRow = 24;
  __m512i operator()(const uint8_t* row) const {
    const __m512i top = _mm512_broadcast_i32x4(_mm_cvtepu8_epi16(_mm_loadl_epi64((const __m128i*)(row + 16))));
    const __m512i bits = _mm512_and_si512(_mm512_srlv_epi16(top, shift), _mm512_set1_epi16(3));
    const __m512i code = _mm512_or_si512(Code4::low_nibbles(row), _mm512_slli_epi16(bits, 4));
    return _mm512_permutex2var_epi16(low, code, high);
  }
};

struct Code8 {
  __m512i t[8];
  explicit Code8(const uint16_t* table) {
    for (int i = 0; i < 8; ++i) t[i] = _mm512_loadu_si512(table + 32 * i);
  }
  static constexpr int64_t kRow = 32;
  __m512i operator()(const uint8_t* row) const {
    const __m512i code = _mm512_cvtepu8_epi16(_mm256_loadu_si256((const __m256i*)row));
    const __mmask32 b6 = _mm512_test_epi16_mask(code, _mm512_set1_epi16(64)), b7 = _mm512_test_epi16_mask(code, _mm512_set1_epi16(128));
    const __m512i a = _mm512_mask_blend_epi16(b6, _mm512_permutex2var_epi16(t[0], code, t[1]), _mm512_permutex2var_epi16(t[2], code, t[3]));
    const __m512i b = _mm512_mask_blend_epi16(b6, _mm512_permutex2var_epi16(t[4], code, t[5]), _mm512_permutex2var_epi16(t[6], code, t[7]));
    return _mm512_mask_blend_epi16(b7, a, b);
  }
};

// One panel: [k_tiles] of 32 scales and 32 rows of codes -> [k_tiles][column_tiles][16][16][2].
template <class Code>
inline void unpack_panel(const uint8_t* in, const uint16_t* table, int64_t k_tiles, int64_t column_tiles, uint16_t* out) {
  const Code code(table);
  const __m512i magnitude = _mm512_set1_epi16(0x7FFF), bias = _mm512_set1_epi32(127);
  for (int64_t t = 0; t < k_tiles; ++t, in += 32 + 32 * Code::kRow) {
    for (int64_t i = 0; i < 32 + 32 * Code::kRow; i += 64) _mm_prefetch((const char*)in + 4096 + i, _MM_HINT_T0);   // may look past the end
    for (int64_t v = 0; v < column_tiles; ++v) {
      // The exponent of a column stands beside both values of a pair.
      __m512i e = _mm512_sub_epi32(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i*)(in + 16 * v))), bias);
      e = _mm512_slli_epi32(e, 7);
      e = _mm512_or_si512(_mm512_slli_epi32(e, 16), _mm512_and_si512(e, _mm512_set1_epi32(0xFFFF)));
      const uint8_t* row = in + 32 + 16 * v * Code::kRow;
      for (int i = 0; i < 16; ++i, row += Code::kRow, out += 32) {
        const __m512i x = code(row);
        _mm512_store_si512(out, _mm512_mask_add_epi16(x, _mm512_test_epi16_mask(x, magnitude), x, e));
      }
    }
  }
}

inline void unpack_weights(const Bf16Block& p, const uint8_t* in, int64_t column_tiles) {
  if (p.code_bits == 4) unpack_panel<Code4>(in, p.code_table, p.k_tiles, column_tiles, p.unpacked);
  else if (p.code_bits == 6) unpack_panel<Code6>(in, p.code_table, p.k_tiles, column_tiles, p.unpacked);
  else unpack_panel<Code8>(in, p.code_table, p.k_tiles, column_tiles, p.unpacked);
}

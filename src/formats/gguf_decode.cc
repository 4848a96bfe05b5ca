// Values of GGUF's blocks. A block is a few scales and the codes of 32 or 256 values; the layouts are ggml's.
#include <cstring>

#include "formats/gguf.h"

namespace zt {

namespace {

float half_at(const uint8_t* p) {
  f16_t h;
  std::memcpy(&h, p, 2);
  return to_float(h);
}

// d (f16), then 16 bytes: value i in the low, value i + 16 in the high nibble. With `low`, a minimum (f16) follows d.
void q4(const uint8_t* p, bool with_min, float* out) {
  const float d = half_at(p), m = with_min ? half_at(p + 2) : 0;
  const uint8_t* q = p + (with_min ? 4 : 2);
  for (int i = 0; i < 16; ++i)
    for (int part = 0; part < 2; ++part) {
      const int code = part ? q[i] >> 4 : q[i] & 15;
      out[i + 16 * part] = with_min ? static_cast<float>(code) * d + m : static_cast<float>(code - 8) * d;
    }
}

// As q4, with the fifth bits of all 32 values in four bytes before the nibbles.
void q5(const uint8_t* p, bool with_min, float* out) {
  const float d = half_at(p), m = with_min ? half_at(p + 2) : 0;
  const uint8_t* q = p + (with_min ? 4 : 2);
  uint32_t high;
  std::memcpy(&high, q, 4);
  q += 4;
  for (int i = 0; i < 32; ++i) {
    const int code = (i < 16 ? q[i] & 15 : q[i - 16] >> 4) | static_cast<int>(high >> i & 1) << 4;
    out[i] = with_min ? static_cast<float>(code) * d + m : static_cast<float>(code - 16) * d;
  }
}

void q8_0(const uint8_t* p, float* out) {
  const float d = half_at(p);
  for (int i = 0; i < 32; ++i) out[i] = static_cast<float>(static_cast<int8_t>(p[2 + i])) * d;
}

// scales[16] (low nibble scale, high nibble minimum of 16 values), codes[64], d, dmin.
void q2_k(const uint8_t* p, float* out) {
  const uint8_t *scales = p, *q = p + 16;
  const float d = half_at(p + 80), low = half_at(p + 82);
  for (int i = 0; i < 256; ++i) {
    const int half = i / 128, pair = i % 128 / 32, at = i % 32;
    const uint8_t s = scales[i / 16];
    const int code = q[half * 32 + at] >> (2 * pair) & 3;
    out[i] = d * static_cast<float>(s & 15) * static_cast<float>(code) - low * static_cast<float>(s >> 4);
  }
}

// high bits[32], codes[64], 16 scales of 6 bits in 12 bytes, d.
void q3_k(const uint8_t* p, float* out) {
  const uint8_t *high = p, *q = p + 32, *s = p + 96;
  const float d = half_at(p + 108);
  for (int i = 0; i < 256; ++i) {
    const int group = i / 16, half = i / 128, pair = i % 128 / 32, at = i % 32;
    const int low = group < 8 ? s[group] & 15 : s[group - 8] >> 4, top = s[8 + group % 4] >> (2 * (group / 4)) & 3;
    const int code = (q[half * 32 + at] >> (2 * pair) & 3) - (high[at] >> (i / 32) & 1 ? 0 : 4);
    out[i] = d * static_cast<float>((low | top << 4) - 32) * static_cast<float>(code);
  }
}

// The 6-bit scale and minimum of group j (0 .. 7) in the 12 bytes of q4_k and q5_k.
void scale_min(const uint8_t* s, int j, float& scale, float& low) {
  const int a = j < 4 ? s[j] & 63 : (s[j + 4] & 15) | (s[j - 4] >> 6) << 4;
  const int b = j < 4 ? s[j + 4] & 63 : s[j + 4] >> 4 | (s[j] >> 6) << 4;
  scale = static_cast<float>(a), low = static_cast<float>(b);
}

// d, dmin, scales[12], for q5_k high bits[32], codes[128]: 64 values in 32 bytes, the first half in the low nibbles.
void q45_k(const uint8_t* p, bool five, float* out) {
  const float d = half_at(p), dmin = half_at(p + 2);
  const uint8_t *high = p + 16, *q = p + (five ? 48 : 16);
  for (int group = 0; group < 8; ++group) {
    float scale, low;
    scale_min(p + 4, group, scale, low);
    scale *= d, low *= dmin;
    for (int i = 0; i < 32; ++i) {
      const uint8_t byte = q[group / 2 * 32 + i];
      const int code = (group % 2 ? byte >> 4 : byte & 15) | (five ? (high[i] >> group & 1) << 4 : 0);
      out[group * 32 + i] = scale * static_cast<float>(code) - low;
    }
  }
}

// low nibbles[128], high pairs[64], scales[16] (signed), d.
void q6_k(const uint8_t* p, float* out) {
  const uint8_t *low = p, *high = p + 128;
  const auto* scales = reinterpret_cast<const int8_t*>(p + 192);
  const float d = half_at(p + 208);
  for (int i = 0; i < 256; ++i) {
    const int half = i / 128, quarter = i % 128 / 32, at = i % 32;
    const uint8_t byte = low[half * 64 + quarter % 2 * 32 + at];
    const int code = ((quarter < 2 ? byte & 15 : byte >> 4) | (high[half * 32 + at] >> (2 * quarter) & 3) << 4) - 32;
    out[i] = d * static_cast<float>(scales[i / 16]) * static_cast<float>(code);
  }
}

void decode_block(GgufType type, const uint8_t* p, float* out) {
  switch (type) {
    case GgufType::q4_0: return q4(p, false, out);
    case GgufType::q4_1: return q4(p, true, out);
    case GgufType::q5_0: return q5(p, false, out);
    case GgufType::q5_1: return q5(p, true, out);
    case GgufType::q8_0: return q8_0(p, out);
    case GgufType::q2_k: return q2_k(p, out);
    case GgufType::q3_k: return q3_k(p, out);
    case GgufType::q4_k: return q45_k(p, false, out);
    case GgufType::q5_k: return q45_k(p, true, out);
    case GgufType::q6_k: return q6_k(p, out);
    case GgufType::f32:
    case GgufType::f16:
    case GgufType::bf16: return;   // no blocks
  }
}

}  // namespace

void gguf_decode(GgufType type, const void* bytes, int64_t count, float* out) {
  if (type == GgufType::f32 || type == GgufType::f16 || type == GgufType::bf16) {
    const DType plain = type == GgufType::f32 ? DType::f32 : type == GgufType::f16 ? DType::f16 : DType::bf16;
    return to_float32({bytes, plain, {count}}, out);
  }
  const int64_t values = gguf_block_values(type), each = gguf_block_bytes(type);
  const auto* p = static_cast<const uint8_t*>(bytes);
  for (int64_t b = 0; b < count / values; ++b) decode_block(type, p + b * each, out + b * values);
}

}  // namespace zt

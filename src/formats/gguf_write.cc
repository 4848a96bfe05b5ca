#include "formats/gguf_write.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"

namespace zt {

namespace {

constexpr int64_t kAlignment = 32;
constexpr int kBlock = 32;
constexpr GgufType kWritable[] = {GgufType::f32, GgufType::f16, GgufType::bf16, GgufType::q8_0, GgufType::q6_k,
                                  GgufType::q5_k, GgufType::q5_1, GgufType::q5_0, GgufType::q4_k, GgufType::q4_1, GgufType::q4_0};

void put_half(uint8_t* p, float v) {
  const f16_t h = to_f16(v);
  std::memcpy(p, &h, 2);
}

// 0 where a scale is too small to have a reciprocal: the codes are then those of zeros.
float reciprocal(float d) {
  const float r = 1 / d;
  return std::isfinite(r) ? r : 0;
}

void q8_0(const float* x, uint8_t* p) {
  float top = 0;
  for (int i = 0; i < kBlock; ++i) top = std::max(top, std::abs(x[i]));
  const float d = top / 127, inverse = reciprocal(d);
  put_half(p, d);
  for (int i = 0; i < kBlock; ++i) p[2 + i] = static_cast<uint8_t>(static_cast<int8_t>(std::clamp(std::round(x[i] * inverse), -127.0f, 127.0f)));
}

// `bits` 4 or 5. With a minimum, codes count from it; without, the greatest magnitude becomes code 0 and the zero stands in the middle.
// The codes are taken with the scale before it is rounded to f16, as ggml does.
void q45(const float* x, int bits, bool with_min, uint8_t* p) {
  const int codes = 1 << bits;
  float d, base;
  if (with_min) {
    const auto [low, high] = std::minmax_element(x, x + kBlock);
    d = (*high - *low) / static_cast<float>(codes - 1), base = *low;
  } else {
    float extreme = 0;
    for (int i = 0; i < kBlock; ++i)
      if (std::abs(x[i]) > std::abs(extreme)) extreme = x[i];
    d = extreme / static_cast<float>(-codes / 2), base = 0;
  }
  const float inverse = reciprocal(d), half = with_min ? 0.5f : static_cast<float>(codes / 2) + 0.5f;
  put_half(p, d);
  p += 2;
  if (with_min) put_half(p, base), p += 2;
  uint32_t high = 0;
  uint8_t nibbles[kBlock / 2] = {};
  for (int i = 0; i < kBlock; ++i) {
    const float level = (x[i] - base) * inverse + half;   // NaN if the span is beyond float: 0
    const auto code = static_cast<uint32_t>(level > 0 ? std::min(level, static_cast<float>(codes - 1)) : 0.0f);
    nibbles[i % 16] = static_cast<uint8_t>(nibbles[i % 16] | (code & 15) << (i < 16 ? 0 : 4));
    high |= (code >> 4) << i;
  }
  if (bits == 5) std::memcpy(p, &high, 4), p += 4;
  std::memcpy(p, nibbles, sizeof nibbles);
}

// Nearest code; 0 for the NaN that comes of scales beyond f16, which the reader of the codes then sees as infinite.
uint8_t code_of(float x, float most) { return static_cast<uint8_t>(x > 0 ? std::min(std::nearbyint(x), most) : 0.0f); }

// Scale and minimum of 32 values in codes 0 .. top: of some that cut the ends off more and more, the one with the least squared error.
void fit(const float* x, int top, float& scale, float& low) {
  const auto [a, b] = std::minmax_element(x, x + kBlock);
  const float from = std::min(*a, 0.0f), to = std::max(*b, from);
  double best = -1;
  for (int step = 0; step < 8; ++step) {
    const float keep = 1 - 0.03f * static_cast<float>(step), s = (to - from) * keep / static_cast<float>(top), m = from * keep, inverse = reciprocal(s);
    double error = 0;
    for (int i = 0; i < kBlock; ++i) {
      const double d = static_cast<double>(code_of((x[i] - m) * inverse, static_cast<float>(top))) * s + m - x[i];
      error += d * d;
    }
    if (best < 0 || error < best) best = error, scale = s, low = m;
  }
}

// d, dmin, eight scales and minima of 6 bits in 12 bytes, for q5_k high bits[32], codes[128]; the layout of gguf_decode's q45_k.
void q45_k(const float* x, bool five, uint8_t* p) {
  const int top = five ? 31 : 15;
  float scale[8], low[8], most = 0, least = 0;
  for (int j = 0; j < 8; ++j) {
    fit(x + kBlock * j, top, scale[j], low[j]);
    most = std::max(most, scale[j]), least = std::min(least, low[j]);
  }
  std::memset(p, 0, static_cast<size_t>(gguf_block_bytes(five ? GgufType::q5_k : GgufType::q4_k)));
  const f16_t d = to_f16(most / 63), dmin = to_f16(-least / 63);
  std::memcpy(p, &d, 2), std::memcpy(p + 2, &dmin, 2);
  uint8_t *s = p + 4, *high = p + 16, *q = p + (five ? 48 : 16);
  for (int j = 0; j < 8; ++j) {
    const uint8_t a = code_of(scale[j] * reciprocal(to_float(d)), 63), b = code_of(-low[j] * reciprocal(to_float(dmin)), 63);
    if (j < 4) {
      s[j] = static_cast<uint8_t>(s[j] | a), s[j + 4] = static_cast<uint8_t>(s[j + 4] | b);
    } else {
      s[j + 4] = static_cast<uint8_t>((a & 15) | (b & 15) << 4);
      s[j - 4] = static_cast<uint8_t>(s[j - 4] | (a >> 4) << 6), s[j] = static_cast<uint8_t>(s[j] | (b >> 4) << 6);
    }
    const float step = to_float(d) * static_cast<float>(a), base = to_float(dmin) * static_cast<float>(b), inverse = reciprocal(step);
    for (int i = 0; i < kBlock; ++i) {
      const uint8_t code = code_of((x[kBlock * j + i] + base) * inverse, static_cast<float>(top));
      uint8_t& byte = q[j / 2 * 32 + i];
      byte = static_cast<uint8_t>(byte | (code & 15) << (j % 2 ? 4 : 0));
      if (five) high[i] = static_cast<uint8_t>(high[i] | (code >> 4) << j);
    }
  }
}

// Low nibbles[128], high pairs[64], scales[16] (signed), d: the greatest magnitude of 16 values becomes code -32.
void q6_k(const float* x, uint8_t* p) {
  float scale[16], most = 0;
  for (int j = 0; j < 16; ++j) {
    float extreme = 0;
    for (int i = 16 * j; i < 16 * j + 16; ++i)
      if (std::abs(x[i]) > std::abs(extreme)) extreme = x[i];
    scale[j] = extreme / -32, most = std::max(most, std::abs(scale[j]));
  }
  std::memset(p, 0, static_cast<size_t>(gguf_block_bytes(GgufType::q6_k)));
  put_half(p + 208, most / 127);
  const float d = to_float(to_f16(most / 127));
  for (int i = 0; i < 256; ++i) {
    const auto a = static_cast<int8_t>(std::clamp(std::nearbyint(scale[i / 16] * reciprocal(d)), -127.0f, 127.0f));
    const int code = code_of(x[i] * reciprocal(d * static_cast<float>(a)) + 32, 63);
    const int half = i / 128, quarter = i % 128 / 32, at = i % 32;
    uint8_t &low = p[half * 64 + quarter % 2 * 32 + at], &high = p[128 + half * 32 + at];
    p[192 + i / 16] = static_cast<uint8_t>(a);
    low = static_cast<uint8_t>(low | (code & 15) << (quarter < 2 ? 0 : 4));
    high = static_cast<uint8_t>(high | (code >> 4) << (2 * quarter));
  }
}

template <class T>
void put(std::string& s, T v) {
  s.append(reinterpret_cast<const char*>(&v), sizeof v);
}

void put_text(std::string& s, const std::string& text) {
  put<uint64_t>(s, text.size());
  s += text;
}

constexpr uint32_t kInt32 = 5, kUint32 = 4, kString = 8, kArray = 9;

}  // namespace

bool gguf_writable(std::string_view name, GgufType& out) {
  for (GgufType t : kWritable)
    if (gguf_type_name(t) == name) return out = t, true;
  return false;
}

void gguf_encode(GgufType type, const float* x, int64_t count, void* out) {
  auto* p = static_cast<uint8_t*>(out);
  if (type == GgufType::f32) {
    std::memcpy(out, x, static_cast<size_t>(count) * sizeof(float));
  } else if (type == GgufType::f16) {
    for (int64_t i = 0; i < count; ++i) put_half(p + 2 * i, x[i]);
  } else if (type == GgufType::bf16) {
    for (int64_t i = 0; i < count; ++i) {
      const bf16_t b = to_bf16(x[i]);
      std::memcpy(p + 2 * i, &b, 2);
    }
  } else {
    for (int64_t i = 0; i < count; i += gguf_block_values(type), p += gguf_block_bytes(type)) {
      if (type == GgufType::q8_0) q8_0(x + i, p);
      else if (type == GgufType::q4_0 || type == GgufType::q4_1) q45(x + i, 4, type == GgufType::q4_1, p);
      else if (type == GgufType::q5_0 || type == GgufType::q5_1) q45(x + i, 5, type == GgufType::q5_1, p);
      else if (type == GgufType::q4_k || type == GgufType::q5_k) q45_k(x + i, type == GgufType::q5_k, p);
      else if (type == GgufType::q6_k) q6_k(x + i, p);
      else fail(ErrorKind::internal, "no encoder of {}", gguf_type_name(type));
    }
  }
}

GgufWriter::GgufWriter(const std::string& path, std::vector<GgufPlanned> tensors, const std::map<std::string, std::string>& strings,
                       const std::map<std::string, std::vector<int64_t>>& integer_lists)
    : file_(path), tensors_(std::move(tensors)) {
  std::string h = "GGUF";
  put<uint32_t>(h, 3);
  put<uint64_t>(h, tensors_.size());
  put<uint64_t>(h, strings.size() + integer_lists.size() + 1);
  for (const auto& [key, text] : strings) put_text(h, key), put(h, kString), put_text(h, text);
  put_text(h, "general.quantization_version"), put(h, kUint32), put<uint32_t>(h, 2);   // of the block layouts
  for (const auto& [key, list] : integer_lists) {
    put_text(h, key), put(h, kArray), put(h, kInt32), put<uint64_t>(h, list.size());
    for (int64_t v : list) put(h, static_cast<int32_t>(v));
  }
  int64_t offset = 0;
  for (const GgufPlanned& t : tensors_) {
    put_text(h, t.name);
    put<uint32_t>(h, static_cast<uint32_t>(t.shape.size()));
    for (size_t i = t.shape.size(); i-- > 0;) put<uint64_t>(h, static_cast<uint64_t>(t.shape[i]));
    put(h, static_cast<uint32_t>(t.type));
    put<uint64_t>(h, static_cast<uint64_t>(offset));
    offset += (t.bytes() + kAlignment - 1) / kAlignment * kAlignment;
  }
  file_.write(h.data(), h.size());
  at_ = static_cast<int64_t>(h.size());
  pad();
  left_ = tensors_.empty() ? 0 : tensors_[0].bytes();
}

void GgufWriter::pad() {
  constexpr char zeros[kAlignment] = {};
  const int64_t n = (kAlignment - at_ % kAlignment) % kAlignment;
  file_.write(zeros, static_cast<size_t>(n));
  at_ += n;
}

void GgufWriter::write(const void* data, size_t bytes) {
  if (static_cast<int64_t>(bytes) > left_) fail(ErrorKind::internal, "{}: more bytes than tensor {} of the file has", file_.path(), current_);
  file_.write(data, bytes);
  at_ += static_cast<int64_t>(bytes), left_ -= static_cast<int64_t>(bytes);
  while (left_ == 0 && current_ < tensors_.size()) {
    pad();
    if (++current_ < tensors_.size()) left_ = tensors_[current_].bytes();
  }
}

void GgufWriter::commit() {
  if (current_ < tensors_.size()) fail(ErrorKind::internal, "{}: tensor {} was not written whole", file_.path(), tensors_[current_].name);
  file_.commit();
}

}  // namespace zt

#include "formats/gguf_write.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"

namespace zt {

namespace {

constexpr int64_t kAlignment = 32;
constexpr int kBlock = 32;
constexpr GgufType kWritable[] = {GgufType::f32, GgufType::f16, GgufType::bf16, GgufType::q8_0, GgufType::q5_1, GgufType::q5_0, GgufType::q4_1, GgufType::q4_0};

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
    const auto code = static_cast<uint32_t>(std::clamp((x[i] - base) * inverse + half, 0.0f, static_cast<float>(codes - 1)));
    nibbles[i % 16] = static_cast<uint8_t>(nibbles[i % 16] | (code & 15) << (i < 16 ? 0 : 4));
    high |= (code >> 4) << i;
  }
  if (bits == 5) std::memcpy(p, &high, 4), p += 4;
  std::memcpy(p, nibbles, sizeof nibbles);
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
    for (int64_t i = 0; i < count; i += kBlock, p += gguf_block_bytes(type)) {
      if (type == GgufType::q8_0) q8_0(x + i, p);
      else if (type == GgufType::q4_0 || type == GgufType::q4_1) q45(x + i, 4, type == GgufType::q4_1, p);
      else if (type == GgufType::q5_0 || type == GgufType::q5_1) q45(x + i, 5, type == GgufType::q5_1, p);
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

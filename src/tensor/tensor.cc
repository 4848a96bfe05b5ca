#include "tensor/tensor.h"

#include <algorithm>
#include <cstring>

namespace zt {

int64_t element_count(const Shape& shape) {
  int64_t n = 1;
  for (int64_t d : shape)
    if (d < 0 || __builtin_mul_overflow(n, d, &n)) fail(ErrorKind::internal, "shape {}: no such number of elements", to_string(shape));
  return n;
}

std::string to_string(const Shape& shape) {
  std::string s = "[";
  for (size_t i = 0; i < shape.size(); ++i) s += (i ? ", " : "") + std::to_string(shape[i]);
  return s + "]";
}

Buffer::Buffer(size_t bytes) : size_(bytes) {
  if (bytes > size_t{1} << 46) fail(ErrorKind::internal, "a buffer of {} bytes was asked for; a size went wrong", bytes);
  size_t rounded = (std::max<size_t>(bytes, 1) + 63) / 64 * 64;
  data_.reset(std::aligned_alloc(64, rounded));
  if (!data_) fail(ErrorKind::resource, "out of memory: {} bytes could not be had", bytes);
  std::memset(data_.get(), 0, rounded);
}

namespace {
template <class T, class F>
void widen(const void* data, int64_t n, float* out, F convert) {
  const char* p = static_cast<const char*>(data);
  for (int64_t i = 0; i < n; ++i) {
    T x;
    std::memcpy(&x, p + i * sizeof(T), sizeof(T));   // safetensors bytes need not be aligned
    out[i] = convert(x);
  }
}
}  // namespace

void to_float32(const View& v, float* out) {
  const int64_t n = v.count();
  if (n == 0) return;
  auto plain = [](auto x) { return static_cast<float>(x); };
  switch (v.dtype) {
    case DType::f32: std::memcpy(out, v.data, static_cast<size_t>(n) * 4); return;
    case DType::f64: return widen<double>(v.data, n, out, plain);
    case DType::bf16: return widen<bf16_t>(v.data, n, out, [](bf16_t x) { return to_float(x); });
    case DType::f16: return widen<f16_t>(v.data, n, out, [](f16_t x) { return to_float(x); });
    case DType::f8_e4m3: return widen<uint8_t>(v.data, n, out, f8_e4m3_to_float);
    case DType::f8_e5m2: return widen<uint8_t>(v.data, n, out, f8_e5m2_to_float);
    case DType::i64: return widen<int64_t>(v.data, n, out, plain);
    case DType::i32: return widen<int32_t>(v.data, n, out, plain);
    case DType::i16: return widen<int16_t>(v.data, n, out, plain);
    case DType::i8: return widen<int8_t>(v.data, n, out, plain);
    case DType::u8:
    case DType::boolean: return widen<uint8_t>(v.data, n, out, plain);
  }
}

std::vector<float> to_float32(const View& view) {
  std::vector<float> out(static_cast<size_t>(view.count()));
  to_float32(view, out.data());
  return out;
}

}  // namespace zt

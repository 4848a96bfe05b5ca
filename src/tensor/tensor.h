#pragma once
// Views and owners of dense row-major memory. A View names bytes of any type; a Tensor owns 64-byte aligned float32;
// Mat and ConstMat are what kernels take: rows of float32 with a stride.
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "tensor/dtype.h"

namespace zt {

using Shape = std::vector<int64_t>;
int64_t element_count(const Shape& shape);    // 1 for a scalar; error (internal) for a negative dim or an overflow
std::string to_string(const Shape& shape);    // "[2, 3]"

// Bytes that somebody else owns.
struct View {
  const void* data = nullptr;
  DType dtype = DType::f32;
  Shape shape;
  int64_t count() const { return element_count(shape); }
  int64_t bytes() const { return count() * dtype_bytes(dtype); }
};

// Widens (or narrows f64, integers) to float32; `out` has room for view.count().
void to_float32(const View& view, float* out);
std::vector<float> to_float32(const View& view);

struct Mat {           // [rows, cols], row r at data + r * stride
  float* data = nullptr;
  int64_t rows = 0, cols = 0, stride = 0;
  float* row(int64_t r) const { return data + r * stride; }
  Mat rows_from(int64_t first, int64_t n) const { return {row(first), n, cols, stride}; }
  Mat cols_from(int64_t first, int64_t n) const { return {data + first, rows, n, stride}; }
};

struct ConstMat {
  const float* data = nullptr;
  int64_t rows = 0, cols = 0, stride = 0;
  ConstMat() = default;
  ConstMat(const float* data, int64_t rows, int64_t cols, int64_t stride) : data(data), rows(rows), cols(cols), stride(stride) {}
  ConstMat(const Mat& m) : data(m.data), rows(m.rows), cols(m.cols), stride(m.stride) {}
  const float* row(int64_t r) const { return data + r * stride; }
  ConstMat rows_from(int64_t first, int64_t n) const { return {row(first), n, cols, stride}; }
  ConstMat cols_from(int64_t first, int64_t n) const { return {data + first, rows, n, stride}; }
};

// 64-byte aligned bytes.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(size_t bytes);      // zero-filled; error (resource) if the system has no memory
  void* data() const { return data_.get(); }
  size_t size() const { return size_; }
  template <class T>
  T* as() const { return static_cast<T*>(data_.get()); }

 private:
  struct Free { void operator()(void* p) const { std::free(p); } };
  std::unique_ptr<void, Free> data_;
  size_t size_ = 0;
};

// An owned dense float32 array, zero-filled at birth.
class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(Shape shape) : shape_(std::move(shape)), buffer_(static_cast<size_t>(element_count(shape_)) * sizeof(float)) {}
  const Shape& shape() const { return shape_; }
  int64_t dim(int i) const { return shape_[static_cast<size_t>(i)]; }
  int64_t count() const { return shape_.empty() ? 0 : element_count(shape_); }
  bool empty() const { return count() == 0; }
  float* data() const { return buffer_.as<float>(); }
  View view() const { return {data(), DType::f32, shape_}; }
  // All leading dims as rows, the last one as columns.
  Mat mat() const { return {data(), shape_.back() ? count() / shape_.back() : 0, shape_.back(), shape_.back()}; }

 private:
  Shape shape_;
  Buffer buffer_;
};

}  // namespace zt

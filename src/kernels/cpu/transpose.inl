// out[d][width] = x[row][d] of at most `width` rows; missing rows become zeros.
void transpose_f32(const float* x, int64_t stride, int64_t rows, int64_t d, int64_t width, float* out) noexcept {
  for (int64_t i = 0; i < d; ++i) {
    float* y = out + i * width;
    for (int64_t r = 0; r < rows; ++r) y[r] = x[r * stride + i];
    for (int64_t r = rows; r < width; ++r) y[r] = 0;
  }
}

#include "pipeline/sampler.h"

#include <cmath>

namespace zt {

FlowSchedule flow_schedule(int64_t n, float shift) {
  if (n < 2) fail(ErrorKind::request, "{} grid points; at least 2 are needed (1 evaluation)", n);
  FlowSchedule s;
  const float step = (0.0f - 1.0f) / static_cast<float>(n - 1), extra = static_cast<float>(static_cast<double>(shift) - 1.0);
  for (int64_t i = 0; i < n; ++i) {
    // torch fills the first half from the start and the second from the end, with one rounding (fused on AVX2 and AVX-512)
    float base = i < n / 2 ? std::fma(step, static_cast<float>(i), 1.0f) : -(step * static_cast<float>(n - 1 - i));
    float sigma = shift * base / (1.0f + extra * base);
    if (s.sigmas.empty() || sigma != s.sigmas.back()) s.sigmas.push_back(sigma);
  }
  for (size_t i = 0; i + 1 < s.sigmas.size(); ++i) s.timesteps.push_back(1.0f - s.sigmas[i]);
  return s;
}

void flow_step(const FlowSchedule& s, int64_t i, ConstMat velocity, Mat x) {
  const float from_timestep = 1.0f - s.timesteps[static_cast<size_t>(i)];
  const float r = s.sigmas[static_cast<size_t>(i) + 1] / s.sigmas[static_cast<size_t>(i)], blend = 1.0f - r;
  for (int64_t row = 0; row < x.rows; ++row)
    for (int64_t c = 0; c < x.cols; ++c) {
      float& at = x.row(row)[c];
      const float denoised = at + from_timestep * velocity.row(row)[c];
      at = r * at + blend * denoised;
    }
}

void scale_noise(double t, ConstMat noise, Mat x) {
  const float level = static_cast<float>(t), rest = 1.0f - level;
  for (int64_t row = 0; row < x.rows; ++row)
    for (int64_t c = 0; c < x.cols; ++c) x.row(row)[c] = level * x.row(row)[c] + rest * noise.row(row)[c];
}

}  // namespace zt

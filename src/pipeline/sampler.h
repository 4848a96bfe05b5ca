#pragma once
// The flow schedulers of MiniMax-H3 in float32. Source: diffusers 0.42.1 scheduling_minimax_h3.py, torch.linspace.
#include <cstdint>
#include <vector>

#include "tensor/tensor.h"

namespace zt {

struct FlowSchedule {
  std::vector<float> sigmas;       // strictly decreasing from 1 to 0
  std::vector<float> timesteps;    // 1 - sigma, one per evaluation
  int64_t evaluations() const { return static_cast<int64_t>(timesteps.size()); }
};

// `grid_points` >= 2 points of linspace(1, 0) pushed through s b / (1 + (s - 1) b); equal neighbours collapse.
FlowSchedule flow_schedule(int64_t grid_points, float shift);

// One Euler step in place: x0 = x + (1 - t) v, x = r x + (1 - r) x0 with r = sigma_next / sigma.
void flow_step(const FlowSchedule& schedule, int64_t evaluation, ConstMat velocity, Mat x);

// t x + (1 - t) noise, in place.
void scale_noise(double t, ConstMat noise, Mat x);

}  // namespace zt

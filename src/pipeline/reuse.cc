#include "pipeline/reuse.h"

#include <cmath>

namespace zt {

namespace {

// Relative L2 distance of `now` from `before`, which then becomes `now`; -1 if there was nothing before.
double change(ConstMat now, std::vector<float>& before) {
  double difference = 0, norm = 0;
  const bool known = !before.empty();
  before.resize(static_cast<size_t>(now.rows * now.cols));
  for (int64_t r = 0; r < now.rows; ++r)
    for (int64_t c = 0; c < now.cols; ++c) {
      const double v = now.row(r)[c];
      float& b = before[static_cast<size_t>(r * now.cols + c)];
      difference += (v - b) * (v - b), norm += v * v;
      b = now.row(r)[c];
    }
  return known ? std::sqrt(difference / (norm > 0 ? norm : 1)) : -1;
}

}  // namespace

bool StepReuse::leave_out(int64_t index, int64_t count) {
  if (!plan_.on() || index + 1 >= count || video_change_ < 0 || since_ >= plan_.most) return false;
  const double steps = static_cast<double>(since_ + 1);
  if (steps * video_change_ > plan_.video || steps * sound_change_ > plan_.sound) return false;
  ++since_, ++left_out_;
  return true;
}

void StepReuse::computed(ConstMat video, ConstMat sound) {
  if (!plan_.on()) return;
  const double steps = static_cast<double>(since_ + 1);
  const double v = change(video, video_), s = change(sound, sound_);
  if (v >= 0) video_change_ = v / steps, sound_change_ = s / steps;
  since_ = 0;
}

}  // namespace zt

#pragma once
// Step reuse: when to leave an evaluation out and take the velocities of the last computed one again.
#include <vector>

#include "nn/plan.h"
#include "tensor/tensor.h"

namespace zt {

// Watches how much the velocities change from one computed evaluation to the next, for picture and sound apart, and foresees the same
// change for each evaluation left out. Decisions depend on the values alone, so a run is the same every time.
class StepReuse {
 public:
  explicit StepReuse(const ReusePlan& plan) : plan_(plan) {}
  // True: evaluation `index` of `count` may be left out. The first two and the last are always computed.
  bool leave_out(int64_t index, int64_t count);
  // Tells what an evaluation gave.
  void computed(ConstMat video, ConstMat sound);
  int64_t left_out() const { return left_out_; }

 private:
  ReusePlan plan_;
  std::vector<float> video_, sound_;          // of the last computed evaluation
  double video_change_ = -1, sound_change_ = -1;   // relative L2 for each step between the last two computed; -1: not known yet
  int64_t since_ = 0, left_out_ = 0;          // evaluations left out since the last computed one, and in all
};

}  // namespace zt

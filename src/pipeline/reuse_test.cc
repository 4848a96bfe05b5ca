#include "pipeline/reuse.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace zt {
namespace {

Tensor filled(float value) {
  Tensor t({2, 3});
  for (int64_t i = 0; i < t.count(); ++i) t.data()[i] = value;
  return t;
}

// Ten evaluations whose velocities change by `video` and `sound` of themselves each step; true where computed.
std::vector<bool> run(const ReusePlan& plan, float video, float sound) {
  StepReuse reuse(plan);
  std::vector<bool> out;
  float v = 1, s = 1;
  for (int64_t i = 0; i < 10; ++i, v += video, s += sound) {
    out.push_back(!reuse.leave_out(i, 10));
    if (out.back()) reuse.computed(filled(v).mat(), filled(s).mat());
  }
  return out;
}
int64_t count(const std::vector<bool>& v) { return std::count(v.begin(), v.end(), true); }

TEST(StepReuse, OffComputesEveryEvaluation) { EXPECT_EQ(count(run({}, 0, 0)), 10); }

TEST(StepReuse, StillVelocitiesAreTakenAgainAtMostSoManyTimesInARow) {
  const auto one = run({0.1, 0.1, 1}, 0, 0), three = run({0.1, 0.1, 3}, 0, 0);
  EXPECT_TRUE(one[0] && one[1] && one[9]);
  EXPECT_EQ(one, (std::vector<bool>{true, true, false, true, false, true, false, true, false, true}));
  EXPECT_EQ(three, (std::vector<bool>{true, true, false, false, false, true, false, false, false, true}));
}

TEST(StepReuse, EitherBudgetHoldsItBack) {
  EXPECT_EQ(count(run({0.1, 0.1, 1}, 0.5f, 0)), 10);
  EXPECT_EQ(count(run({0.1, 0.1, 1}, 0, 0.5f)), 10);
  EXPECT_LT(count(run({0.1, 1.0, 1}, 0.01f, 0.3f)), 10);
}

TEST(StepReuse, ForeseenChangesAddUp) {
  // 3 % a step against 5 %: one step may be left out, two would be 6 %.
  const auto r = run({0.05, 0.05, 5}, 0.03f, 0.0f);
  for (size_t i = 0; i + 1 < r.size(); ++i) EXPECT_TRUE(r[i] || r[i + 1]);
  EXPECT_LT(count(r), 10);
}

}  // namespace
}  // namespace zt

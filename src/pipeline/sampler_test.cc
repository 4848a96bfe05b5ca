#include "pipeline/sampler.h"

#include <gtest/gtest.h>

#include "formats/safetensors.h"

namespace zt {
namespace {

const char* kGolden = ZT_SOURCE_DIR "/tests/golden/a/golden.safetensors";

TEST(FlowSchedule, EqualsTheReferenceBitForBit) {
  SafetensorsFile golden(kGolden);
  int seen = 0;
  for (int n : {2, 5, 9, 20, 21, 50, 51})
    for (auto [name, shift] : {std::pair{"video", 12.0f}, {"audio", 3.0f}}) {
      const View* want = golden.find(fmt::format("unit.sigmas.{}.{}", name, n));
      ASSERT_NE(want, nullptr);
      const std::vector<float> wanted = to_float32(*want);
      EXPECT_EQ(flow_schedule(n, shift).sigmas, wanted) << name << " " << n;
      ++seen;
    }
  EXPECT_EQ(seen, 14);
}

TEST(FlowSchedule, CountsEvaluations) {
  EXPECT_EQ(flow_schedule(50, 12).evaluations(), 49);
  EXPECT_EQ(flow_schedule(2, 3).timesteps, std::vector<float>{0.0f});
  EXPECT_THROW(flow_schedule(1, 12), Error);
}

TEST(FlowStep, LastStepIsTheDenoisedSample) {
  const FlowSchedule s = flow_schedule(3, 3.0f);   // sigmas 1, 0.75, 0
  ASSERT_FLOAT_EQ(s.sigmas[1], 0.75f);
  float x[2] = {1.0f, -2.0f}, v[2] = {0.5f, 4.0f};
  flow_step(s, 0, ConstMat(v, 1, 2, 2), Mat{x, 1, 2, 2});
  EXPECT_FLOAT_EQ(x[0], 1.0f + 0.25f * 0.5f);      // x + (sigma - sigma_next) v
  EXPECT_FLOAT_EQ(x[1], -2.0f + 0.25f * 4.0f);
  flow_step(s, 1, ConstMat(v, 1, 2, 2), Mat{x, 1, 2, 2});
  EXPECT_FLOAT_EQ(x[0], 1.0f + 0.5f);
  EXPECT_FLOAT_EQ(x[1], -2.0f + 4.0f);
}

TEST(ScaleNoise, MixesAtTheConditionLevel) {
  float x[1] = {2.0f}, noise[1] = {-1.0f};
  scale_noise(0.999, ConstMat(noise, 1, 1, 1), Mat{x, 1, 1, 1});
  EXPECT_FLOAT_EQ(x[0], 0.999f * 2.0f - 0.001f);
}

}  // namespace
}  // namespace zt

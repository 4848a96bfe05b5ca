#include "optimizer/doctor.h"

#include <gtest/gtest.h>

namespace zt {
namespace {

Forecast made_up(const char* plan, double each_second, int64_t bytes, int64_t machine) {
  Forecast f;
  f.plan.name = plan, f.seconds_per_second = each_second, f.memory.bytes = bytes, f.memory.fits = bytes <= machine;
  return f;
}

constexpr int64_t kGiB = int64_t{1} << 30;

TEST(Doctor, AFastPlanThatFitsLeavesNothingToSay) {
  EXPECT_TRUE(judge({made_up("fast", 0.5, kGiB, 2 * kGiB)}, {}, 2 * kGiB).empty());
}

TEST(Doctor, NamesThePlanThatDoesNotFitAndBothSizes) {
  const auto f = judge({made_up("fast", 0.5, kGiB, 2 * kGiB), made_up("exact", 3, 3 * kGiB, 2 * kGiB)}, {}, 2 * kGiB);
  ASSERT_EQ(f.size(), 1u);
  for (const char* word : {"exact", "3.0 GiB", "2.0 GiB"}) EXPECT_NE(f[0].text.find(word), std::string::npos) << f[0].text;
}

TEST(Doctor, SaysWhenNothingThatFitsKeepsUpWithPlayback) {
  // The quick plan does not fit, so it does not count.
  const auto f = judge({made_up("quick", 0.5, 3 * kGiB, 2 * kGiB), made_up("exact", 1.5, kGiB, 2 * kGiB)}, {}, 2 * kGiB);
  ASSERT_EQ(f.size(), 2u);
  EXPECT_NE(f[1].text.find("as fast as it plays"), std::string::npos) << f[1].text;
}

TEST(Doctor, SaysWhenBf16GainsNothing) {
  Hardware h;
  h.rates["bf16"].gemm = 0.11, h.rates["bf16x3"].gemm = 0.1;
  EXPECT_EQ(judge({}, h, kGiB).size(), 1u);
  h.rates["bf16"].gemm = 0.3;
  EXPECT_TRUE(judge({}, h, kGiB).empty());
}

TEST(Doctor, AFolderThatIsNoModelIsAFinding) {
  DoctorOptions o;
  o.model = "/nowhere/at/all";
  const Diagnosis d = diagnose(o);
  EXPECT_FALSE(d.sound());
  EXPECT_FALSE(d.dims_known);
  EXPECT_TRUE(d.plans.empty());
}

TEST(Doctor, RefusesALengthOutOfRange) {
  DoctorOptions o;
  o.model = "/nowhere/at/all", o.frames = 1;
  EXPECT_THROW(diagnose(o), Error);
}

}  // namespace
}  // namespace zt

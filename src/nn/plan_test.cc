#include "nn/plan.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"

namespace zt {
namespace {

class PlanFile : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_ + "/plans"); }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string put(const std::string& name, const std::string& text) {
    std::ofstream(folder_ + "/plans/" + name + ".json") << text;
    return folder_ + "/plans/" + name + ".json";
  }
  std::string why(const std::string& text) {
    try {
      read_plan(put("bad", text));
    } catch (const Error& e) {
      EXPECT_EQ(e.kind, ErrorKind::request);
      return e.what();
    }
    return "";
  }
  const std::string folder_ = testing::TempDir() + "/plan_file_test";
};

TEST_F(PlanFile, WhatIsWrittenIsReadAgain) {
  Plan p = fast_plan();
  p.name = "mine", p.adaln_tables = false, p.overlap = false, p.evaluations = 4, p.reuse = {0.05, 0.1, 3}, p.encoder_preset = "superfast", p.sound_coder = "fast";
  p.measured = {{"error", {{"latents", 0.1}}}};
  const Plan q = read_plan(put("mine", plan_to_json(p).dump()));
  EXPECT_EQ(plan_to_json(q), plan_to_json(p));
  EXPECT_EQ(plan_to_json(read_plan("exact")), plan_to_json(exact_plan()));
}

TEST_F(PlanFile, RefusalsNameWhatIsWrong) {
  EXPECT_NE(why(R"({"denoiser": {"compute": "bf17"}})").find("bf17"), std::string::npos);
  EXPECT_NE(why(R"({"audio_codec": {"compute": "bf16"}})").find("f32 only"), std::string::npos);
  EXPECT_NE(why(R"({"sampler": {"evaluations": -1}})").find("evaluations"), std::string::npos);
  EXPECT_NE(why(R"({"sampler": {"steps": 3}})").find("steps"), std::string::npos);
  EXPECT_NE(why(R"({"encoder": {"sound_coder": "mp3"}})").find("mp3"), std::string::npos);
  EXPECT_NE(why(R"({"stages": {"overlap": 3}})").find("overlap"), std::string::npos);
  EXPECT_NE(why(R"({"speed": {}})").find("speed"), std::string::npos);
  EXPECT_NE(why("[]"), "");
  EXPECT_THROW(read_plan("no-such-plan", folder_), Error);
}

TEST_F(PlanFile, AnErrorBudgetTakesTheFastestThatHoldsIt) {
  auto measured = [](double error, double seconds) {
    Plan p = fast_plan();
    p.measured = {{"error", {{"latents", error}, {"audio_latents", error / 2}}}, {"seconds_per_second", seconds}};
    return plan_to_json(p).dump();
  };
  put("slow", measured(0.01, 1)), put("middle", measured(0.05, 0.5)), put("quick", measured(0.4, 0.1)), put("unknown", R"({"name": "unknown"})");
  auto seconds = [&](const std::string& budget) { return read_plan(budget, folder_).measured.value("seconds_per_second", 0.0); };
  EXPECT_EQ(seconds("error:0.02"), 1);
  EXPECT_EQ(seconds("error:0.1"), 0.5);
  EXPECT_EQ(seconds("error:1"), 0.1);
  EXPECT_EQ(read_plan("error:0", folder_).name, "exact");
  EXPECT_THROW(read_plan("error:lots", folder_), Error);
}

TEST_F(PlanFile, CompactPlansAreFastWithRoundedWeights) {
  std::vector<std::string> names;
  for (const Plan& p : compact_plans()) {
    names.push_back(p.name);
    EXPECT_EQ(plan_to_json(read_plan(p.name)), plan_to_json(p));
    EXPECT_EQ(p.denoiser, p.text_encoder);
    EXPECT_EQ(p.name, fmt::format("fast-{}", compute_name(p.denoiser)));
    Plan q = p;
    q.name = "fast", q.denoiser = fast_plan().denoiser, q.text_encoder = fast_plan().text_encoder;
    EXPECT_EQ(plan_to_json(q), plan_to_json(fast_plan()));
  }
  EXPECT_EQ(names, (std::vector<std::string>{"fast-mxint8", "fast-mxfp6", "fast-mxfp4"}));
}

TEST_F(PlanFile, AModelsOwnPlanComesBeforeTheBuiltIn) {
  put("fast", R"({"name": "fast", "sampler": {"evaluations": 4}})");
  EXPECT_EQ(read_plan("fast", folder_).evaluations, 4);
  EXPECT_EQ(read_plan("fast").evaluations, 0);
}

}  // namespace
}  // namespace zt

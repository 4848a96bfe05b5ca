// A whole search on the golden model: small, but every pass runs.
#include "optimizer/optimize.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

namespace zt {
namespace {

const std::string kModel = std::string(ZT_SOURCE_DIR) + "/models/h3-nano";

OptimizeOptions small() {
  OptimizeOptions o;
  o.model = kModel;
  o.frames = 5, o.evaluations = 6, o.prompts = 1, o.rounds = 1, o.threads = 1;
  o.quality = 0.2;
  o.cpu_time = o.quiet = true;
  return o;
}

TEST(Distance, OfEqualAndUnequalClips) {
  ClipOutput a, b;
  a.frames = {100, 100, 100, 100}, b.frames = {100, 100, 100, 90};
  a.sound = {1, 0}, b.sound = {0, 0};
  a.latents = {3, 4}, b.latents = {3, 4};
  const Distance d = distance(a, b);
  EXPECT_EQ(d.latents, 0);
  EXPECT_NEAR(d.frames, 10.0 / 200.0, 1e-12);
  EXPECT_NEAR(d.psnr, 10 * std::log10(255.0 * 255.0 / 25.0), 1e-9);
  EXPECT_EQ(d.sound, 1);
  EXPECT_EQ(distance(a, a).psnr, 99);
  b.frames.pop_back();
  EXPECT_THROW(distance(a, b), Error);
}

TEST(Distance, OfDecodersBehindTheSameLatents) {
  Distance a, b;
  a.latents = b.latents = 0.2, a.frames = 0.05, b.frames = 0.15;
  EXPECT_EQ(largest(a), largest(b));
  EXPECT_LT(total(a), total(b));
  EXPECT_TRUE(worse(b, a));
  EXPECT_FALSE(worse(a, b));
  EXPECT_FALSE(worse(a, a));
  b = a, b.latents *= 1.01;
  EXPECT_FALSE(worse(b, a));
}

TEST(Optimize, StaysInTheBudgetAndWritesAPlanThatReads) {
  OptimizeOptions o = small();
  o.output = testing::TempDir() + "/plan_test.json", o.report = testing::TempDir() + "/plan_test.html";
  o.skip = "text_encoder,video_decoder", o.encoder_preset = "ultrafast", o.sound_coder = "fast";
  testing::internal::CaptureStdout();
  ASSERT_EQ(run_optimize_command(o), 0);
  testing::internal::GetCapturedStdout();
  const Plan plan = read_plan(o.output);
  EXPECT_EQ(plan.name, "plan_test");
  const std::string command = plan.measured.at("command");
  for (const char* option : {" --skip text_encoder,video_decoder", " --encoder-preset ultrafast", " --sound-coder fast"})
    EXPECT_NE(command.find(option), std::string::npos) << command;
  EXPECT_EQ(plan.text_encoder, exact_plan().text_encoder);   // its pass was left out
  EXPECT_LE(plan.measured.at("error").at("latents").get<double>(), o.quality);
  for (const char* of : {"audio_latents", "frames", "sound"}) EXPECT_LE(plan.measured.at("error").at(of).get<double>(), o.quality) << of;
  EXPECT_GT(plan.measured.at("seconds").get<double>(), 0);
  std::set<std::string> seen;
  std::map<int, int> tried, kept;   // by sweep
  double spent = 0;
  for (const Json& t : plan.measured.at("choices")) {
    ++tried[t.at("sweep").get<int>()], kept[t.at("sweep").get<int>()] += t.at("accepted").get<bool>();
    if (t.at("sweep").get<int>() > 1) { EXPECT_TRUE(t.at("pass") != "adaln_tables" && t.at("pass") != "overlap") << t.dump(); }
    const std::string pass = t.at("pass");
    seen.insert(pass);
    if (t.at("accepted").get<bool>()) {   // in the first sweep a pass may spend a quarter of what is left, but for the last
      double error = 0;
      for (const char* of : {"latents", "audio_latents", "frames", "sound"}) error = std::max(error, t.at("error").at(of).get<double>());
      if (t.at("sweep") == 1 && pass != "evaluations") { EXPECT_LE(error, spent + 0.25 * (o.quality - spent) + 1e-9) << t.dump(); }
      spent = error;
    }
    if (t.at("pass") == "adaln_tables" || t.at("pass") == "overlap") { EXPECT_TRUE(t.at("same_bytes").get<bool>()) << t.dump(); }
    if (t.at("accepted").get<bool>()) { EXPECT_LE(t.at("error").at("latents").get<double>(), o.quality); }
  }
  EXPECT_EQ(seen, (std::set<std::string>{"reference", "adaln_tables", "overlap", "denoiser", "attention", "reuse", "evaluations"}));
  EXPECT_EQ(tried[0], 1);   // the reference
  const int last = tried.rbegin()->first;
  EXPECT_GE(last, 2);       // the first sweep always changes something: the tables
  for (int sweep = 1; sweep < last; ++sweep) EXPECT_GT(kept[sweep], 0) << sweep;
  EXPECT_TRUE(last == 3 || kept[last] == 0) << "stopped after sweep " << last << ", which changed the plan";
  EXPECT_EQ(plan.measured.at("stages").size(), 4u);
  std::ifstream in(o.report);
  std::stringstream page;
  page << in.rdbuf();
  EXPECT_NE(page.str().find("<svg"), std::string::npos);
  EXPECT_NE(page.str().find("data:image/bmp;base64,Qk"), std::string::npos);
}

TEST(Optimize, ANarrowBudgetKeepsTheEvaluations) {
  OptimizeOptions o = small();
  o.quality = 0;
  o.skip = "text_encoder,video_decoder,denoiser,reuse";
  const OptimizeResult r = optimize(o);
  EXPECT_EQ(r.plan.evaluations, 0);
  EXPECT_EQ(r.error.latents, 0);
}

TEST(Optimize, Refusals) {
  OptimizeOptions o = small();
  o.prompts = 100;
  EXPECT_THROW(run_optimize_command(o), Error);
  o = small(), o.threads = 2;
  EXPECT_THROW(run_optimize_command(o), Error);
  o = small(), o.output = "/no/such/folder/plan.json";
  EXPECT_THROW(run_optimize_command(o), Error);
}

}  // namespace
}  // namespace zt

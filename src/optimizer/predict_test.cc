#include "optimizer/predict.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace zt {
namespace {

const std::string kRoot = ZT_SOURCE_DIR;

ClipShape clip(const ModelDims& m, int64_t frames) {
  ClipShape c;
  c.frames = frames, c.evaluations = 4;
  return resolve_clip(m, c);
}

PredictOptions gpu(int ranks) {
  PredictOptions o;
  o.ranks = ranks;
  o.text = o.denoiser = o.video = o.audio = "tuned";
  return o;
}

TEST(Predict, EveryShippedProfileReadsAndPredicts) {
  const ModelDims m = read_model_dims(kRoot + "/models/h3-33b");
  int profiles = 0;
  for (const auto& f : std::filesystem::directory_iterator(kRoot + "/hardware")) {
    const Hardware h = read_hardware(f.path().string());
    PredictOptions o = h.kind == "gpu" ? gpu(1) : PredictOptions{};
    const Prediction p = predict(m, clip(m, 124), h, o);
    EXPECT_EQ(p.stages.size(), 5u);
    for (const StagePrediction& s : p.stages) EXPECT_GT(s.seconds, 0) << h.name << " " << s.stage;
    for (auto& [key, r] : h.rates)   // no rate above the best stated peak
      for (double rate : {r.gemm, r.attention}) {
        double peak = 0;
        for (auto& [type, t] : h.peaks_tflops) peak = std::max(peak, t);
        EXPECT_LE(rate, peak) << h.name << " " << key;
      }
    ++profiles;
  }
  EXPECT_GE(profiles, 10);
}

TEST(Predict, RanksShareArithmeticAndPayForExchange) {
  const ModelDims m = read_model_dims(kRoot + "/models/h3-33b");
  const Hardware h = read_hardware(kRoot + "/hardware/mi355x.json");
  const Prediction one = predict(m, clip(m, 362), h, gpu(1)), eight = predict(m, clip(m, 362), h, gpu(8));
  EXPECT_NEAR(one.stages[1].compute_seconds / eight.stages[1].compute_seconds, 8, 1e-6);
  EXPECT_EQ(one.stages[1].link_bytes, 0);
  // Every block a rank sends seven eighths of its rows' q, k, v and o, one byte each: 50 blocks, 4 evaluations.
  EXPECT_NEAR(eight.stages[1].link_bytes, 109126.0 / 8 * 4 * 7168 * 7 / 8 * 50 * 4, 1e6);
  EXPECT_GT(one.stages[1].seconds, 7 * eight.stages[1].seconds * 0.9);
  EXPECT_LT(eight.activation_bytes, one.activation_bytes);
  EXPECT_EQ(eight.weight_bytes, one.weight_bytes);
}

TEST(Predict, WeightsThatDoNotFitStream) {
  const ModelDims m = read_model_dims(kRoot + "/models/h3-33b");
  const Prediction p = predict(m, clip(m, 22), read_hardware(kRoot + "/hardware/rtx4090.json"), gpu(1));
  EXPECT_FALSE(p.fits);
  EXPECT_GT(p.stages[1].stream_seconds, 0);
}

TEST(Predict, Refusals) {
  const ModelDims m = read_model_dims(kRoot + "/models/h3-33b");
  const Hardware cpu = read_hardware(kRoot + "/hardware/epyc_avx2_2.json");
  PredictOptions o;
  o.ranks = 2;
  EXPECT_THROW(predict(m, clip(m, 124), cpu, o), Error);   // no link
  o.ranks = 9;
  EXPECT_THROW(predict(m, clip(m, 124), cpu, o), Error);
  o.ranks = 1, o.denoiser = "tuned";
  EXPECT_THROW(predict(m, clip(m, 124), cpu, o), Error);   // no such stack
  EXPECT_THROW(read_hardware("no-such-machine"), Error);
  const std::string path = testing::TempDir() + "/hardware_bad.json";
  std::ofstream(path) << R"({"name": "x", "speed": 1})";
  try {
    read_hardware(path);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, ErrorKind::request);
    EXPECT_NE(std::string(e.what()).find("\"speed\""), std::string::npos);
  }
}

}  // namespace
}  // namespace zt

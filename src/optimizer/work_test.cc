// The arithmetic of each stage against figures computed independently from the same dims (bench/peers of the reference: GFLOP).
#include "optimizer/work.h"

#include <gtest/gtest.h>

namespace zt {
namespace {

ClipShape clip(const ModelDims& m, int64_t w, int64_t h, int64_t frames, int64_t text = 64) {
  ClipShape c;
  c.width = w, c.height = h, c.frames = frames, c.text_rows = text;
  return resolve_clip(m, c);
}
ModelDims fixture(const std::string& name) { return read_model_dims(std::string(ZT_SOURCE_DIR) + "/tests/fixtures/plan/" + name); }

// To the figure's last digit.
void expect_giga(double flop, double figure, double half_digit) { EXPECT_NEAR(flop / 1e9, figure, half_digit); }

TEST(Work, NanoAt124Frames) {
  const ModelDims m = fixture("nano");
  const ClipShape c = clip(m, 256, 160, 124);
  EXPECT_EQ(c.rows(), 1958);
  const StageWork d = denoise_work(m, c);
  expect_giga(d.total(), 58.5, 0.05);
  expect_giga(d.attention, 31.4, 0.05);
  expect_giga(video_decode_work(m, c).total(), 166, 0.5);
  expect_giga(audio_decode_work(m, c).total(), 39, 0.5);
}

TEST(Work, MidAt56And124Frames) {
  const ModelDims m = fixture("mid");
  const ClipShape c = clip(m, 256, 160, 124), s = clip(m, 256, 160, 56);
  expect_giga(denoise_work(m, c).total(), 1190, 1);
  expect_giga(denoise_work(m, c).attention, 314, 0.5);
  expect_giga(video_decode_work(m, c).total(), 1035, 0.5);
  expect_giga(audio_decode_work(m, c).total(), 140, 0.5);
  EXPECT_EQ(s.rows(), 930);
  expect_giga(denoise_work(m, s).total(), 489, 0.5);
  expect_giga(video_decode_work(m, s).total(), 444, 0.5);
  expect_giga(audio_decode_work(m, s).total(), 63, 0.5);
}

// 1.46 PFLOP of products and 2.07 of attention at 38.0 k rows, 4.2 and 17.0 at 109 k: stated with a prompt of some 300 tokens.
TEST(Work, ReleasedModel) {
  const ModelDims m = read_model_dims(std::string(ZT_SOURCE_DIR) + "/models/h3-33b");
  const ClipShape five = clip(m, 1344, 768, 124, 300), fifteen = clip(m, 1344, 768, 362, 300);
  EXPECT_NEAR(static_cast<double>(five.rows()), 38.0e3, 50);
  EXPECT_NEAR(static_cast<double>(fifteen.rows()), 109e3, 500);
  EXPECT_NEAR(denoise_work(m, five).gemm / 1e15, 1.46, 0.01);
  EXPECT_NEAR(denoise_work(m, five).attention / 1e15, 2.07, 0.01);
  EXPECT_NEAR(denoise_work(m, fifteen).gemm / 1e15, 4.2, 0.05);
  EXPECT_NEAR(denoise_work(m, fifteen).attention / 1e15, 17.0, 0.15);
  EXPECT_NEAR(used_parameters(h3::dit_tensor_specs(m.dit)) / 1e9, 33, 0.2);
  EXPECT_NEAR(denoise_work(m, five).adaln_parameters / 1e9, 13, 0.05);
}

TEST(Work, RefusesWhatHasNoRows) {
  const ModelDims m = fixture("nano");
  EXPECT_THROW(clip(m, 250, 160, 124), Error);
  EXPECT_THROW(read_model_dims(std::string(ZT_SOURCE_DIR) + "/tests/fixtures/plan/none"), Error);
}

}  // namespace
}  // namespace zt

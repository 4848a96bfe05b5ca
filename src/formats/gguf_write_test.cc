#include "formats/gguf_write.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <random>

#include "base/error.h"

namespace zt {
namespace {

std::string scratch(const std::string& name) {
  return (std::filesystem::temp_directory_path() / ("zt_gguf_write_" + std::to_string(getpid()) + "_" + name)).string();
}

std::vector<float> coded(GgufType type, const std::vector<float>& x) {
  const auto n = static_cast<int64_t>(x.size());
  std::vector<char> bytes(static_cast<size_t>(n / gguf_block_values(type) * gguf_block_bytes(type)));
  std::vector<float> out(x.size());
  gguf_encode(type, x.data(), n, bytes.data());
  gguf_decode(type, bytes.data(), n, out.data());
  return out;
}

// tests/checkpoints.py holds the codes against those of the package gguf.
TEST(GgufWrite, ErrorsStayWithinAStep) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  std::vector<float> x(512);
  for (float& v : x) v = normal(random);
  struct Case { GgufType type; float steps; };
  for (const auto& [type, steps] : {Case{GgufType::q8_0, 254}, Case{GgufType::q6_k, 62}, Case{GgufType::q5_1, 31},
                                    Case{GgufType::q5_0, 31}, Case{GgufType::q4_1, 15}, Case{GgufType::q4_0, 15}}) {
    const std::vector<float> y = coded(type, x);
    for (size_t b = 0; b < x.size(); b += 32) {
      float top = 0;
      for (size_t i = b; i < b + 32; ++i) top = std::max(top, std::abs(x[i]));
      for (size_t i = b; i < b + 32; ++i) EXPECT_LE(std::abs(x[i] - y[i]), 2.2f * top / steps) << gguf_type_name(type) << " " << i;
    }
  }
  EXPECT_EQ(coded(GgufType::f32, x), x);
}

// Ends may be cut off where that lessens the whole: held by the whole. The worst block of these measures 8.4e-2, 4.1e-2, 2.1e-2.
TEST(GgufWrite, MatricesOfScalesFit) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  std::vector<float> x(4096);
  for (size_t i = 0; i < x.size(); ++i) x[i] = normal(random) * std::exp2(static_cast<float>(i / 512) - 4);
  for (const auto& [type, limit] : {std::pair{GgufType::q4_k, 0.09}, std::pair{GgufType::q5_k, 0.045}, std::pair{GgufType::q6_k, 0.022}}) {
    const std::vector<float> y = coded(type, x);
    for (size_t b = 0; b < x.size(); b += 256) {
      double error = 0, norm = 0;
      for (size_t i = b; i < b + 256; ++i) error += (y[i] - x[i]) * (y[i] - x[i]), norm += x[i] * x[i];
      EXPECT_LE(std::sqrt(error / norm), limit) << gguf_type_name(type) << " from " << b;
    }
  }
}

TEST(GgufWrite, ZerosAndTinyBlocksStayFinite) {
  for (float v : {0.0f, 1e-45f, -1e-42f, 1e-38f})
    for (GgufType type : {GgufType::q8_0, GgufType::q5_1, GgufType::q5_0, GgufType::q4_1, GgufType::q4_0, GgufType::q4_k, GgufType::q5_k,
                          GgufType::q6_k}) {
      std::vector<float> x(256, v);
      x[7] = 0;
      for (float y : coded(type, x)) EXPECT_LE(std::abs(y), 1e-6f) << gguf_type_name(type) << " of " << v;
    }
}

// Values whose scales no f16 holds read back as infinite or NaN (quantize says so then), without a fault on the way.
TEST(GgufWrite, HugeValuesAreSeen) {
  std::vector<float> x(256, 3e38f);
  x[1] = -3e38f;
  for (GgufType type : {GgufType::f16, GgufType::q8_0, GgufType::q5_1, GgufType::q5_0, GgufType::q4_1, GgufType::q4_0, GgufType::q4_k, GgufType::q5_k, GgufType::q6_k})
    EXPECT_FALSE(std::isfinite(coded(type, x)[0])) << gguf_type_name(type);
}

TEST(GgufWrite, ReadsBackAsWritten) {
  const std::string path = scratch("whole.gguf");
  const std::vector<float> a{1, 2, 3}, b(64, 0.5f);
  std::vector<char> codes(68);
  gguf_encode(GgufType::q8_0, b.data(), 64, codes.data());
  {
    GgufWriter w(path, {{"a", GgufType::f32, {3}}, {"none", GgufType::f32, {0}}, {"b", GgufType::q8_0, {2, 32}}}, {{"general.architecture", "wan"}}, {{"list", {4, 5}}});
    w.write(a.data(), 12);
    w.write(codes.data(), 34);
    w.write(codes.data() + 34, 34);
    EXPECT_FALSE(std::filesystem::exists(path));    // no name before it is whole
    w.commit();
  }
  const GgufFile file(path);
  const GgufHeader& h = file.header();
  ASSERT_EQ(h.tensors.size(), 3u);
  EXPECT_EQ(h.tensors[2].name, "b");
  EXPECT_EQ(h.tensors[2].shape, (Shape{2, 32}));
  EXPECT_EQ(std::memcmp(h.tensors[0].data, a.data(), 12), 0);
  EXPECT_EQ(std::memcmp(h.tensors[2].data, codes.data(), 68), 0);
  EXPECT_EQ(h.strings.at("general.architecture"), "wan");
  EXPECT_EQ(h.integer_lists.at("list"), (std::vector<int64_t>{4, 5}));
  std::filesystem::remove(path);
}

TEST(GgufWrite, LeavesNothingUnfinished) {
  const std::string path = scratch("part.gguf");
  {
    GgufWriter w(path, {{"a", GgufType::f32, {3}}}, {});
    const float x[4] = {};
    EXPECT_THROW(w.write(x, 16), Error);             // more than the tensor has
    EXPECT_THROW(w.commit(), Error);                 // less
  }
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_THROW(GgufWriter("/nonexistent/x.gguf", {}, {}), Error);
  for (const auto& e : std::filesystem::directory_iterator(std::filesystem::temp_directory_path()))
    EXPECT_FALSE(e.path().string().starts_with(path)) << e.path();
}

}  // namespace
}  // namespace zt

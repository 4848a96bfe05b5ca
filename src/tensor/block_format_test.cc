#include "tensor/block_format.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>
#include <vector>

#include "tensor/dtype.h"

namespace zt {
namespace {

constexpr BlockFormat kAll[] = {BlockFormat::mxfp8_e4m3, BlockFormat::mxfp6_e2m3, BlockFormat::mxfp6_e3m2, BlockFormat::mxfp4_e2m1, BlockFormat::mxint8};

std::vector<float> finite_values(BlockFormat f) {
  std::vector<float> v;
  for (int code = 0; code < 1 << element_bits(f); ++code)
    if (const float x = element_value(f, static_cast<uint8_t>(code)); std::isfinite(x)) v.push_back(x);
  std::sort(v.begin(), v.end());
  return v;
}

TEST(BlockFormat, TablesOfTheSpecification) {
  EXPECT_EQ(finite_values(BlockFormat::mxfp4_e2m1), (std::vector<float>{-6, -4, -3, -2, -1.5f, -1, -0.5f, 0, 0, 0.5f, 1, 1.5f, 2, 3, 4, 6}));
  const float least[] = {0x1p-9f, 0.125f, 0.0625f, 0.5f, 0x1p-6f};   // the smallest subnormals
  for (size_t i = 0; i < std::size(kAll); ++i) {
    const auto v = finite_values(kAll[i]);
    EXPECT_EQ(v.back(), max_element(kAll[i])) << block_format_name(kAll[i]);
    EXPECT_EQ(*std::upper_bound(v.begin(), v.end(), 0.0f), least[i]) << block_format_name(kAll[i]);
    for (float x : v) EXPECT_EQ(to_float(to_bf16(x)), x);
  }
  for (int code = 0; code < 256; ++code) {   // the type that checkpoints use is the same
    const float a = element_value(BlockFormat::mxfp8_e4m3, static_cast<uint8_t>(code)), b = f8_e4m3_to_float(static_cast<uint8_t>(code));
    EXPECT_TRUE(a == b || (std::isnan(a) && std::isnan(b))) << code;
  }
}

// No value of the format is nearer than the one chosen, and of two as near the code is even.
TEST(BlockFormat, RoundsToNearest) {
  std::mt19937 g(1);
  std::normal_distribution<float> normal;
  for (BlockFormat f : kAll) {
    SCOPED_TRACE(block_format_name(f));
    const auto values = finite_values(f);
    for (int round = 0; round < 300; ++round) {
      float x[kBlockElements];
      const float size = std::ldexp(1.0f, static_cast<int>(g() % 60) - 30);
      for (float& v : x) v = round % 3 == 0 ? size * static_cast<float>(static_cast<int>(g() % 33) - 16) / 16 : size * normal(g);
      uint8_t scale = 0, codes[kBlockElements];
      encode_block(f, x, &scale, codes);
      const float s = scale_value(scale);
      for (int i = 0; i < kBlockElements; ++i) {
        const float have = element_value(f, codes[i]), want = x[i] / s;
        float best = 1e30f;
        for (float v : values)
          if (f != BlockFormat::mxint8 || v > -2) best = std::min(best, std::abs(v - want));
        ASSERT_EQ(std::abs(have - want), best) << x[i] << " became " << have * s;
        for (float v : values) {
          const bool tie = v != have && v > -2 && std::abs(v - want) == best && std::abs(want) < max_element(f);
          ASSERT_TRUE(!tie || codes[i] % 2 == 0) << x[i];
        }
      }
    }
  }
}

// As the definition in whole operations says, for magnitudes of every exponent.
TEST(BlockFormat, CodesByDefinition) {
  struct { BlockFormat f; int exponent, mantissa; } kinds[] = {{BlockFormat::mxfp8_e4m3, 4, 3}, {BlockFormat::mxfp6_e2m3, 2, 3}, {BlockFormat::mxfp6_e3m2, 3, 2},
                                                               {BlockFormat::mxfp4_e2m1, 2, 1}};
  std::mt19937 g(2);
  for (const auto& kind : kinds) {
    const int least = 2 - (1 << (kind.exponent - 1)), sign = 1 << (kind.exponent + kind.mantissa);
    for (uint32_t high = 0; high < 255; ++high)
      for (int i = 0; i < 40; ++i) {
        const uint32_t low = i < 16 ? static_cast<uint32_t>(i) << 19 : i == 16 ? 1 : i == 17 ? 0x7FFFFF : g() & 0x7FFFFF;
        const float a = std::bit_cast<float>(high << 23 | low), top = std::min(a, max_element(kind.f));
        const int e = top > 0 ? std::max(std::ilogb(top), least) : least;
        const int want = ((e - least) << kind.mantissa) + static_cast<int>(std::nearbyint(std::ldexp(top, kind.mantissa - e)));
        ASSERT_EQ(element_code(kind.f, a), want) << block_format_name(kind.f) << " " << a;
        ASSERT_EQ(element_code(kind.f, -a), want | sign) << block_format_name(kind.f) << " " << a;
      }
    EXPECT_EQ(element_value(kind.f, element_code(kind.f, std::nanf(""))), max_element(kind.f));
  }
}

TEST(BlockFormat, ZerosAndExtremes) {
  for (BlockFormat f : kAll) {
    float x[kBlockElements] = {};
    uint8_t scale = 0, codes[kBlockElements];
    encode_block(f, x, &scale, codes);
    for (uint8_t c : codes) EXPECT_EQ(element_value(f, c), 0);
    x[3] = 3e38f, x[4] = 1e-38f;
    encode_block(f, x, &scale, codes);
    EXPECT_TRUE(std::isfinite(element_value(f, codes[3]) * scale_value(scale)));
    EXPECT_EQ(element_value(f, codes[4]), 0);
  }
}

}  // namespace
}  // namespace zt

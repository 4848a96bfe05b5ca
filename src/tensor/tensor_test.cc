#include "tensor/tensor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

namespace zt {
namespace {

TEST(DType, NamesAndSizes) {
  int seen = 0;
  for (int i = 0; i <= static_cast<int>(DType::boolean); ++i) {
    auto t = static_cast<DType>(i);
    DType back;
    ASSERT_TRUE(dtype_from_name(dtype_name(t), back));
    EXPECT_EQ(back, t);
    EXPECT_GE(dtype_bytes(t), 1);
    ++seen;
  }
  EXPECT_EQ(seen, 12);
  DType none;
  EXPECT_FALSE(dtype_from_name("F16 ", none));
  EXPECT_FALSE(dtype_from_name("", none));
}

// All 65536 halves against their definition, and back.
TEST(DType, HalfRoundTripsAndMeansWhatItShould) {
  for (uint32_t b = 0; b < 0x10000; ++b) {
    f16_t h{static_cast<uint16_t>(b)};
    int e = (b >> 10) & 31, m = b & 1023;
    double magnitude = e == 0 ? std::ldexp(m, -24) : std::ldexp(1024 + m, e - 25);
    float f = to_float(h);
    if (e == 31) {
      EXPECT_EQ(std::isnan(f), m != 0);
      EXPECT_EQ(std::isinf(f), m == 0);
      if (m != 0) continue;   // NaN payloads may change
    } else {
      ASSERT_EQ(f, static_cast<float>(b & 0x8000 ? -magnitude : magnitude)) << b;
    }
    ASSERT_EQ(to_f16(f).bits, b);
  }
}

TEST(DType, HalfRoundsToNearestEven) {
  EXPECT_EQ(to_f16(65504.0f).bits, 0x7BFF);
  EXPECT_EQ(to_f16(65519.996f).bits, 0x7BFF);
  EXPECT_EQ(to_f16(65520.0f).bits, 0x7C00);
  EXPECT_EQ(to_f16(1e10f).bits, 0x7C00);
  EXPECT_EQ(to_f16(1.0f + 0x1p-11f).bits, 0x3C00);             // tie, to even
  EXPECT_EQ(to_f16(1.0f + 3 * 0x1p-11f).bits, 0x3C02);         // tie, to even
  EXPECT_EQ(to_f16(1.0f + 0x1p-11f + 0x1p-20f).bits, 0x3C01);
  EXPECT_EQ(to_f16(0x1p-25f).bits, 0x0000);                    // half the smallest: tie, to zero
  EXPECT_EQ(to_f16(3 * 0x1p-25f).bits, 0x0002);
  EXPECT_EQ(to_f16(-0.0f).bits, 0x8000);
  EXPECT_EQ(to_f16(std::bit_cast<float>(0x387FFFFFu)).bits, 0x0400);   // just under the smallest normal
  EXPECT_TRUE(std::isnan(to_float(to_f16(NAN))));
}

TEST(DType, Bfloat16RoundsToNearestEven) {
  EXPECT_EQ(to_bf16(1.0f).bits, 0x3F80);
  EXPECT_EQ(to_bf16(std::bit_cast<float>(0x3F808000u)).bits, 0x3F80);   // tie, to even
  EXPECT_EQ(to_bf16(std::bit_cast<float>(0x3F818000u)).bits, 0x3F82);   // tie, to even
  EXPECT_EQ(to_bf16(std::bit_cast<float>(0x3F808001u)).bits, 0x3F81);
  EXPECT_EQ(to_bf16(std::numeric_limits<float>::max()).bits, 0x7F80);
  EXPECT_EQ(to_bf16(-INFINITY).bits, 0xFF80);
  EXPECT_TRUE(std::isnan(to_float(to_bf16(std::bit_cast<float>(0x7F800001u)))));
  EXPECT_EQ(to_float(bf16_t{0xC000}), -2.0f);
}

TEST(DType, EightBitFloats) {
  EXPECT_EQ(f8_e4m3_to_float(0x7E), 448.0f);
  EXPECT_EQ(f8_e4m3_to_float(0x01), 0x1p-9f);
  EXPECT_EQ(f8_e4m3_to_float(0x08), 0x1p-6f);
  EXPECT_EQ(f8_e4m3_to_float(0xB8), -1.0f);
  EXPECT_TRUE(std::isnan(f8_e4m3_to_float(0xFF)));
  EXPECT_EQ(f8_e5m2_to_float(0x7B), 57344.0f);
  EXPECT_EQ(f8_e5m2_to_float(0x01), 0x1p-16f);
  EXPECT_TRUE(std::isinf(f8_e5m2_to_float(0x7C)));
  EXPECT_EQ(f8_e5m2_to_float(0xBC), -1.0f);
}

TEST(Tensor, ShapesCountAndRefuseOverflow) {
  EXPECT_EQ(element_count({}), 1);
  EXPECT_EQ(element_count({3, 0, 5}), 0);
  EXPECT_EQ(to_string({2, 3}), "[2, 3]");
  EXPECT_THROW(element_count({int64_t{1} << 40, int64_t{1} << 40}), Error);
  EXPECT_THROW(element_count({-1}), Error);
  EXPECT_THROW(Tensor(Shape{int64_t{1} << 50}), Error);
}

TEST(Tensor, IsZeroAlignedAndRowMajor) {
  Tensor t({2, 3, 5});
  EXPECT_EQ(reinterpret_cast<uintptr_t>(t.data()) % 64, 0u);
  for (int64_t i = 0; i < t.count(); ++i) EXPECT_EQ(t.data()[i], 0.0f);
  Mat m = t.mat();
  EXPECT_EQ(m.rows, 6);
  EXPECT_EQ(m.cols, 5);
  m.rows_from(2, 2).cols_from(1, 3).row(1)[0] = 7;
  EXPECT_EQ(t.data()[3 * 5 + 1], 7);
  EXPECT_TRUE(Tensor().empty());
  EXPECT_EQ(Tensor(Shape{0, 4}).mat().rows, 0);
}

TEST(Tensor, WidensEveryTypeFromAnyAddress) {
  alignas(8) char raw[64] = {};
  auto check = [&](DType type, auto... values) {
    using T = std::common_type_t<decltype(values)...>;
    const T in[] = {values...};
    std::memcpy(raw + 1, in, sizeof in);   // safetensors promise no alignment
    auto out = to_float32(View{raw + 1, type, {static_cast<int64_t>(std::size(in))}});
    for (size_t i = 0; i < std::size(in); ++i) EXPECT_EQ(out[i], static_cast<float>(in[i])) << dtype_name(type);
  };
  check(DType::f64, 1.5, -2.25);
  check(DType::f32, 1.5f, -3e38f);
  check(DType::i64, int64_t{-5}, int64_t{1} << 40);
  check(DType::i32, -5, 7);
  check(DType::i16, int16_t{-5}, int16_t{7});
  check(DType::i8, int8_t{-128}, int8_t{127});
  check(DType::u8, uint8_t{255}, uint8_t{0});
  check(DType::boolean, uint8_t{1}, uint8_t{0});
  const uint16_t halves[] = {0x3F80, 0xC000};
  std::memcpy(raw + 1, halves, 4);
  EXPECT_EQ(to_float32(View{raw + 1, DType::bf16, {2}}), (std::vector<float>{1, -2}));
  EXPECT_EQ(to_float32(View{raw + 1, DType::f16, {2}}), (std::vector<float>{1.875f, -2}));
  EXPECT_EQ(to_float32(View{raw + 1, DType::f8_e4m3, {1}})[0], f8_e4m3_to_float(0x80));
  EXPECT_TRUE(to_float32(View{nullptr, DType::f32, {0}}).empty());
}

}  // namespace
}  // namespace zt

#include "media/webp.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "media/decode.h"

namespace zt {
namespace {

Picture flat(int w, int h, uint8_t r, uint8_t g, uint8_t b) {
  Picture p{w, h, {}};
  for (int i = 0; i < w * h; ++i) p.rgb.insert(p.rgb.end(), {r, g, b});
  return p;
}

TEST(Webp, ComesBackAsItWas) {
  const std::string path = testing::TempDir() + "/zt_webp_test.webp";
  write_webp(path, flat(40, 24, 200, 30, 60));
  const Picture back = load_picture(path);
  ASSERT_EQ(back.width, 40);
  ASSERT_EQ(back.height, 24);
  EXPECT_NEAR(back.rgb[300], 200, 4);
  EXPECT_NEAR(back.rgb[301], 30, 4);
  EXPECT_NEAR(back.rgb[302], 60, 4);
  std::filesystem::remove(path);
}

TEST(Webp, TheSamePictureGivesTheSameBytes) {
  Picture p = flat(64, 64, 0, 0, 0);
  for (size_t i = 0; i < p.rgb.size(); ++i) p.rgb[i] = static_cast<uint8_t>(i * 37 % 251);
  EXPECT_EQ(encode_webp(p), encode_webp(p));
  EXPECT_NE(encode_webp(p, 20), encode_webp(p, 90));
}

TEST(Webp, RefusesAnEmptyPicture) { EXPECT_THROW(encode_webp(Picture{}), Error); }

TEST(Shrink, TakesTheMeanOfSquares) {
  Picture p{4, 2, {}};
  for (uint8_t v : {0, 10, 100, 100, 20, 30, 100, 104}) p.rgb.insert(p.rgb.end(), {v, v, v});
  const Picture s = shrink(p.rgb.data(), 4, 2, 2);
  ASSERT_EQ(s.width, 2);
  ASSERT_EQ(s.height, 1);
  EXPECT_EQ(s.rgb[0], 15);
  EXPECT_EQ(s.rgb[3], 101);
  EXPECT_EQ(shrink(p.rgb.data(), 4, 2, 4).rgb, p.rgb);
  EXPECT_EQ(shrink(p.rgb.data(), 4, 2, 1).width, 1);   // narrower than one square
}

TEST(ContactSheet, ShowsTheMiddlesOfEqualParts) {
  ContactSheet sheet(8, 2, 2, 16);
  for (int i = 0; i < 8; ++i) {
    const auto v = static_cast<uint8_t>(i);
    sheet.add(flat(4, 2, v, v, v).rgb.data(), 4, 2);
  }
  const Picture p = sheet.sheet();
  ASSERT_EQ(p.width, 8);
  ASSERT_EQ(p.height, 4);
  EXPECT_EQ(p.rgb[0], 1);
  EXPECT_EQ(p.rgb[3 * 4], 3);
  EXPECT_EQ(p.rgb[3 * (2 * 8)], 5);
  EXPECT_EQ(p.rgb[3 * (2 * 8 + 4)], 7);
  EXPECT_EQ(sheet.middle().rgb[0], 4);
}

TEST(ContactSheet, OfFewFramesIsSmall) {
  ContactSheet sheet(1, 4, 4, 16);
  sheet.add(flat(4, 2, 9, 9, 9).rgb.data(), 4, 2);
  EXPECT_EQ(sheet.sheet().width, 4);
  EXPECT_THROW(ContactSheet(3, 2, 2, 8).sheet(), Error);
}

}  // namespace
}  // namespace zt

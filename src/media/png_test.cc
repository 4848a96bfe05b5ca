#include "media/png.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "media/decode.h"

namespace zt {
namespace {

TEST(Png, ComesBackAsItWas) {
  for (auto [w, h] : {std::pair{1, 1}, {3, 200}, {97, 31}, {256, 64}}) {
    Picture p{w, h, {}};
    for (int i = 0; i < w * h * 3; i++) p.rgb.push_back(static_cast<uint8_t>(i * 2654435761u >> 13));
    const auto bytes = encode_png(p);
    const Picture q = load_picture({bytes, "memory.png"});
    EXPECT_EQ(q.width, w);
    EXPECT_EQ(q.height, h);
    EXPECT_EQ(q.rgb, p.rgb);
    EXPECT_EQ(encode_png(p), bytes);
    const std::string path = testing::TempDir() + "zt_png_test.png";
    write_png(path, p);
    EXPECT_EQ(load_picture(path).rgb, p.rgb);
    std::filesystem::remove(path);
  }
}

TEST(Png, RefusesWhatIsNoPictureOrPlace) {
  EXPECT_THROW(encode_png({}), Error);
  EXPECT_THROW(encode_png({2, 2, {1, 2, 3}}), Error);
  EXPECT_THROW(write_png("/nonexistent/a.png", {1, 1, {1, 2, 3}}), Error);
  EXPECT_THROW(write_png("/dev/full", {1, 1, {1, 2, 3}}), Error);
}

}  // namespace
}  // namespace zt

#include "media/pixels.h"

#include <gtest/gtest.h>

#include <cstring>

namespace zt {
namespace {

// A 4:2:0 frame of 16x8 with a pattern; its colour codes are as the caller writes them.
av::Frame patterned() {
  av::Frame frame = av::make_frame();
  frame->width = 16, frame->height = 8, frame->format = AV_PIX_FMT_YUV420P;
  av::check(av_frame_get_buffer(frame.get(), 0), "frame");
  for (int c = 0; c < 3; c++)
    for (int y = 0; y < (c ? 4 : 8); y++)
      for (int x = 0; x < (c ? 8 : 16); x++)
        frame->data[c][y * frame->linesize[c] + x] = static_cast<uint8_t>(40 + 37 * x % 101 + 11 * y + 60 * c);
  return frame;
}

template <class Code>
void write_code(Code& field, int number) {
  static_assert(sizeof field == sizeof number);
  std::memcpy(&field, &number, sizeof number);
}

// H.264's chroma siting reaches the frame unchecked; the undefined-behaviour sanitizer sees it loaded as an enum that lacks it.
TEST(Pixels, CodesThatFfmpegDoesNotKnowCountAsUntagged) {
  const av::Frame plain = patterned(), odd = patterned();
  for (int number : {9, 31, 255, 1 << 20, -7}) {
    write_code(odd->chroma_location, number);
    write_code(odd->colorspace, number + 300);
    EXPECT_EQ(ToRgb().convert(*odd, "odd", false).rgb, ToRgb().convert(*plain, "plain", false).rgb) << number;
    write_code(odd->color_range, number);
    EXPECT_EQ(ToRgb().convert(*odd, "odd", true).rgb, ToRgb().convert(*plain, "plain", true).rgb) << number;
    write_code(odd->color_range, 0);
  }
}

TEST(Pixels, KnownCodesDoCount) {
  const av::Frame plain = patterned(), tagged = patterned();
  const auto rgb = ToRgb().convert(*plain, "plain", false).rgb;
  tagged->colorspace = AVCOL_SPC_BT2020_NCL;
  EXPECT_NE(ToRgb().convert(*tagged, "matrix", false).rgb, rgb);
  tagged->colorspace = AVCOL_SPC_UNSPECIFIED, tagged->chroma_location = AVCHROMA_LOC_TOPLEFT;
  EXPECT_NE(ToRgb().convert(*tagged, "siting", false).rgb, rgb);
  tagged->chroma_location = AVCHROMA_LOC_UNSPECIFIED, tagged->color_range = AVCOL_RANGE_JPEG;
  EXPECT_NE(ToRgb().convert(*tagged, "range", false).rgb, rgb);
}

}  // namespace
}  // namespace zt

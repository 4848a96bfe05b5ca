#include "media/pixels.h"

#include <algorithm>
#include <cmath>
#include <cstring>

extern "C" {
#include <libavutil/opt.h>
#include <libavutil/pixdesc.h>
}

#include "base/error.h"

namespace zt {
namespace {

Picture blank(int width, int height) {
  Picture p;
  p.width = width, p.height = height;
  p.rgb.resize(static_cast<size_t>(width) * static_cast<size_t>(height) * 3);
  return p;
}

Picture from_palette(const AVFrame& frame) {
  Picture out = blank(frame.width, frame.height);
  uint32_t palette[256];
  std::memcpy(palette, frame.data[1], sizeof palette);  // 0xAARRGGBB
  uint8_t* dst = out.rgb.data();
  for (int y = 0; y < frame.height; y++) {
    const uint8_t* src = frame.data[0] + int64_t{y} * frame.linesize[0];
    for (int x = 0; x < frame.width; x++, dst += 3) {
      const uint32_t c = palette[src[x]];
      dst[0] = static_cast<uint8_t>(c >> 16), dst[1] = static_cast<uint8_t>(c >> 8), dst[2] = static_cast<uint8_t>(c);
    }
  }
  return out;
}

// RGB or grey with one byte a component, packed or planar.
Picture from_bytes(const AVFrame& frame, const AVPixFmtDescriptor& format) {
  Picture out = blank(frame.width, frame.height);
  const bool grey = format.nb_components < 3;
  for (int c = 0; c < 3; c++) {
    const AVComponentDescriptor& from = format.comp[grey ? 0 : c];
    for (int y = 0; y < frame.height; y++) {
      const uint8_t* src = frame.data[from.plane] + int64_t{y} * frame.linesize[from.plane] + from.offset;
      uint8_t* dst = out.rgb.data() + static_cast<size_t>(y) * static_cast<size_t>(frame.width) * 3 + c;
      for (int x = 0; x < frame.width; x++) dst[3 * x] = src[x * from.step];
    }
  }
  return out;
}

// RGB or grey of any other depth: the high eight bits, or fewer bits stretched to 0..255.
Picture from_components(const AVFrame& frame, const AVPixFmtDescriptor& format) {
  Picture out = blank(frame.width, frame.height);
  const bool grey = format.nb_components < 3;
  const bool inverted = frame.format == AV_PIX_FMT_MONOWHITE;
  std::vector<uint16_t> line(static_cast<size_t>(frame.width));
  const uint8_t* planes[4] = {frame.data[0], frame.data[1], frame.data[2], frame.data[3]};
  for (int c = 0; c < 3; c++) {
    const int from = grey ? 0 : c, depth = format.comp[from].depth;
    for (int y = 0; y < frame.height; y++) {
      av_read_image_line2(line.data(), planes, frame.linesize, &format, 0, y, from, frame.width, 0, 2);
      uint8_t* dst = out.rgb.data() + static_cast<size_t>(y) * static_cast<size_t>(frame.width) * 3 + c;
      for (size_t x = 0; x < line.size(); x++) {
        const int v = line[x], top = (1 << depth) - 1;
        const int shown = depth >= 8 ? v >> (depth - 8) : (inverted ? top - v : v) * 255 / top;
        dst[3 * x] = static_cast<uint8_t>(shown);
      }
    }
  }
  return out;
}

// A colour code of a frame as its number: decoders copy some of them unchecked out of the file, and to load one that its enum
// doesn't have is undefined.
template <class Code>
int code(const Code& field) {
  static_assert(sizeof(Code) == sizeof(int));
  int number = 0;
  std::memcpy(&number, &field, sizeof number);
  return number;
}

int matrix_of(const AVFrame& frame) {
  switch (code(frame.colorspace)) {
    case AVCOL_SPC_BT709: return SWS_CS_ITU709;
    case AVCOL_SPC_FCC: return SWS_CS_FCC;
    case AVCOL_SPC_BT470BG:
    case AVCOL_SPC_SMPTE170M: return SWS_CS_ITU601;
    case AVCOL_SPC_SMPTE240M: return SWS_CS_SMPTE240M;
    case AVCOL_SPC_BT2020_NCL:
    case AVCOL_SPC_BT2020_CL: return SWS_CS_BT2020;
    default: return frame.height >= 720 ? SWS_CS_ITU709 : SWS_CS_ITU601;
  }
}

bool is_full(const AVFrame& frame, bool untagged) {
  const int range = code(frame.color_range);
  return range == AVCOL_RANGE_JPEG || (range != AVCOL_RANGE_MPEG && untagged);
}

}  // namespace

Picture ToRgb::convert(const AVFrame& frame, const std::string& name, bool full_range) {
  const AVPixFmtDescriptor* format = av_pix_fmt_desc_get(static_cast<AVPixelFormat>(frame.format));
  if (!format || frame.width < 1 || frame.height < 1 || !frame.data[0] || (format->flags & AV_PIX_FMT_FLAG_HWACCEL))
    fail(ErrorKind::request, "{}: found frames without pixels, wanted a picture; make the file again", name);
  if (format->flags & AV_PIX_FMT_FLAG_PAL) return from_palette(frame);
  const bool special = format->flags & (AV_PIX_FMT_FLAG_FLOAT | AV_PIX_FMT_FLAG_BAYER);
  const bool full = is_full(frame, full_range);
  const bool exact = (format->flags & AV_PIX_FMT_FLAG_RGB) || (format->nb_components < 3 && full);
  if (!exact || special) return scale(frame, name, full_range);
  bool bytes = !(format->flags & AV_PIX_FMT_FLAG_BITSTREAM);
  for (int c = 0; c < format->nb_components; c++) bytes = bytes && format->comp[c].depth == 8 && format->comp[c].shift == 0;
  return bytes ? from_bytes(frame, *format) : from_components(frame, *format);
}

Picture ToRgb::scale(const AVFrame& frame, const std::string& name, bool full_range) {
  const int matrix = matrix_of(frame), said = code(frame.chroma_location), range = is_full(frame, full_range);
  const int siting = said > AVCHROMA_LOC_UNSPECIFIED && said < AVCHROMA_LOC_NB ? said : AVCHROMA_LOC_UNSPECIFIED;
  if (!scaler_ || width_ != frame.width || height_ != frame.height || format_ != frame.format || matrix_ != matrix || range_ != range ||
      siting_ != siting) {
    scaler_.reset(sws_alloc_context());
    if (!scaler_) fail(ErrorKind::resource, "no memory for the colour converter");
    const auto set = [&](const char* option, int value) { av_opt_set_int(scaler_.get(), option, value, 0); };
    set("srcw", frame.width), set("srch", frame.height), set("dstw", frame.width), set("dsth", frame.height);
    set("src_format", frame.format), set("dst_format", AV_PIX_FMT_RGB24), set("src_range", range), set("dst_range", 1);
    set("sws_flags", SWS_BICUBIC | SWS_ACCURATE_RND | SWS_FULL_CHR_H_INT | SWS_FULL_CHR_H_INP | SWS_BITEXACT);
    int h = 0, v = 0;  // 1/256 luma samples; H.264's default where nothing is said, the centre for full range (JPEG)
    const int sited = siting != AVCHROMA_LOC_UNSPECIFIED ? siting : range ? AVCHROMA_LOC_CENTER : AVCHROMA_LOC_LEFT;
    const AVPixFmtDescriptor* format = av_pix_fmt_desc_get(static_cast<AVPixelFormat>(frame.format));
    if (avcodec_enum_to_chroma_pos(&h, &v, static_cast<AVChromaLocation>(sited)) == 0) {
      if (format->log2_chroma_w) set("src_h_chr_pos", h);
      if (format->log2_chroma_h) set("src_v_chr_pos", v);
    }
    if (sws_init_context(scaler_.get(), nullptr, nullptr) < 0)
      fail(ErrorKind::request, "{}: found pixel format {} at {}x{}, which cannot be converted to RGB; save it as RGB or YUV 4:2:0", name,
           format->name, frame.width, frame.height);
    sws_setColorspaceDetails(scaler_.get(), sws_getCoefficients(matrix), range, sws_getCoefficients(SWS_CS_DEFAULT), 1, 0, 1 << 16,
                             1 << 16);
    width_ = frame.width, height_ = frame.height, format_ = frame.format, matrix_ = matrix, range_ = range, siting_ = siting;
  }
  // The scaler may write past the end of a row by its vector width, so it gets padded rows of its own.
  const int stride = (frame.width * 3 + 63) / 64 * 64 + 64;
  std::vector<uint8_t> rows(static_cast<size_t>(stride) * static_cast<size_t>(frame.height));
  uint8_t* planes[4] = {rows.data()};
  const int strides[4] = {stride};
  if (sws_scale(scaler_.get(), frame.data, frame.linesize, 0, frame.height, planes, strides) != frame.height)
    fail(ErrorKind::internal, "{}: the colour converter failed", name);
  Picture out = blank(frame.width, frame.height);
  const size_t row = static_cast<size_t>(frame.width) * 3;
  for (int y = 0; y < frame.height; y++) std::memcpy(out.rgb.data() + static_cast<size_t>(y) * row, rows.data() + int64_t{y} * stride, row);
  return out;
}

Picture orient(Picture in, int orientation) {
  if (orientation < 2 || orientation > 8) return in;
  const bool swapped = orientation >= 5;
  // The stored pixel that comes to (0, 0), and the steps in it for one pixel right and one down.
  const int64_t w = in.width, h = in.height;
  int64_t start = 0, right = 1, down = w;
  switch (orientation) {
    case 2: start = w - 1, right = -1, down = w; break;
    case 3: start = h * w - 1, right = -1, down = -w; break;
    case 4: start = (h - 1) * w, right = 1, down = -w; break;
    case 5: start = 0, right = w, down = 1; break;
    case 6: start = (h - 1) * w, right = -w, down = 1; break;
    case 7: start = h * w - 1, right = -w, down = -1; break;
    case 8: start = w - 1, right = w, down = -1; break;
    default: break;
  }
  Picture out = blank(swapped ? in.height : in.width, swapped ? in.width : in.height);
  uint8_t* dst = out.rgb.data();
  for (int64_t y = 0; y < out.height; y++)
    for (int64_t x = 0; x < out.width; x++, dst += 3) std::memcpy(dst, in.rgb.data() + (start + x * right + y * down) * 3, 3);
  return out;
}

int matrix_orientation(const int32_t* m) {
  // (x, y) goes to (a x + c y, b x + d y).
  const double a = m[0], b = m[1], c = m[3], d = m[4];
  if (std::fabs(a) + std::fabs(d) >= std::fabs(b) + std::fabs(c)) {
    if (a == 0 && d == 0) return 1;
    return a >= 0 ? (d >= 0 ? 1 : 4) : (d >= 0 ? 2 : 3);
  }
  return b >= 0 ? (c >= 0 ? 5 : 6) : (c >= 0 ? 8 : 7);
}

}  // namespace zt

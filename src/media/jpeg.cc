#include "media/jpeg.h"

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <vector>

// clang-format off: each needs the one before
#include <jerror.h>
#include <jpeglib.h>
// clang-format on

#include "base/error.h"

namespace zt {
namespace {

constexpr int kMaxScans = 200;  // a progressive file of a few bytes can ask for thousands of passes over the picture

// libjpeg reports errors by leaving through a long jump: nothing with a destructor may live between set and jump.
struct Trap {
  jpeg_error_mgr manager = {};  // first, so that its address is the trap's
  std::jmp_buf back = {};
  char message[JMSG_LENGTH_MAX] = {};
};

[[noreturn]] void leave(j_common_ptr c) {
  auto* trap = reinterpret_cast<Trap*>(c->err);
  c->err->format_message(c, trap->message);
  std::longjmp(trap->back, 1);
}

// Of the warnings only those of missing data are errors here; stray bytes between segments are common and harmless.
void on_message(j_common_ptr c, int level) {
  if (level < 0 && (c->err->msg_code == JWRN_JPEG_EOF || c->err->msg_code == JWRN_HIT_MARKER)) leave(c);
}

void on_progress(j_common_ptr c) {
  auto* jpeg = reinterpret_cast<j_decompress_ptr>(c);
  if (jpeg->input_scan_number <= kMaxScans) return;
  std::snprintf(reinterpret_cast<Trap*>(c->err)->message, JMSG_LENGTH_MAX, "more than %d scans", kMaxScans);
  std::longjmp(reinterpret_cast<Trap*>(c->err)->back, 1);
}

struct Jpeg {
  Trap trap;
  jpeg_decompress_struct d = {};
  jpeg_progress_mgr progress = {};
  Jpeg() {
    d.err = jpeg_std_error(&trap.manager);
    trap.manager.error_exit = leave;
    trap.manager.emit_message = on_message;
    progress.progress_monitor = on_progress;
  }
  ~Jpeg() { jpeg_destroy_decompress(&d); }
  Jpeg(const Jpeg&) = delete;
};

// The two stages return false with trap.message set where libjpeg gave up.
bool start(Jpeg& jpeg, std::span<const uint8_t> file) {
  if (setjmp(jpeg.trap.back)) return false;
  jpeg_create_decompress(&jpeg.d);
  jpeg.d.progress = &jpeg.progress;
  jpeg_mem_src(&jpeg.d, file.data(), file.size());
  jpeg_read_header(&jpeg.d, TRUE);
  jpeg.d.out_color_space = jpeg.d.num_components == 4 ? JCS_CMYK : jpeg.d.num_components == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_calc_output_dimensions(&jpeg.d);
  return true;
}

bool read_rows(Jpeg& jpeg, uint8_t* out, size_t row) {
  if (setjmp(jpeg.trap.back)) return false;
  jpeg_start_decompress(&jpeg.d);
  while (jpeg.d.output_scanline < jpeg.d.output_height) {
    JSAMPROW line = out + jpeg.d.output_scanline * row;
    jpeg_read_scanlines(&jpeg.d, &line, 1);
  }
  jpeg_finish_decompress(&jpeg.d);
  return true;
}

// a * b / 255 as PIL rounds it
int scaled(int a, int b) {
  const int t = a * b + 128;
  return ((t >> 8) + t) >> 8;
}

}  // namespace

Picture decode_jpeg(std::span<const uint8_t> file, const std::string& name, int64_t width, int64_t height) {
  Jpeg jpeg;
  if (!start(jpeg, file))
    fail(ErrorKind::request, "{}: the JPEG picture is damaged ({}), wanted a whole one; save it again", name, jpeg.trap.message);
  if (jpeg.d.output_width != width || jpeg.d.output_height != height)
    fail(ErrorKind::request, "{}: the JPEG header says {}x{} and {}x{}, wanted one size; save it again", name, width, height,
         jpeg.d.output_width, jpeg.d.output_height);
  const size_t parts = static_cast<size_t>(jpeg.d.output_components), pixels = static_cast<size_t>(width * height);
  std::vector<uint8_t> raw(pixels * parts);
  if (!read_rows(jpeg, raw.data(), static_cast<size_t>(width) * parts))
    fail(ErrorKind::request, "{}: the JPEG picture is damaged or cut short ({}), wanted a whole one; save it again", name,
         jpeg.trap.message);
  Picture out{static_cast<int>(width), static_cast<int>(height), {}};
  if (parts == 3) {
    out.rgb = std::move(raw);
    return out;
  }
  out.rgb.resize(pixels * 3);
  for (size_t i = 0; i < pixels; i++)
    for (size_t c = 0; c < 3; c++) {
      const uint8_t* p = raw.data() + i * parts;
      // Adobe stores ink inverted: p is what is left of the light.
      out.rgb[3 * i + c] = parts == 1 ? p[0] : static_cast<uint8_t>(p[3] - scaled(255 - p[c], p[3]));
    }
  return out;
}

}  // namespace zt

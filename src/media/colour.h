#pragma once
// RGB to what H.264 stores, in integers: the same bytes on every machine, which FFmpeg's scaler does not promise.
#include <cstdint>

namespace zt {

struct Planes420 {  // 8-bit planes; the chroma planes have half the width and height
  uint8_t* y = nullptr;
  uint8_t* u = nullptr;
  uint8_t* v = nullptr;
  int64_t y_stride = 0, u_stride = 0, v_stride = 0;  // bytes
};

// rgb: [height, width, 3], both even. BT.709 matrix, limited range (luma 16..235, chroma 16..240), rounded to nearest. Chroma
// is sited left (H.264's default): a 1-2-1 filter across, the mean of two rows down. Source: ITU-T H.264 Annex E, BT.709-6.
void rgb_to_yuv420_bt709(const uint8_t* rgb, int width, int height, const Planes420& out) noexcept;

}  // namespace zt

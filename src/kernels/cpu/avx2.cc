// The AVX2 and FMA table: one exported function, everything else local to this unit.
#include <immintrin.h>

#include "kernels/ops.h"

namespace zt {

namespace {

#include "kernels/cpu/vec_avx2.inl"

#include "kernels/cpu/math.inl"

constexpr int kRows = 6, kVectors = 2, kDepth = 256;

#include "kernels/cpu/finish.inl"
#include "kernels/cpu/product.inl"
#include "kernels/cpu/rows.inl"
#include "kernels/cpu/transpose.inl"

}  // namespace

void fill_avx2(Ops& table) {
  table.f32_rows = kRows;
  table.f32_cols = kVectors * kLanes;
  table.f32_lane = kLanes;
  table.f32_kc = kDepth;
  table.gemm_f32 = gemm_f32;
  table.finish = finish;
  table.softmax = softmax;
  table.transpose_f32 = transpose_f32;
  table.rms_norm = rms_norm;
  table.layer_norm = layer_norm;
  table.rms_norm_modulate = rms_norm_modulate;
  table.head_norm_rope = head_norm_rope;
  table.swiglu = swiglu;
  table.activation = activation;
  table.add_scaled = add_scaled;
  table.snake = snake;
  table.snake_anti_aliased = snake_anti_aliased;
  table.column_stats = column_stats;
  table.affine = affine;
  table.all_finite = all_finite;
  table.planes_to_rgb = planes_to_rgb;
}

}  // namespace zt

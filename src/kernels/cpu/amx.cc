// bf16 products and attention on AMX tiles (Intel, from Sapphire Rapids on): one exported function, everything else local.
#include <immintrin.h>

#include "kernels/ops.h"

namespace zt {

namespace {

#include "kernels/cpu/vec_avx512.inl"

#include "kernels/cpu/math.inl"

#include "kernels/cpu/finish.inl"

#include "kernels/cpu/amx_product.inl"

#include "kernels/cpu/amx_attention.inl"

}  // namespace

void fill_amx(Ops& table) {
  table.gemm_bf16 = gemm_bf16;
  table.to_bf16 = to_bf16;
  table.to_bf16_tiles = to_bf16_tiles;
  table.bf16_queries = kQueries;
  table.bf16_attention_scratch = bf16_attention_scratch;
  table.bf16_pack_keys = bf16_pack_keys;
  table.bf16_attention = bf16_attention;
}

}  // namespace zt

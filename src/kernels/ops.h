#pragma once
// One table of function pointers per instruction set. Every entry is single-threaded, noexcept, works on a block that a driver
// (gemm.cc, attention.cc, elementwise.cc) hands to one worker, and sums each output element in an order that does not depend on
// the block. Plain structs only: this header is compiled with the flags of every instruction set, so nothing here may have
// inline code that another unit could link by mistake.
#include <cstdint>

namespace zt {

// c[m, n] (+)= A[0 .. m, k0 .. k1] * B, the sum of k0 .. k1 made first. Row i of A is the concatenation of `segment` floats at a + i * row_stride + offsets[s].
// B lies in panels of f32_cols columns, the last one padded to a multiple of f32_lane: panel p is [k][width] at b + p * f32_cols * k.
struct F32Block {
  const float* a;
  int64_t row_stride;
  const int64_t* offsets;
  int64_t segment;
  int64_t k0, k1;
  const float* b;
  int64_t k;
  int64_t m, n;          // n is a multiple of f32_lane; columns past the last real one are written too
  float* c;
  int64_t ldc;
  bool accumulate;
};

// The end of a product: GemmOutput over an accumulated block.
struct FinishBlock {
  const float* acc;
  int64_t ldacc;
  int64_t m, n;
  float* c;
  int64_t ldc;
  const float* bias;             // [n] or null
  int activation;                // enum Activation
  bool add;
  const float* gate;             // rows of [n], gate_stride apart, or null
  int64_t gate_stride;
  const int32_t* gate_row;       // [m] or null
  // Tile products only. Columns come in pairs of 16 values and their 16 gates: c gets value * silu(gate), half as many columns.
  bool paired;
  uint16_t* tiles;               // instead of c, bf16 tiles [..][tile_cols / 32][16][32] from row tile_row and column tile_col on; paired only
  int64_t tile_row, tile_col, tile_cols;
  bool stream;                   // c is too large to be found in a cache again, and every row of it starts on 64 bytes: write past them
};

// A * B in bf16 with float32 sums, then `end`. A is the sum of `parts` (1 to 3) matrices, `part_stride` values apart, all multiplied with
// the same tile of B. Tile (i, t) of each, 16 rows of 32 values, starts at a + i * block_stride + tile_offset[t], rows `pitch` values
// apart. B: panels of 32 columns (the last of 16 or 32), each [k_tiles][16-column tiles][16][16][2]: pairs along k.
struct Bf16Block {
  const uint16_t* a;
  int64_t block_stride;          // values between blocks of 16 rows
  const int64_t* tile_offset;    // [k_tiles]
  int64_t pitch;
  int64_t parts, part_stride;
  int64_t k_tiles;
  const uint16_t* b;
  // Instead of b, if not null: weights in codes of 4, 6 or 8 bits, panels of coded_bytes each (kernels/coded.h), the bf16 of every code,
  // and room for one panel of 32 columns.
  const uint8_t* coded;
  int64_t coded_bytes;
  int code_bits;
  const uint16_t* code_table;
  uint16_t* unpacked;
  int64_t m, n;                  // rows, of which whole tiles are readable; columns, a multiple of 16
  FinishBlock end;               // of the block's first row and column; acc is not used
};

// One block of keys of a streaming softmax. Row i has seen none or some blocks before: top[i] is its largest scaled score so far
// (-inf at first), sum[i] its sum of weights. On return s holds weights exp(scale * s - top), zero from `valid` to n_pad, and
// o[i, 0 .. d_pad) has been rescaled to the new top.
struct SoftmaxBlock {
  float* s;
  int64_t lds;
  int64_t m, n, n_pad;           // rows, keys, keys rounded up: all n_pad columns of s are readable
  int64_t first_valid;           // row i sees keys below first_valid + i (at most n); INT64_MAX: all
  float scale;
  float* top;
  float* sum;
  float* o;
  int64_t ldo, d_pad;
};

// Keys and values of one head in bf16, packed for tile products, and a block of queries against them.
struct Bf16Keys {
  const float* k;
  const float* v;
  int64_t k_stride, v_stride;
  int64_t rows;                  // keys
  int64_t first, last;           // keys to pack now: first is a multiple of 32, last too or == rows
  int64_t d;                     // head_dim
  uint16_t* k_tiles;             // [rows_pad / 16][d_pad / 32][16][16][2]; rows_pad and d_pad: multiples of 32
  uint16_t* v_tiles;             // [d_pad / 32][rows_pad / 32][2][16][16][2]
};
struct Bf16Attention {
  const float* q;
  float* o;
  uint16_t* o_tiles;             // instead of o: bf16 tiles [..][o_cols / 32][16][32], from row o_row and column o_col on
  int64_t o_row, o_col, o_cols;
  int64_t q_stride, o_stride;
  int64_t m;                     // queries of the block, at most bf16_queries
  int64_t first_valid;           // query i sees keys below first_valid + i; INT64_MAX: all
  // Null: every key. Otherwise the blocks of key_block keys that are seen, ascending; key_block is a multiple of 32.
  const int32_t* key_blocks;
  int64_t key_block_count, key_block;
  const uint16_t* k_tiles;
  const uint16_t* v_tiles;
  int64_t rows, d;
  float scale;
  float longest_key;             // squared length of the longest key, or NaN
  void* scratch;                 // bf16_attention_scratch(d) bytes, 64-byte aligned
};

struct NormRows {                // rms_norm, layer_norm and rms_norm_modulate over `rows` rows
  const float* x;
  int64_t x_stride;
  float* y;
  int64_t y_stride;
  int64_t rows, cols;
  float eps;
  const float* weight;           // [cols] or null
  const float* bias;             // [cols] or null
  const float* scale;            // rms_norm_modulate: rows of [cols], `stride` apart
  const float* shift;
  int64_t stride;
  const int32_t* table_row;      // [rows]
};

struct RopeRows {                // head_norm_rope over `rows` rows
  float* x;
  int64_t stride;
  int64_t rows;
  int64_t heads, head_dim;
  float eps;
  const float* weight;
  const float* cosine;           // [rows, half] or null
  const float* sine;
  int64_t half;
};

struct MapRows {                 // y = f(x), row by row; for swiglu y has half the columns of x
  const float* x;
  int64_t x_stride;
  float* y;
  int64_t y_stride;
  int64_t rows, cols;            // columns of y
  const float* a;                // per column: scale of add_scaled, alpha of snake
  const float* b;                // per column: 1 / (beta + 1e-9) of snake
};

// Snake between two resampling filters over output rows [t0, t1) of a signal of `total` rows.
struct SnakeTile {
  const float* x;
  int64_t x_stride;
  float* y;
  int64_t y_stride;
  int64_t total, channels, t0, t1;
  const float* alpha;            // [channels + 16], periodic: alpha[i] is that of channel i mod channels
  const float* inverse_beta;     // the same of 1 / (beta + 1e-9)
  const float* up;               // [12]
  const float* down;             // [12]
  float* scratch;                // snake_scratch_floats(t1 - t0, channels)
};

struct RgbPixels {               // n pixels of three planes to bytes: r, g, b, r, ...
  const float* x;
  int64_t plane;                 // floats between planes
  int64_t n;
  const float* scale;            // [3], of a plane
  const float* shift;
  uint8_t* rgb;
};

struct ColumnStats {             // of x [rows, cols]: mean and sum of squared deviations from it, per column
  const float* x;
  int64_t x_stride;
  int64_t rows, cols;
  float* mean;
  float* m2;
};

struct Ops {
  const char* name;

  int f32_rows, f32_cols, f32_lane, f32_kc;
  void (*gemm_f32)(const F32Block&) noexcept;
  void (*finish)(const FinishBlock&) noexcept;

  // Null in tables without bf16 units.
  void (*gemm_bf16)(const Bf16Block&) noexcept;
  // Splits x into `parts` bf16 that sum up to it as nearly as so many can (three: exactly); part p at out + p * part_stride.
  void (*to_bf16)(const float* x, int64_t n, int parts, int64_t part_stride, uint16_t* out) noexcept;
  // Tiles [ceil(k / 32)][parts][16][32] of rows 0 .. m (at most 16) of a GemmInput-like A; what is past m or past k becomes zero.
  void (*to_bf16_tiles)(const F32Block& a, int parts, uint16_t* out) noexcept;

  void (*softmax)(const SoftmaxBlock&) noexcept;
  // Panels of keys for gemm_f32: out[d][width] of `rows` rows, `stride` apart, width = f32_cols (the last padded to f32_lane).
  void (*transpose_f32)(const float* x, int64_t stride, int64_t rows, int64_t d, int64_t width, float* out) noexcept;
  int bf16_queries;
  int64_t (*bf16_attention_scratch)(int64_t d) noexcept;
  float (*bf16_pack_keys)(const Bf16Keys&) noexcept;   // the squared length of the longest of these keys, NaN if there is one
  void (*bf16_attention)(const Bf16Attention&) noexcept;

  void (*rms_norm)(const NormRows&) noexcept;
  void (*layer_norm)(const NormRows&) noexcept;
  void (*rms_norm_modulate)(const NormRows&) noexcept;
  void (*head_norm_rope)(const RopeRows&) noexcept;
  void (*swiglu)(const MapRows&, bool value_first) noexcept;
  void (*activation)(const MapRows&, int activation) noexcept;
  void (*add_scaled)(const MapRows&) noexcept;
  void (*snake)(const MapRows&) noexcept;
  void (*snake_anti_aliased)(const SnakeTile&) noexcept;
  void (*column_stats)(const ColumnStats&) noexcept;
  void (*affine)(const MapRows&, bool with_silu) noexcept;   // y = x * a + b, then silu
  bool (*all_finite)(const float* x, int64_t n) noexcept;
  bool (*planes_to_rgb)(const RgbPixels&) noexcept;   // false: one of x is not finite
};

// Each instruction set fills the entries in which it wins over the tables below it.
void fill_ref(Ops& table);
void fill_avx2(Ops& table);
void fill_avx512(Ops& table);
void fill_amx(Ops& table);
// "avx2", "avx512", "amx": whether this processor and system can run it (cpuid, XCR0, and the tile permission of Linux).
bool isa_available(const char* name);

// Floats of scratch for a SnakeTile: the input with a halo of 6 rows on each side and both phases of the doubled rate with 3,
// each with room for a whole vector past its end.
constexpr int64_t snake_scratch_floats(int64_t rows, int64_t channels) { return (rows * 3 + 24) * channels + 3 * 16; }

}  // namespace zt

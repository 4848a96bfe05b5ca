#pragma once
// Softmax attention in one pass over the keys; no score matrix is ever held whole.
#include <cstdint>

#include "kernels/activations.h"
#include "kernels/compute.h"
#include "kernels/exec.h"

namespace zt {

// o[i, h] = softmax_j(scale * q[i, h] . k[j, h / (heads / kv_heads)]) v[j, ...]. Head h of row i of q is at q + i * q_stride + h * head_dim.
struct AttentionArgs {
  const float* q = nullptr;
  const float* k = nullptr;
  const float* v = nullptr;
  float* o = nullptr;
  uint16_t* o_tiles = nullptr;         // instead of o, where compute is bf16 and tile units are there: Activations [q_rows, heads * head_dim]
  int64_t q_rows = 0, kv_rows = 0;
  int64_t q_stride = 0, k_stride = 0, v_stride = 0, o_stride = 0;   // floats between rows
  int heads = 0, kv_heads = 0, head_dim = 0;
  float scale = 1;
  bool causal = false;                 // row i sees keys 0 .. i + kv_rows - q_rows
  double mass = 1;                     // below 1: blocks of keys are left out as long as the others are expected to hold this share of the weight (block_mask.h);
                                       // not with causal
  int64_t sink = 0;                    // leading rows (text) that every query sees, and whose blocks of queries see every key, whatever mass says
  Compute compute = Compute::f32;      // attention_compute of it; bf16: q, k, v and the weights rounded to bf16, sums and softmax in float32
};

void attention(const Exec& exec, const AttentionArgs& args);

}  // namespace zt

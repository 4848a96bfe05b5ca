#pragma once
// Which blocks of keys each block of queries attends to, chosen by content before the attention itself is computed.
//
// The rows of a head are averaged over kPool rows; a softmax over the averages says how much weight each block of keys is to be expected to hold for
// each block of queries. The blocks that hold most are kept until they hold the share that is asked for; a query block always sees its own place.
// Sources of the idea: SpargeAttn (arXiv 2502.18137), XAttention (arXiv 2503.16428): pooled scores, a share of their softmax as the measure.
#include <span>

#include "kernels/attention.h"

namespace zt {

constexpr int64_t kMaskBlock = 96;   // rows of a block, of queries and of keys alike: whole tiles of every table
constexpr int64_t kPool = 32;        // rows of an average

struct BlockMask {
  int64_t q_blocks = 0, k_blocks = 0;
  const int32_t* kept = nullptr;     // [heads][q_blocks][k_blocks]: blocks of keys, ascending, the first `count` of each row
  const int32_t* count = nullptr;    // [heads][q_blocks]
  // Empty where there is no mask: every key.
  std::span<const int32_t> row(int64_t head, int64_t q_block) const {
    if (!kept) return {};
    const int64_t i = head * q_blocks + q_block;
    return {kept + i * k_blocks, static_cast<size_t>(count[i])};
  }
};

// The mask of a.mass; lies in exec.scratch until the caller's scope ends. The same for every number of threads. A NaN keeps every block of its row.
BlockMask choose_blocks(const Exec& exec, const AttentionArgs& a);

}  // namespace zt

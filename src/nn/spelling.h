#pragma once
// The tensors of a checkpoint as a file of a chosen spelling keeps them: the tables of nn/weights.h read the other way round.
#include <string>
#include <vector>

#include "nn/weights.h"

namespace zt {

enum class Spelling {
  ours,        // the names of the table
  stacked,     // the first other spelling, fused rows as all q, all k, all v (single files, GGUF)
  by_head,     // the same, fused rows head by head (released shards)
};

struct SpelledTensor {
  std::string name;
  Shape shape;
  TensorSpec::Use use = TensorSpec::Use::matrix;
  DType dtype = DType::f32;         // F32, F16 or BF16: holds exactly what the checkpoint says
  struct Run {
    BoundTensor from;
    int64_t first, ours, rows;      // of this tensor, of the table's
  };
  std::vector<Run> runs;            // in the order of `first`, without holes

  int64_t rows() const { return shape.empty() ? 1 : shape[0]; }
  int64_t row_values() const { return rows() ? element_count(shape) / rows() : 0; }
  void read(int64_t first, int64_t n, float* out) const;   // float32
  void release_pages(const WeightFiles& files) const;      // its bytes need not stay resident
};

// Every tensor that `binding` (complete) has of the table, in the table's order; foreign ones only in other spellings than ours. Points
// into the files that were bound.
std::vector<SpelledTensor> spell(const TensorSpecs& specs, const Binding& binding, Spelling spelling);

}  // namespace zt

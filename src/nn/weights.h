#pragma once
// The tensor table of a model and the store that a checkpoint fills through it. Loading, counting, verifying, converting and packing
// all walk the same table; after load nothing is looked up by name.
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "kernels/gemm.h"
#include "nn/checkpoint.h"
#include "tensor/tensor.h"

namespace zt {

// Where another spelling of the checkpoint keeps a tensor, and in which order of rows.
struct TensorSource {
  std::string name;
  enum class Rows {
    same,
    halves_swapped,       // [gate; value] for our [value; gate]
    fused,                // part `part` of a stacked q, k, v: all q, all k, all v, or head by head as the container says
    fused_by_head,        // the same, always q, k, v of head 0, of head 1, ...
    norms,                // the length of each row (a weight norm that was folded into the weight)
  } rows = Rows::same;
  int64_t part = 0, heads = 1;   // of fused rows
};

struct TensorSpec {
  std::string name;       // ours, the diffusers spelling
  Shape shape;            // from the config
  enum class Use {
    matrix,               // multiplied with activations in the plan's compute type
    island,               // multiplied in float32 always (embedders and heads)
    vector,               // biases, norms, tables: kept in float32
    dead,                 // part of the checkpoint, never read (lm_head, layers after the one used)
    foreign,              // no part of ours: other spellings carry it, of any shape, and it says nothing new (rope.inv_freq)
  } use = Use::matrix;
  std::vector<TensorSource> sources = {};   // other spellings; a file that has `name` uses it
  int shard_axis = -1;    // axis that tensor parallelism would split, -1: replicated
};
using TensorSpecs = std::vector<TensorSpec>;

int64_t parameter_count(const TensorSpecs& specs);

// Calls f(ours, theirs, n) for the runs of rows that stand together in our order and in that of a tensor of `stored_rows` rows,
// over our rows [first, first + n). `rows` is not norms.
void for_each_run(const TensorSource& order, int64_t stored_rows, int64_t first, int64_t n, const std::function<void(int64_t, int64_t, int64_t)>& f);
inline bool is_fused(TensorSource::Rows r) { return r == TensorSource::Rows::fused || r == TensorSource::Rows::fused_by_head; }

// A tensor of the table and where a checkpoint keeps it.
struct BoundTensor {
  const Stored* stored = nullptr;   // nullptr: absent
  TensorSource order;               // fused is settled: fused (all q, all k, all v) or fused_by_head
  // Our rows [first, first + n), float32.
  void read(int64_t first, int64_t n, float* out) const;
};

struct Binding {
  std::vector<BoundTensor> tensors;      // one for each of the table, in its order
  std::vector<std::string> missing;      // names of the table
  std::vector<std::string> unexpected;   // names of the file
  std::vector<std::string> misfits;      // messages: another shape, or no type that can be read
};
Binding bind_tensors(const WeightFiles& files, const TensorSpecs& specs);
// Errors (kind model) if anything is missing, misfits or is unexpected; each names file, tensor, found and wanted.
void check_binding(const Binding& b, const TensorSpecs& specs, const std::string& component);

// What is added to tensors of the table when they are read: adapters of the request.
class WeightEdits {
 public:
  virtual ~WeightEdits() = default;
  virtual bool touches(const std::string& name) const = 0;
  // values [count] of the whole tensor, changed in place.
  virtual void apply(const std::string& name, const Shape& shape, float* values) const = 0;
};

class Weights {
 public:
  // Checks the files against the table. `edits` (may be null) must outlive the store. Errors (kind model): a tensor missing, of
  // another shape or no type that can be read; a tensor that the table does not list. Each names file, tensor, found and wanted.
  Weights(WeightFiles files, TensorSpecs specs, std::string component, const WeightEdits* edits = nullptr);

  // The tensor in our order of rows: bytes of the file where it keeps them so, else a copy that lives until release_pages(name).
  // Internal error if the table has no such name.
  const View& view(const std::string& name) const;
  bool has(const std::string& name) const { return index_.count(name) != 0; }
  std::vector<float> vector(const std::string& name) const;   // widened
  // Row r of dim 0, float32, without decoding the others.
  void row(const std::string& name, int64_t r, float* out) const;
  // W[n, segments * k] packed for `ops`; islands are always computed in float32.
  PackedWeight pack(const Ops& ops, const std::string& name, Compute compute, PackInto into = {}) const;
  // Rows of a matrix for pack_weight, valid until release_pages(name). Only an edited tensor is made whole for it.
  RowSource source(const std::string& name) const;
  // After packing: what was read of the files need not stay in memory.
  void release_pages() const;
  void release_pages(const std::string& name) const;          // pack() does so by itself
  const std::string& component() const { return component_; }
  const TensorSpecs& specs() const { return specs_; }

  // What the checkpoint keeps the tensors of these names of the table in, each once.
  std::vector<const Stored*> stored(const std::function<bool(const std::string&)>& wanted) const;
  // As WeightFiles::read; may run beside everything else that this store does.
  void fetch(std::span<const Stored* const> tensors, Staging& out, bool forget, const std::atomic<bool>& stop) const {
    files_->read(tensors, out, forget, stop);
  }
  // From now on the tensors of `staging` come from there, until the next call; null: from the files again. Views that are out end.
  void use(const Staging* staging) const { made_.clear(), staging_ = staging; }

 private:
  const BoundTensor& bound(const std::string& name) const;   // in the files
  BoundTensor at_hand(const std::string& name) const;        // the same with its bytes in the staging, if they are there
  void make(const std::string& name, const TensorSpec& spec, const BoundTensor& b) const;

  std::unique_ptr<WeightFiles> files_;    // stays in place: bindings point into it
  TensorSpecs specs_;
  std::vector<BoundTensor> bound_;
  std::string component_;
  const WeightEdits* edits_;
  mutable const Staging* staging_ = nullptr;
  std::unordered_map<std::string, size_t> index_;
  struct Made { Buffer buffer; View view; };
  mutable std::unordered_map<std::string, Made> made_;   // views and copies that are out
};

}  // namespace zt

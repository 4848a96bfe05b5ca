#pragma once
// The tensor table of a model and the store that a checkpoint fills through it. Loading, counting, verifying and packing all
// walk the same table; after load nothing is looked up by name.
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "formats/safetensors.h"
#include "kernels/gemm.h"
#include "tensor/tensor.h"

namespace zt {

// Spellings of one checkpoint (h3: diffusers folders, released FL2VA/Ref2VA folders, graph editors' single file, GGUF).
enum class Dialect { diffusers, original, single_file, gguf };

struct TensorSpec {
  std::string name;       // ours, the diffusers spelling
  Shape shape;            // from the config
  enum class Use {
    matrix,               // multiplied with activations in the plan's compute type
    island,               // multiplied in float32 always (embedders and heads)
    vector,               // biases, norms, tables: kept in float32
    dead,                 // part of the checkpoint, never read (lm_head, layers after the one used)
  } use = Use::matrix;
  // Where other dialects keep it: (dialect, name there). A dialect absent here uses `name`.
  std::vector<std::pair<Dialect, std::string>> sources = {};
  int shard_axis = -1;    // axis that tensor parallelism would split, -1: replicated
};
using TensorSpecs = std::vector<TensorSpec>;

int64_t parameter_count(const TensorSpecs& specs);

class Weights {
 public:
  // Checks the files against the table. Errors (kind model): a tensor missing, of another shape or no float type; a tensor that
  // the table does not list. Each names file, tensor, found and wanted.
  Weights(SafetensorsSet files, TensorSpecs specs, std::string component);

  const View& view(const std::string& name) const;        // internal error if the table has no such name
  bool has(const std::string& name) const { return index_.count(name) != 0; }
  std::vector<float> vector(const std::string& name) const;   // widened
  // W[n, segments * k] packed for `ops`; islands are always computed in float32.
  PackedWeight pack(const Ops& ops, const std::string& name, Compute compute) const;
  // After packing: what was read of the files need not stay in memory.
  void release_pages() const;
  void release_pages(const std::string& name) const { files_.release_pages(name); }   // pack() does so by itself
  const std::string& component() const { return component_; }
  const TensorSpecs& specs() const { return specs_; }
  const SafetensorsSet& files() const { return files_; }

 private:
  SafetensorsSet files_;
  TensorSpecs specs_;
  std::string component_;
  std::unordered_map<std::string, size_t> index_;
};

}  // namespace zt

#pragma once
// The tensors of one component as its files keep them, whatever the container: safetensors with or without the scales of the
// graph editors' quantised files, or GGUF. Values are decoded when rows are asked for; nothing is copied at opening.
#include <atomic>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "formats/gguf.h"
#include "formats/safetensors.h"

namespace zt {

// One tensor.
struct Stored {
  enum class Coding { plain, scaled, nvfp4, gguf };
  std::string name;          // without a container's prefix
  Shape shape;               // of the values, not of their codes
  Coding coding = Coding::plain;
  View bytes;                // plain, scaled: [shape]; nvfp4: U8 [out, in / 2]; gguf: U8 [n]
  View scale;                // scaled: one value, or one a row; nvfp4: F8_E4M3, one for 16 values, in tiles of 128 x 4
  float scale2 = 1;          // nvfp4: of the whole tensor
  int64_t rotation = 0;      // scaled: inputs in groups of so many were turned by the Hadamard matrix H4 x H4 x ... / sqrt(group)
  GgufType type = GgufType::f32;
  const std::string* file = nullptr;   // path

  int64_t rows() const { return shape.empty() ? 1 : shape[0]; }
  int64_t row_values() const { return rows() ? element_count(shape) / rows() : 0; }
  std::string coding_name() const;     // "BF16", "F8_E4M3 scaled", "I8 rotated", "NVFP4", "Q4_K", for people
};

// The bytes of some tensors, read from their files into memory that is used again by the next that are read into it.
class Staging {
 public:
  // The tensor with its bytes here, nullptr if it was not read.
  const Stored* find(const Stored& of) const;
  size_t bytes() const { return buffer_.size(); }

 private:
  friend class WeightFiles;
  Buffer buffer_;
  std::vector<std::pair<const Stored*, Stored>> tensors_;
};

// Values of rows [first, first + n) of dim 0, float32, out [n, row_values()].
void read_rows(const Stored& t, int64_t first, int64_t n, float* out);

class WeightFiles {
 public:
  // Errors (kind model): scales without a tensor or of a wrong shape, a .comfy_quant that is no JSON or names an unknown format.
  WeightFiles(SafetensorsSet files);
  explicit WeightFiles(GgufFile file);

  const Stored* find(const std::string& name) const;                // nullptr if absent
  const std::vector<Stored>& tensors() const { return tensors_; }   // in the order of the files
  void release_pages(const Stored& t) const;                        // its bytes need not stay resident
  void release_pages() const;                                       // nor those of any
  // Reads `tensors`, of this checkpoint, into `out`. Safe beside all other reading. Errors (kind model, naming the file and tensor): those of
  // MappedFile::read, whose `forget` and `stop` these are.
  void read(std::span<const Stored* const> tensors, Staging& out, bool forget, const std::atomic<bool>& stop) const;
  const std::string& origin() const { return origin_; }
  size_t file_count() const { return set_ ? set_->files().size() : 1; }
  int64_t total_bytes() const;                                      // of tensors on disk
  std::vector<SafetensorsSet::FileHash> sha256() const;             // as SafetensorsSet::sha256; none of a GGUF file
  // True for the released shards of original names, whose fused q, k, v stand head by head. Names and shapes do not tell them from
  // the graph editors' files and GGUF, which keep all q, all k, all v: the container does (shards with an index, or a config.json of
  // class MiniMaxH3DiTModel, against one lone file).
  bool fused_by_head() const { return fused_by_head_; }

 private:
  const MappedFile& holder(std::span<const std::byte> bytes) const;
  void add(Stored t);
  void attach_scales();

  std::string origin_;
  std::optional<SafetensorsSet> set_;
  std::optional<GgufFile> gguf_;
  std::vector<Stored> tensors_;
  std::unordered_map<std::string, size_t> index_;
  std::unordered_map<std::string, std::string> formats_;   // layer -> quantisation stated in the file's metadata
  bool fused_by_head_ = false;
};

// A file (.safetensors, .index.json, .gguf) or a component's folder, as open_weights of an empty stem; a folder without safetensors may hold one .gguf.
WeightFiles open_checkpoint(const std::string& path);

}  // namespace zt

#pragma once
// safetensors files: named views of a mapped file, sets of shards with their index, and a writer.
// Format: https://huggingface.co/docs/safetensors - 8 bytes little-endian header length, a JSON header, then the bytes of all
// tensors without a hole. Everything here is untrusted: each claim of a header is checked before a view of it is made.
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/mapped_file.h"
#include "tensor/tensor.h"

namespace zt {

struct NamedView {
  std::string name;
  View view;  // bytes of a mapped file (read) or of the caller (write); the start need not be aligned
};

using StringMap = std::map<std::string, std::string>;

// One file, mapped for the life of the object.
class SafetensorsFile {
 public:
  // Errors (kind model, naming file, tensor, found and wanted): unreadable, truncated, padded, overlapping, with holes, unknown
  // dtype, shape and size that differ, a name twice, anything that is not the JSON of the format.
  explicit SafetensorsFile(const std::string& path);

  const std::string& path() const { return file_->path(); }
  const std::vector<NamedView>& tensors() const { return tensors_; }  // in the order of the header
  const View* find(std::string_view name) const;                      // nullptr if absent
  const StringMap& metadata() const { return metadata_; }             // "__metadata__"
  int64_t total_bytes() const;                                        // of all tensors
  const MappedFile& mapped() const { return *file_; }

 private:
  std::shared_ptr<MappedFile> file_;
  std::vector<NamedView> tensors_;
  std::unordered_map<std::string, size_t> index_;
  StringMap metadata_;
};

// The header alone: `bytes` is the whole file, `origin` its name in messages. The views point into `bytes`.
struct SafetensorsHeader {
  std::vector<NamedView> tensors;
  StringMap metadata;
};
SafetensorsHeader parse_safetensors(std::span<const std::byte> bytes, const std::string& origin);

// The weights of one component: one file, or shards with an index.
class SafetensorsSet {
 public:
  std::vector<std::string> names() const;                   // in the order of the files and of their headers
  const View* find(std::string_view name) const;            // nullptr if absent
  const std::string& file_of(std::string_view name) const;  // path; error kind model if there is no such tensor
  const std::vector<SafetensorsFile>& files() const { return files_; }
  size_t size() const { return where_.size(); }
  int64_t total_bytes() const;
  const std::string& origin() const { return origin_; }  // the file or the index, for messages

  struct FileHash {
    std::string path, wanted, found;  // lower-case hex
  };
  // SHA-256 of every file for which the index ("metadata": {"sha256": {file: hex}}) or a "FILE.sha256" beside it states one.
  // Reads those files whole. Errors (kind model): a statement that is no SHA-256.
  std::vector<FileHash> sha256() const;

 private:
  friend SafetensorsSet open_weights(const std::string&, const std::string&);
  void add(SafetensorsFile file);

  std::string origin_;
  std::vector<SafetensorsFile> files_;
  std::unordered_map<std::string, std::pair<size_t, size_t>> where_;  // name -> file, tensor
  StringMap stated_;                                                  // path -> sha256 stated by the index
};

// Opens `path`: a .safetensors file, an .index.json, or a component's folder. In a folder the weights are STEM.safetensors or
// STEM.safetensors.index.json with its shards; an empty stem tries "diffusion_pytorch_model", "model", then a lone .safetensors.
// Errors (kind model): no weights, several candidates, a shard without its index, a shard or a tensor that the index names and
// that is absent, a tensor in two shards or not in the index, a total_size that is not the sum; and those of SafetensorsFile.
SafetensorsSet open_weights(const std::string& path, const std::string& stem = "");

// Writes `tensors` (order kept among equal element sizes; larger element sizes first, so that all stand aligned) to a temporary
// file beside `path` and renames it into place. Errors (kind request): a name twice, unwritable, disk full.
void save_safetensors(const std::string& path, const std::vector<NamedView>& tensors, const StringMap& metadata = {});

// Lower-case hex SHA-256 of a file. Errors (kind model): unreadable.
std::string sha256_file(const std::string& path);
// The same of bytes in memory.
std::string sha256(std::string_view bytes);

}  // namespace zt

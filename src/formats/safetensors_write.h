#pragma once
// A safetensors file that is written tensor by tensor, for files larger than memory; save_safetensors writes what is in memory.
#include <string>
#include <vector>

#include "formats/output_file.h"
#include "formats/safetensors.h"

namespace zt {

class SafetensorsWriter {
 public:
  // Writes the header. The data of the views is not read. They stand in the file by element size, the largest first, so that all are
  // aligned. Errors (kind request): a name twice, unwritable, disk full.
  SafetensorsWriter(const std::string& path, const std::vector<NamedView>& tensors, const StringMap& metadata = {});
  void begin(size_t tensor);                      // what is written next are the bytes of this one, by its place in the list
  void write(const void* data, size_t bytes);     // internal error: more than the tensor has
  void commit();                                  // internal error: not all was written

 private:
  OutputFile file_;
  std::vector<int64_t> at_, left_;                // of each tensor: where it stands, bytes that are still to come
  size_t current_ = 0;
};

// The index of a component that is one shard: `tensors` (data not read) in the file named `shard` beside it. Errors (kind request): unwritable.
void save_index(const std::string& path, const std::string& shard, const std::vector<NamedView>& tensors);

}  // namespace zt

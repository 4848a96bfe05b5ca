// Any bytes as an adapter for a small table: refused with an Error, or merged within bounds.
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "nn/adapter.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using Rows = zt::TensorSource::Rows;
  using Use = zt::TensorSpec::Use;
  static const std::string path = (access("/dev/shm", W_OK) == 0 ? "/dev/shm/zt_adapter_" : "/tmp/zt_adapter_") + std::to_string(getpid()) + ".safetensors";
  static const zt::TensorSpecs specs = {{"b.to_q.weight", {4, 6}, Use::matrix, {{"a.qkv.weight", Rows::fused, 0, 2}}},
                                        {"b.to_k.weight", {4, 6}, Use::matrix, {{"a.qkv.weight", Rows::fused, 1, 2}}},
                                        {"b.ff.weight", {8, 6}, Use::matrix, {{"a.fc1.weight", Rows::halves_swapped}}},
                                        {"b.ff.bias", {8}, Use::vector}};
  std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  try {
    zt::read_adapter_schedule(path);
    const zt::Adapters adapters({{path, 0.5}, {path, 1}}, specs);
    for (const zt::TensorSpec& s : specs) {
      std::vector<float> values(static_cast<size_t>(zt::element_count(s.shape)), 1);
      adapters.apply(s.name, s.shape, values.data());
    }
  } catch (const zt::Error&) {
  }
  return 0;
}

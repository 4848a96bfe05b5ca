// Any bytes as the config.json of any component: refused with an Error, or a config whose tensor table can be walked. The first byte
// chooses the component.
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "models/minimax_h3/audio_vae_config.h"
#include "models/minimax_h3/dit.h"
#include "models/minimax_h3/model_index.h"
#include "models/minimax_h3/video_vae_config.h"
#include "models/qwen3_vl/config.h"
#include "models/qwen3_vl/processor.h"

namespace {

// A folder of this process's own, in memory where there is one.
const std::string& folder() {
  static const std::string path = [] {
    std::string p = (access("/dev/shm", W_OK) == 0 ? "/dev/shm/zt_fuzz_" : "/tmp/zt_fuzz_") + std::to_string(getpid());
    if (std::system(("mkdir -p " + p + "/transformer " + p + "/text_encoder " + p + "/vae").c_str()) != 0) std::abort();
    return p;
  }();
  return path;
}

std::string put(const std::string& name, const uint8_t* data, size_t size) {
  const std::string path = folder() + "/" + name;
  std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  return path;
}

void walk(const zt::TensorSpecs& specs) {
  if (zt::parameter_count(specs) < 0) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  const uint8_t which = *data++;
  const std::string text(reinterpret_cast<const char*>(data), --size);
  try {
    switch (which % 6) {
      case 0: {
        zt::Json j = zt::parse_json(text, "fuzz");
        walk(zt::h3::dit_tensor_specs(zt::h3::parse_dit_config(zt::JsonView(j, "fuzz"))));
        break;
      }
      case 1: {
        zt::Json j = zt::parse_json(text, "fuzz");
        walk(zt::h3::video_vae_specs(zt::h3::parse_video_vae_config(zt::JsonView(j, "fuzz"))));
        break;
      }
      case 2: {
        zt::Json j = zt::parse_json(text, "fuzz");
        walk(zt::h3::audio_vae_specs(zt::h3::parse_audio_vae_config(zt::JsonView(j, "fuzz"))));
        break;
      }
      case 3: walk(zt::qwen3_vl::tensor_specs(zt::qwen3_vl::read_config(put("config.json", data, size)), 1)); break;
      case 4:
        put("preprocessor_config.json", data, size);
        put("video_preprocessor_config.json", data, size);
        zt::qwen3_vl::read_processor_config(folder());
        break;
      default: put("modular_model_index.json", data, size); zt::h3::read_model_index(folder());
    }
  } catch (const zt::Error&) {
  }
  return 0;
}

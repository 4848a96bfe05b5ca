#pragma once
// Adapters (LoRA, LoKr, whole-tensor differences) of the spellings people have, merged into a model's tensors while they are read.
// Every name is matched against the model's table, so no spelling and no model stands here.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nn/weights.h"

namespace zt {

struct AdapterUse {
  std::string path;        // .safetensors
  double strength = 1;
  bool operator==(const AdapterUse&) const = default;
};

// What an adapter that was distilled for few evaluations says of them: "evaluations", "video_shift" and "audio_shift" of its metadata
// or of FILE.json beside FILE.safetensors, which comes first.
struct AdapterSchedule {
  std::optional<int64_t> evaluations;
  std::optional<float> video_shift, audio_shift;
  bool says_distilled = false;   // by its name: a few-step adapter, whether or not it has a schedule
};
// Errors (kind model): unreadable, no .safetensors, a value out of range.
AdapterSchedule read_adapter_schedule(const std::string& path);

class Adapters final : public WeightEdits {
 public:
  // Errors (kind model, naming file and tensor): unreadable; an alpha that is no finite number; nothing in a file that belongs to the table.
  Adapters(const std::vector<AdapterUse>& uses, const TensorSpecs& specs);
  ~Adapters() override;

  // What of the files was not used: "FILE: NAME: why".
  const std::vector<std::string>& unused() const { return unused_; }

  bool touches(const std::string& name) const override;
  // Adds strength * alpha / r * B A, the Kronecker product or the difference; set_weight goes the strength's part of the way to its
  // values. Errors (kind model): NaN or infinity in a payload.
  void apply(const std::string& name, const Shape& shape, float* values) const override;

 private:
  struct File;
  struct Edit;
  void add(File& file, const TensorSpecs& specs);

  std::vector<std::unique_ptr<File>> files_;
  std::unordered_map<std::string, std::vector<Edit>> edits_;   // by name of the table
  std::vector<std::string> unused_;
};

}  // namespace zt

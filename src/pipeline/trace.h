#pragma once
// Keeps named tensors of a run so that it can be held against the reference, tensor by tensor.
#include <map>
#include <string>
#include <vector>

#include "models/roles.h"
#include "pipeline/request.h"
#include "tensor/tensor.h"

namespace zt {

class TraceRecorder {
 public:
  // A tap that keeps a copy of what it is given. Names that repeat keep the first value.
  Tap tap();
  void put(const std::string& name, const View& value);
  // Row `index` of a tensor that grows evaluation by evaluation: [evaluations, ...].
  void append(const std::string& name, const View& value);

  // Decoded frames and sound as they pass to the sink; finish() reduces them to what the golden files hold.
  void frames(const FrameChunk& chunk, const ClipInfo& clip, Task task);
  void sound(const SoundChunk& chunk, const ClipInfo& clip);
  void finish(Task task);

  struct Kept {
    DType dtype;
    Shape shape;
    std::vector<std::byte> bytes;
  };
  const std::map<std::string, Kept>& tensors() const { return kept_; }

 private:
  std::map<std::string, Kept> kept_;
  std::vector<std::vector<float>> sound_;
  std::vector<uint8_t> frames_u8_;
  std::vector<int32_t> frame_index_;
  std::vector<float> frames_mean_;
};

}  // namespace zt

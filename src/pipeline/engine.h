#pragma once
// A model folder made ready to run under one plan: components are loaded when a request first needs them and stay.
#include <memory>
#include <optional>
#include <string>

#include "models/minimax_h3/model_index.h"
#include "models/qwen3_vl/processor.h"
#include "models/roles.h"
#include "nn/adapter.h"
#include "nn/plan.h"
#include "pipeline/caches.h"
#include "pipeline/memory.h"
#include "pipeline/request.h"
#include "text/tokenizer.h"

namespace zt {

class Engine {
 public:
  // Reads the folder's index and small files; weights follow on first use. Errors (kind model).
  Engine(const std::string& model_folder, const Plan& plan, int threads);

  const h3::ModelIndex& index() const { return index_; }
  const Plan& plan() const { return plan_; }
  const Ops& ops() const { return ops_; }
  int threads() const { return threads_.count(); }

  // Runs a request; the clip goes to `sink` in order. One request at a time. Errors: request, model, resource; Cancelled.
  Result generate(const Request& request, const Sink& sink, const Hooks& hooks);

  const Tokenizer& tokenizer();
  const qwen3_vl::ProcessorConfig& processor();
  // With at least `layers` text layers: a request may ask for another hidden state than the model's own.
  TextEncoder& text_encoder(int64_t layers);
  // Of the task's partition, with the request's adapters merged in: the one that is resident, if it has the same and fits, else loaded anew.
  Denoiser& denoiser(const Request& request);
  // Bytes that this process may take (0, as at first: no limit). Of a transformer that does not fit beside what a request needs, some blocks
  // are streamed from disk, and of two transformers one at a time stays. strict: denoiser() refuses a request that does not fit even so
  // (kind resource); else it is tried, for what a request needs is known only about.
  void limit_memory(int64_t bytes, bool strict) { memory_limit_ = bytes, strict_ = strict; }
  // Blocks that stay whatever the limit; -1: as the limit says.
  void keep_blocks(int64_t blocks) { kept_blocks_ = blocks; }
  // How the transformer of the last denoiser() stays in memory, and what it needs.
  const MemoryUse& memory_use() const { return use_; }
  // What of the adapters of the resident denoiser of the task did not fit.
  const std::vector<std::string>& unused_adapters(Task task) const { return task == Task::ref2va ? denoiser_ref_.unused : denoiser_.unused; }
  VideoCodec& video_codec(bool with_encoder);
  AudioCodec& audio_codec(bool with_encoder);
  Exec exec(const std::atomic<bool>* cancel) { return {threads_, ops_, arena_, cancel}; }
  Arena& arena() { return arena_; }
  Caches& caches() { return caches_; }       // of this engine's requests; keeps nothing until it is given bytes

 private:
  h3::ModelIndex index_;
  Plan plan_;
  const Ops& ops_;
  Threads threads_;
  Arena arena_;
  Caches caches_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<qwen3_vl::ProcessorConfig> processor_;
  std::unique_ptr<TextEncoder> text_encoder_;
  int64_t kept_blocks_ = -1, memory_limit_ = 0;
  bool strict_ = false;
  std::optional<ModelReport> report_;   // for the limit
  MemoryUse use_;
  MemoryUse fit(const Request& request);
  struct Resident {
    std::unique_ptr<Adapters> merged;     // before the denoiser, whose streamed blocks read it
    std::unique_ptr<Denoiser> denoiser;
    std::vector<AdapterUse> adapters;
    int64_t blocks = 0;                   // that stay
    std::vector<std::string> unused;
  };
  Resident denoiser_, denoiser_ref_;
  std::unique_ptr<VideoCodec> video_codec_, retired_video_;   // retired: without an encoder, while streams of a channel may still read it
  std::unique_ptr<AudioCodec> audio_codec_, retired_audio_;
  bool video_encoder_ = false, audio_encoder_ = false;
};

}  // namespace zt

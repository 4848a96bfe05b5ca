#include "pipeline/engine.h"

#include <limits>

#include "models/minimax_h3/audio_vae.h"
#include "models/minimax_h3/dit.h"
#include "models/minimax_h3/video_vae.h"
#include "models/qwen3_vl/text_encoder.h"
#include "pipeline/conditions.h"

namespace zt {

const char* task_name(Task task) {
  switch (task) {
    case Task::t2va: return "t2va";
    case Task::fl2va: return "fl2va";
    case Task::ref2va: return "ref2va";
    case Task::continuation: return "continuation";
  }
  return "";
}

const char* stage_name(Stage stage) {
  switch (stage) {
    case Stage::load: return "load";
    case Stage::text: return "text";
    case Stage::condition: return "condition";
    case Stage::denoise: return "denoise";
    case Stage::video_decode: return "video decode";
    case Stage::audio_decode: return "audio decode";
    case Stage::encode: return "encode";
  }
  return "";
}

Engine::Engine(const std::string& model_folder, const Plan& plan, int threads)
    : index_(h3::read_model_index(model_folder)), plan_(plan), ops_(select_ops()), threads_(threads) {}

const Tokenizer& Engine::tokenizer() {
  if (!tokenizer_) tokenizer_ = std::make_unique<Tokenizer>(Tokenizer::load(index_.folder + "/tokenizer"));
  return *tokenizer_;
}

const qwen3_vl::ProcessorConfig& Engine::processor() {
  if (!processor_) processor_ = std::make_unique<qwen3_vl::ProcessorConfig>(qwen3_vl::read_processor_config(index_.folder + "/processor"));
  return *processor_;
}

TextEncoder& Engine::text_encoder(int64_t layers) {
  if (!text_encoder_ || text_encoder_->layer_count() < layers)
    text_encoder_ = qwen3_vl::load_text_encoder(ops_, index_.folder + "/text_encoder", layers, plan_.text_encoder);
  return *text_encoder_;
}

// As much of the request's transformer as fits.
MemoryUse Engine::fit(const Request& request) {
  if (kept_blocks_ >= 0 || !memory_limit_) {
    MemoryUse use;
    use.resident_blocks = kept_blocks_ >= 0 ? kept_blocks_ : std::numeric_limits<int64_t>::max();
    return use;
  }
  if (!report_) report_ = inspect_model(index_.folder, false);
  return fit_request(*report_, plan_, transformer_of(request.task), request, resolve_geometry(request, index_.canvas_multiple()), memory_limit_);
}

Denoiser& Engine::denoiser(const Request& request) {
  const Task task = request.task;
  const bool ref = task == Task::ref2va;
  if (ref ? !index_.has_transformer_ref : !index_.has_transformer)
    fail(ErrorKind::model, "{}: has no {} folder, which task {} needs; use a checkpoint with that partition", index_.folder,
         transformer_of(task), task_name(task));
  Resident &r = ref ? denoiser_ref_ : denoiser_, &other = ref ? denoiser_ : denoiser_ref_;
  use_ = fit(request);
  if (!use_.fits && strict_) fail(ErrorKind::resource, "--memory is {} MiB, but {}", memory_limit_ >> 20, memory_text(use_));
  if (r.denoiser && r.adapters == request.adapters && r.blocks <= use_.resident_blocks) return *r.denoiser;
  const std::string folder = index_.folder + "/" + transformer_of(task);
  // Opened before the old weights are dropped: an adapter of another model costs nothing.
  std::unique_ptr<Adapters> adapters = request.adapters.empty() ? nullptr : h3::open_adapters(folder, request.adapters);
  r.denoiser.reset();   // both would not fit in memory
  if (report_ && other.denoiser && use_.bytes + memory_needs(*report_, plan_, transformer_of(ref ? Task::t2va : Task::ref2va)).all_blocks() > memory_limit_)
    other.denoiser.reset();
  r.merged = std::move(adapters);
  r.denoiser = h3::load_dit(ops_, threads_, folder, {plan_.denoiser, plan_.attention_mass, r.merged.get(), use_.resident_blocks});
  r.adapters = request.adapters, r.blocks = use_.resident_blocks;
  r.unused = r.merged ? r.merged->unused() : std::vector<std::string>{};
  return *r.denoiser;
}

VideoCodec& Engine::video_codec(bool with_encoder) {
  if (!video_codec_ || (with_encoder && !video_encoder_)) {
    if (video_codec_) retired_video_ = std::move(video_codec_);
    video_codec_ = h3::load_video_vae(ops_, index_.folder + "/vae", plan_.video_decoder, with_encoder);
    video_encoder_ = with_encoder;
  }
  return *video_codec_;
}

AudioCodec& Engine::audio_codec(bool with_encoder) {
  if (!audio_codec_ || (with_encoder && !audio_encoder_)) {
    if (audio_codec_) retired_audio_ = std::move(audio_codec_);
    audio_codec_ = h3::load_audio_vae(ops_, index_.folder + "/audio_vae", with_encoder);
    audio_encoder_ = with_encoder;
  }
  return *audio_codec_;
}

}  // namespace zt

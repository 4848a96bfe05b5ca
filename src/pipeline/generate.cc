// The run of one request up to its latents: presentation, conditions, layout, denoise loop.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "pipeline/channel.h"
#include "pipeline/reuse.h"
#include "pipeline/run.h"

namespace zt {

namespace {

View i32_view(const std::vector<int32_t>& v) { return {v.data(), DType::i32, {static_cast<int64_t>(v.size())}}; }
View f32_view(const std::vector<float>& v) { return {v.data(), DType::f32, {static_cast<int64_t>(v.size())}}; }

std::string key_of(const TextInput& input, int64_t layer) {
  std::string key = fmt::format("{} {} ", layer, bytes_key(input.token_ids.data(), input.token_ids.size() * sizeof(int32_t)));
  key += bytes_key(input.mm_token_type_ids.data(), input.mm_token_type_ids.size() * sizeof(int32_t));
  for (const VisionInput& v : input.vision) {
    key += fmt::format(" {} {}x{} ", v.video, v.grid_h, v.grid_w);
    for (const Picture& p : v.frames) key += media_key(p);
  }
  return key;
}

}  // namespace

Tensor copy_of(const Tensor& t) {
  Tensor out(t.shape());
  std::copy_n(t.data(), t.count(), out.data());
  return out;
}

void Run::prepare() {
  const h3::ModelIndex& index = engine.index();
  geometry = resolve_geometry(request, index.canvas_multiple());
  geometry.latents = {h3::video_latent_frames(geometry.num_frames), geometry.height / index.spatial_ratio, geometry.width / index.spatial_ratio};
  geometry.audio_latents = h3::audio_latents(geometry.num_frames);
  if (request.history) take_history();
  conditions = prepare_conditions(request, geometry, index.canvas_multiple(), engine.processor(), index.sample_rate);
}

// The given latents become conditions; the geometry is left with what is to be made.
void Run::take_history() {
  const h3::ModelIndex& index = engine.index();
  const Tensor &video = request.history->video, &sound = request.history->sound;
  geometry.history_latents = video.dim(1), geometry.history_audio = sound.dim(0) / 2;
  if (video.dim(0) != index.latent_channels || video.dim(2) != geometry.latents.height || video.dim(3) != geometry.latents.width)
    fail(ErrorKind::request, "the history has latents {}, wanted [{}, T, {}, {}]", to_string(video.shape()), index.latent_channels, geometry.latents.height,
         geometry.latents.width);
  geometry.latents.frames -= geometry.history_latents, geometry.audio_latents -= geometry.history_audio;
  condition_shapes.push_back({geometry.history_latents, geometry.latents.height, geometry.latents.width});
  condition_latents.push_back(copy_of(video));
  condition_sounds.push_back(copy_of(sound));
}

void Run::load() {
  progress(Stage::load, 0, 1);
  timer.time(Stage::load, [&] {
    engine.tokenizer();
    engine.denoiser(request);   // first: it refuses what does not fit in memory
    engine.text_encoder(request.config.text_encoder_layer);
    bool pixels = false, sound = false;
    for (const Condition& c : conditions) pixels |= !c.pixels.empty(), sound |= c.sound.has_value();
    engine.video_codec(pixels);
    engine.audio_codec(sound);
  });
}

Tensor Run::encode_text(const Ctx& ctx) {
  std::vector<h3::PresentedItem> items;
  TextInput input;
  for (const Condition& c : conditions) {
    items.push_back(c.item);
    if (c.vision) input.vision.push_back(*c.vision);
  }
  presentation = h3::present(engine.tokenizer(), request.prompt, items);
  if (presentation.token_ids.empty()) fail(ErrorKind::request, "the prompt is empty; describe the clip in a few words");
  input.token_ids = presentation.token_ids;
  input.mm_token_type_ids = presentation.mm_token_type_ids;
  tap("token_ids", i32_view(presentation.token_ids));
  tap("text_token_tags", i32_view(presentation.text_token_tags));
  tap("mm_token_type_ids", i32_view(presentation.mm_token_type_ids));
  const int64_t layer = request.config.text_encoder_layer;
  auto encode = [&] { return engine.text_encoder(layer).encode(ctx, input, static_cast<int>(layer)); };
  Tensor embeds = shared(CacheKind::prompt, [&] { return key_of(input, layer); }, encode);
  tap("prompt_embeds", embeds.view());
  finite(embeds.mat(), "text");
  return embeds;
}

// Posterior sample under its own generator, rounded to float16, normalised: the recipe that the released model was trained with.
Tensor Run::pixels_to_latents(const Ctx& ctx, const Condition& c, size_t index) {
  VideoCodec& codec = engine.video_codec(true);
  Tensor moments = codec.encode(ctx, c.pixels);
  const int64_t channels = codec.latent_channels(), per = moments.count() / (2 * channels);
  const h3::LatentShape shape{moments.dim(1), moments.dim(2), moments.dim(3)};
  std::vector<float> noise(static_cast<size_t>(channels * per));
  const std::string name = fmt::format("condition_posterior_noise.{}", index);
  if (request.noise.count(name)) {
    draw(name, {1, channels, shape.frames, shape.height, shape.width}, noise);
  } else {
    TorchGenerator own(static_cast<uint64_t>(request.config.keyframe_encode_seed));
    own.randn(noise);
  }
  Tensor latents({channels, shape.frames, shape.height, shape.width});
  for (int64_t ch = 0; ch < channels; ++ch)
    for (int64_t i = 0; i < per; ++i) {
      const float mean = moments.data()[ch * per + i], log_variance = std::clamp(moments.data()[(channels + ch) * per + i], -30.0f, 20.0f);
      const float sample = mean + std::exp(0.5f * log_variance) * noise[static_cast<size_t>(ch * per + i)];
      latents.data()[ch * per + i] =
          (to_float(to_f16(sample)) - codec.latents_mean()[static_cast<size_t>(ch)]) / codec.latents_std()[static_cast<size_t>(ch)];
    }
  if (tracing()) {
    tap(fmt::format("condition_moments.{}", index), {moments.data(), DType::f32, {1, 2 * channels, shape.frames, shape.height, shape.width}});
    tap(fmt::format("condition_latents.{}", index), {latents.data(), DType::f32, {1, channels, shape.frames, shape.height, shape.width}});
    std::vector<uint8_t> planes;   // [1, 3, T, H, W], of a video the first and last frame
    std::vector<const Picture*> kept{&c.pixels.front()};
    if (c.pixels.size() > 1) kept.push_back(&c.pixels.back());
    for (size_t ch = 0; ch < 3; ++ch)
      for (const Picture* p : kept)
        for (size_t i = ch; i < p->rgb.size(); i += 3) planes.push_back(p->rgb[i]);
    tap(fmt::format("condition_pixels_u8.{}", index),
        {planes.data(), DType::u8, {1, 3, static_cast<int64_t>(kept.size()), kept[0]->height, kept[0]->width}});
  }
  return latents;
}

void Run::encode_pixels(const Ctx& ctx, const Condition& c, size_t index) {
  auto encode = [&] { return pixels_to_latents(ctx, c, index); };
  auto key = [&] {
    std::string of = fmt::format("seed {} ", request.config.keyframe_encode_seed);
    for (const Picture& p : c.pixels) of += media_key(p);
    return of;
  };
  Tensor latents = shared(CacheKind::condition, key, encode);
  finite(ConstMat(latents.data(), 1, latents.count(), latents.count()), "condition");
  condition_shapes.push_back({latents.dim(1), latents.dim(2), latents.dim(3)});
  condition_latents.push_back(std::move(latents));
}

Tensor Run::sound_to_rows(const Ctx& ctx, const Sound& s, size_t index) {
  AudioCodec& codec = engine.audio_codec(true);
  Tensor mean = codec.encode(ctx, s);   // [2, channels, La]
  tap(fmt::format("condition_audio_mean.{}", index), mean.view());
  const int64_t channels = mean.dim(1), n = mean.dim(2);
  Tensor rows({2 * n, channels});
  for (int64_t side = 0; side < 2; ++side)
    for (int64_t k = 0; k < n; ++k)
      for (int64_t c = 0; c < channels; ++c)
        rows.mat().row(side * n + k)[c] = (mean.data()[(side * channels + c) * n + k] - codec.latents_mean()[static_cast<size_t>(c)]) /
                                          codec.latents_std()[static_cast<size_t>(c)];
  return rows;
}

void Run::encode_sound(const Ctx& ctx, const Sound& s, size_t index) {
  auto encode = [&] { return sound_to_rows(ctx, s, index); };
  Tensor rows = shared(CacheKind::condition, [&] { return media_key(s); }, encode);
  finite(rows.mat(), "condition");
  condition_sounds.push_back(std::move(rows));
}

void Run::encode_conditions(const Ctx& ctx) {
  int64_t done = 0;
  for (const Condition& c : conditions) {
    if (!c.pixels.empty()) encode_pixels(ctx, c, condition_latents.size());
    if (c.sound) encode_sound(ctx, *c.sound, condition_sounds.size());
    progress(Stage::condition, ++done, static_cast<int64_t>(conditions.size()));
  }
}

void Run::build_layout_and_rows() {
  const h3::ModelIndex& index = engine.index();
  h3::LayoutRequest lr;
  lr.text_token_tags = presentation.text_token_tags;
  lr.target = geometry.latents;
  lr.target.frames += geometry.history_latents;
  lr.target_audio_latents = geometry.history_audio + geometry.audio_latents;
  lr.history_frames = geometry.history_latents, lr.history_audio_latents = geometry.history_audio;
  lr.patch_h = index.patch_h, lr.patch_w = index.patch_w;
  if (request.first_frame) lr.keyframes.push_back(h3::Anchor::first);
  if (request.last_frame) lr.keyframes.push_back(h3::Anchor::last);
  size_t visual = 0, sound = 0;
  if (request.task == Task::ref2va)
    for (const Condition& c : conditions) {
      using Kind = h3::ReferenceBlock::Kind;
      h3::ReferenceBlock b{c.pixels.empty() ? Kind::audio : c.item.kind == h3::PresentedItem::Kind::video ? Kind::video : Kind::image, {}, 0};
      if (!c.pixels.empty()) b.latents = condition_shapes[visual++];
      if (c.sound) b.audio_latents = condition_sounds[sound++].dim(0) / 2;
      lr.references.push_back(b);
    }
  layout = h3::build_layout(lr);

  Denoiser& denoiser = engine.denoiser(request);
  const int64_t channels = index.latent_channels, width = denoiser.video_row_width();
  if (width != channels * index.patch_h * index.patch_w)
    fail(ErrorKind::model, "{}: the transformer takes rows of {} values, the video codec gives {}; they do not belong together", index.folder, width,
         channels * index.patch_h * index.patch_w);
  video_rows = Tensor({static_cast<int64_t>(layout.video_indices.size()), width});
  audio_rows = Tensor({static_cast<int64_t>(layout.audio_indices.size()), denoiser.audio_row_width()});
  int64_t at = 0;
  for (size_t i = 0; i < condition_latents.size(); ++i) {   // one draw a condition, before the targets' noise
    Tensor& x = condition_latents[i];
    const h3::LatentShape s = condition_shapes[i];
    Tensor noise(x.shape());
    draw(fmt::format("condition_noise.{}", i), {1, channels, s.frames, s.height, s.width}, {noise.data(), static_cast<size_t>(noise.count())});
    scale_noise(request.config.keyframe_noise_aug, noise.mat(), x.mat());
    const int64_t n = s.frames * (s.height / index.patch_h) * (s.width / index.patch_w);
    h3::patchify(x.data(), channels, s, index.patch_h, index.patch_w, video_rows.mat().rows_from(at, n));
    at += n;
  }
  const h3::LatentShape s = geometry.latents;
  Tensor noise({1, channels, s.frames, s.height, s.width});
  draw("noise_video", noise.shape(), {noise.data(), static_cast<size_t>(noise.count())});
  h3::patchify(noise.data(), channels, s, index.patch_h, index.patch_w, video_rows.mat().rows_from(at, video_rows.dim(0) - at));
  at = 0;
  for (const Tensor& rows : condition_sounds) {
    std::memcpy(audio_rows.mat().row(at), rows.data(), static_cast<size_t>(rows.count()) * sizeof(float));
    at += rows.dim(0);
  }
  const int64_t target = audio_rows.dim(0) - at;
  draw("noise_audio_rows", {target, audio_rows.dim(1)}, {audio_rows.mat().row(at), static_cast<size_t>(target * audio_rows.dim(1))});
  if (tracing()) trace_layout();
}

void Run::trace_layout() const {
  const std::vector<int32_t> g{static_cast<int32_t>(geometry.height),        static_cast<int32_t>(geometry.width),
                               static_cast<int32_t>(geometry.num_frames),    static_cast<int32_t>(geometry.latents.frames),
                               static_cast<int32_t>(geometry.latents.height), static_cast<int32_t>(geometry.latents.width),
                               static_cast<int32_t>(geometry.audio_latents), static_cast<int32_t>(layout.condition_video_rows),
                               static_cast<int32_t>(layout.condition_audio_rows)};
  tap("geometry", i32_view(g));
  tap("position_ids", {layout.position_ids.data(), DType::f64, {layout.rows(), 3}});
  tap("token_tags", i32_view(layout.token_tags));
  tap("video_indices", i32_view(layout.video_indices));
  tap("audio_indices", i32_view(layout.audio_indices));
  tap("text_indices", i32_view(layout.text_indices));
  if (layout.condition_video_rows) tap("condition_rows", {video_rows.data(), DType::f32, {layout.condition_video_rows, video_rows.dim(1)}});
  if (layout.condition_audio_rows) tap("condition_audio_rows", {audio_rows.data(), DType::f32, {layout.condition_audio_rows, audio_rows.dim(1)}});
}

// The number of evaluations that a saved state spares.
int64_t Run::restore(int64_t evaluations) {
  if (!hooks.resume || engine.plan().reuse.on()) return 0;   // reuse decides by velocities that a state does not hold: such a run begins anew, for the same bytes
  const DenoiseState& s = *hooks.resume;
  if (s.evaluations < 0 || s.evaluations > evaluations || s.video_rows.shape != video_rows.shape() || s.audio_rows.shape != audio_rows.shape() ||
      s.video_rows.dtype != DType::f32 || s.audio_rows.dtype != DType::f32)
    fail(ErrorKind::internal, "the saved state ({} evaluations, rows {} and {}) is of another request, which wants {} evaluations, rows {} and {}", s.evaluations,
         to_string(s.video_rows.shape), to_string(s.audio_rows.shape), evaluations, to_string(video_rows.shape()), to_string(audio_rows.shape()));
  std::memcpy(video_rows.data(), s.video_rows.data, static_cast<size_t>(video_rows.count()) * sizeof(float));
  std::memcpy(audio_rows.data(), s.audio_rows.data, static_cast<size_t>(audio_rows.count()) * sizeof(float));
  return s.evaluations;
}

// Shows the clip's fifth frame as the estimate x0 = x + sigma v has it: two latent frames are what the codec decodes alone.
void Run::preview(const Ctx& ctx, float sigma, const Tensor& velocity) {
  const auto start = Clock::now();
  if (!hooks.preview || start - previewed < 20 * preview_time) return;
  const h3::ModelIndex& index = engine.index();
  h3::LatentShape s = geometry.latents;
  s.frames = std::min<int64_t>(s.frames, 2);
  const int64_t rows = s.frames * (s.height / index.patch_h) * (s.width / index.patch_w), at = layout.condition_video_rows;
  Tensor estimate({rows, video_rows.dim(1)}), latents({index.latent_channels, s.frames, s.height, s.width});
  for (int64_t i = 0; i < estimate.count(); ++i)
    estimate.data()[i] = video_rows.mat().row(at)[i] + sigma * velocity.mat().row(at)[i];
  h3::unpatchify(estimate.mat(), index.latent_channels, s, index.patch_h, index.patch_w, latents.data());
  auto stream = engine.video_codec(false).decode(std::move(latents));
  FrameChunk chunk;
  std::vector<uint8_t> rgb;
  while (stream->next(ctx, chunk)) {
    chunk.data += (chunk.count - 1) * 3 * chunk.height * chunk.width, chunk.count = 1;   // the last one
    to_rgb(ctx.exec, chunk, rgb);
  }
  hooks.preview(rgb.data(), geometry.width, geometry.height);
  previewed = Clock::now(), preview_time = previewed - start;
}

h3::RowTimesteps Run::levels(const FlowSchedule& video, const FlowSchedule& audio, int64_t evaluation) const {
  const size_t i = static_cast<size_t>(evaluation);
  return h3::row_timesteps(layout, video.timesteps[i], audio.timesteps[i], request.config.keyframe_noise_aug);
}

void Run::denoise(const Ctx& ctx, ConstMat prompt_embeds) {
  const h3::ModelIndex& index = engine.index();
  Denoiser& denoiser = engine.denoiser(request);
  const FlowSchedule video = flow_schedule(request.grid_points, request.schedule.video_shift.value_or(index.video_shift));
  const FlowSchedule audio = flow_schedule(request.grid_points, request.schedule.audio_shift.value_or(index.audio_shift));
  tap("video_sigmas", f32_view(video.sigmas));
  tap("audio_sigmas", f32_view(audio.sigmas));
  tap("video_timesteps", f32_view(video.timesteps));
  tap("audio_timesteps", f32_view(audio.timesteps));
  const int64_t evaluations = std::min(video.evaluations(), audio.evaluations());
  if (engine.plan().adaln_tables && !tracing()) {
    std::vector<float> all;
    for (int64_t i = 0; i < evaluations; ++i)
      for (float t : levels(video, audio, i).timestep) all.push_back(t);
    const int64_t made = timer.time(Stage::denoise, [&] { return denoiser.prepare_timesteps(ctx, all); });
    std::sort(all.begin(), all.end());
    const int64_t levels = std::unique(all.begin(), all.end()) - all.begin();
    engine.caches().count(CacheKind::adaln, levels - made, made, denoiser.timestep_bytes());
    result.stages.back().runs = 0;
  }
  StepReuse reuse(engine.plan().reuse);
  auto prepared = denoiser.prepare(ctx, layout, prompt_embeds);
  Tensor video_velocity(video_rows.shape()), audio_velocity(audio_rows.shape());
  TraceRecorder stacked;
  auto targets = [](const Tensor& t, int64_t conditions) { return t.mat().rows_from(conditions, t.dim(0) - conditions); };
  for (int64_t i = restore(evaluations); i < evaluations; ++i) {
    const auto start = Clock::now();
    const h3::RowTimesteps rt = levels(video, audio, i);
    Ctx step_ctx{ctx.exec, {}};
    if (tracing()) {
      tap(fmt::format("step{}.timestep", i), f32_view(rt.timestep));
      if (i == 0) tap("step0.timestep_indices", i32_view(rt.timestep_indices));
      if (i + 1 == evaluations) tap("video_rows_last", video_rows.view()), tap("audio_rows_last", audio_rows.view());
      step_ctx.tap = [&](std::string_view name, const View& v) {
        if (name == "dit.temb") tap(fmt::format("dit.temb_step{}", i), v);
        else if (i == 0) tap(name == "dit.hidden" || name == "dit.time_features" ? fmt::format("{}_step0", name) : std::string(name), v);
      };
    }
    if (!reuse.leave_out(i, evaluations)) {
      denoiser.step(step_ctx, *prepared, rt.timestep, rt.timestep_indices, video_rows.mat(), audio_rows.mat(), video_velocity.mat(), audio_velocity.mat());
      finite(video_velocity.mat(), "denoise (video)");
      finite(audio_velocity.mat(), "denoise (audio)");
      reuse.computed(targets(video_velocity, layout.condition_video_rows), targets(audio_velocity, layout.condition_audio_rows));
    }
    if (tracing()) stacked.append("video_velocity", video_velocity.view()), stacked.append("audio_velocity", audio_velocity.view());
    const auto stepped = Clock::now();
    if (i + 1 < evaluations) preview(Ctx{ctx.exec, {}}, video.sigmas[static_cast<size_t>(i)], video_velocity);
    const auto pause = Clock::now() - stepped;   // of the denoiser, for the preview
    flow_step(video, i, targets(video_velocity, layout.condition_video_rows), targets(video_rows, layout.condition_video_rows));
    flow_step(audio, i, targets(audio_velocity, layout.condition_audio_rows), targets(audio_rows, layout.condition_audio_rows));
    timer.span(Stage::denoise, start + pause, Clock::now());   // as if the preview had come first
    progress(Stage::denoise, i + 1, evaluations);
    if (hooks.step_done) hooks.step_done({i + 1, video_rows.view(), audio_rows.view()});
  }
  for (auto& [name, k] : stacked.tensors()) tap(name, {k.bytes.data(), k.dtype, k.shape});
  result.evaluations = evaluations;
  result.evaluations_left_out = reuse.left_out();
}

Latents Run::latents(const Ctx& ctx) {
  prepare();   // impossible requests are refused before any weights are read
  load();
  ctx.exec.check_cancel();
  Tensor embeds = timer.time(Stage::text, [&] { return encode_text(ctx); });
  progress(Stage::text, 1, 1);
  if (!conditions.empty()) timer.time(Stage::condition, [&] { encode_conditions(ctx); });
  build_layout_and_rows();
  denoise(ctx, embeds.mat());
  return made();
}

Result Engine::generate(const Request& request, const Sink& sink, const Hooks& hooks) {
  if (request.long_video) return generate_long(*this, request, sink, hooks);
  Exec exec = this->exec(hooks.cancel);
  Ctx ctx{exec, hooks.tap};
  Run run{*this, request, sink, hooks};
  Latents made = run.latents(ctx);
  if (hooks.latents) hooks.latents(made);
  run.decode(ctx, std::move(made));
  run.result.peak_activation_bytes = arena_.peak_bytes();
  run.result.warnings = request.warnings;
  if (const std::string text = memory_text(memory_use()); !text.empty()) run.result.warnings.push_back(text);
  for (const std::string& w : unused_adapters(request.task)) run.result.warnings.push_back("not used: " + w);
  return std::move(run.result);
}

}  // namespace zt

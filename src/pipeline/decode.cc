// The run of one request from its latents on: decoders, sink.
#include "pipeline/run.h"

namespace zt {

bool to_rgb(const Exec& exec, const FrameChunk& chunk, std::vector<uint8_t>& rgb) {
  const int64_t plane = static_cast<int64_t>(chunk.height) * chunk.width;
  rgb.resize(static_cast<size_t>(chunk.count * 3 * plane));
  return planes_to_rgb(exec, chunk.data, chunk.count, plane, chunk.scale, chunk.shift, rgb.data());
}

// Chunks are copied for the encoder, which may still hold them when the decoder makes the next.
void Run::decode_sound(const Ctx& ctx, SoundStream& stream, TraceRecorder* recorder, Behind& encoder) {
  SoundChunk chunk;
  while (timer.time(Stage::audio_decode, [&] { return stream.next(ctx, chunk); })) {
    std::vector<std::vector<float>> copy;
    for (const float* c : chunk.channels) {
      finite({c, 1, chunk.count, chunk.count}, "audio decode");
      copy.emplace_back(c, c + chunk.count);
    }
    if (recorder) recorder->sound(chunk, result.clip);
    encoder.push([this, n = chunk.count, copy = std::move(copy)] {
      std::vector<const float*> channels;
      for (const auto& c : copy) channels.push_back(c.data());
      encode([&] { sink.sound(channels, n); });
    });
    progress(Stage::audio_decode, chunk.first_sample + chunk.count, result.clip.num_samples);
  }
}

void Run::decode_video(const Ctx& ctx, FrameStream& stream, TraceRecorder* recorder, Behind& encoder) {
  FrameChunk chunk;
  while (timer.time(Stage::video_decode, [&] { return stream.next(ctx, chunk); })) {
    std::vector<uint8_t> rgb;
    finite(timer.time(Stage::video_decode, [&] { return to_rgb(ctx.exec, chunk, rgb); }), "video decode");
    if (recorder) recorder->frames(chunk, result.clip, request.task);
    encoder.push([this, n = chunk.count, rgb = std::move(rgb)] { encode([&] { sink.frames(rgb.data(), n); }); });
    progress(Stage::video_decode, chunk.first_frame + chunk.count, result.clip.num_frames);
  }
}

Tensor sound_of_rows(ConstMat rows) {
  const int64_t n = rows.rows / 2, channels = rows.cols;
  Tensor out({2, channels, n});
  for (int64_t row = 0; row < 2 * n; ++row)
    for (int64_t c = 0; c < channels; ++c) out.data()[(row / n * channels + c) * n + row % n] = rows.row(row)[c];
  return out;
}

Latents Run::made() const {
  const h3::ModelIndex& index = engine.index();
  const h3::LatentShape s = geometry.latents;
  Latents out{Tensor({index.latent_channels, s.frames, s.height, s.width}), {}};
  const int64_t cv = layout.condition_video_rows, ca = layout.condition_audio_rows;
  h3::unpatchify(video_rows.mat().rows_from(cv, video_rows.dim(0) - cv), index.latent_channels, s, index.patch_h, index.patch_w, out.video.data());
  out.sound = sound_of_rows(audio_rows.mat().rows_from(ca, audio_rows.dim(0) - ca));
  return out;
}

void Run::decode(const Ctx& ctx, Latents latents) {
  const Tensor &video = latents.video, &sound = latents.sound;
  tap("latents", {video.data(), DType::f32, {1, video.dim(0), video.dim(1), video.dim(2), video.dim(3)}});
  tap("audio_latents", sound.view());

  AudioCodec& audio = engine.audio_codec(false);
  result.clip = {geometry.width, geometry.height, geometry.num_frames, h3::kFps, audio.sample_rate(), 2, sound.dim(2) * audio.hop()};
  timer.time(Stage::encode, [&] { sink.begin(result.clip); });
  TraceRecorder recorder;
  auto sounds = timer.time(Stage::audio_decode, [&] { return audio.decode(std::move(latents.sound)); });
  auto frames = timer.time(Stage::video_decode, [&] { return engine.video_codec(false).decode(std::move(latents.video)); });
  decode(ctx, *sounds, *frames, tracing() ? &recorder : nullptr);
  if (tracing()) {
    recorder.finish(request.task);
    for (auto& [name, k] : recorder.tensors()) tap(name, {k.bytes.data(), k.dtype, k.shape});
  }
}

void Run::decode(const Ctx& ctx, SoundStream& sound, FrameStream& frames, TraceRecorder* recorder) {
  Behind encoder(engine.plan().overlap && engine.threads() > 1);
  decode_sound(ctx, sound, recorder, encoder);
  decode_video(ctx, frames, recorder, encoder);
  encoder.finish();
  timer.add(Stage::encode, encoding.seconds, encoding.runs);
}

}  // namespace zt

#include "optimizer/quality.h"

#include <chrono>
#include <cmath>
#include <ctime>

namespace zt {

namespace {

template <class T>
std::pair<double, double> squares(const std::vector<T>& a, const std::vector<T>& b) {
  if (a.size() != b.size()) fail(ErrorKind::internal, "clips of {} and {} values are compared; they are of different requests", a.size(), b.size());
  double difference = 0, norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double x = static_cast<double>(a[i]), d = x - static_cast<double>(b[i]);
    difference += d * d, norm += x * x;
  }
  return {difference, norm};
}

void keep(const View& v, std::vector<float>& out) {
  out.resize(static_cast<size_t>(v.count()));
  to_float32(v, out.data());
}

}  // namespace

template <class T>
double relative_l2(const std::vector<T>& a, const std::vector<T>& b) {
  const auto [difference, norm] = squares(a, b);
  return difference == 0 ? 0 : norm == 0 ? 1 : std::sqrt(difference / norm);
}
template double relative_l2(const std::vector<float>&, const std::vector<float>&);
template double relative_l2(const std::vector<uint8_t>&, const std::vector<uint8_t>&);

ClipOutput make_output(Engine& engine, const Request& request, bool latents) {
  ClipOutput out;
  std::vector<std::vector<float>> channels;
  Sink sink;
  sink.begin = [&](const ClipInfo& c) { out.info = c, channels.resize(static_cast<size_t>(c.channels)); };
  sink.frames = [&](const uint8_t* rgb, int64_t n) { out.frames.insert(out.frames.end(), rgb, rgb + n * out.info.height * out.info.width * 3); };
  sink.sound = [&](const std::vector<const float*>& c, int64_t n) {
    for (size_t i = 0; i < channels.size(); ++i) channels[i].insert(channels[i].end(), c[i], c[i] + n);
  };
  Hooks hooks;
  if (latents)
    hooks.tap = [&](std::string_view name, const View& v) {
      if (name == "latents") keep(v, out.latents);
      if (name == "audio_latents") keep(v, out.audio_latents);
    };
  const auto start = std::chrono::steady_clock::now();
  const std::clock_t cpu = std::clock();
  out.result = engine.generate(request, sink, hooks);
  out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  out.cpu_seconds = static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC;
  for (const StageTime& s : out.result.stages)
    if (s.stage == Stage::load) out.seconds -= s.seconds;
  for (const auto& c : channels) out.sound.insert(out.sound.end(), c.begin(), c.end());
  return out;
}

Distance distance(const ClipOutput& a, const ClipOutput& b) {
  Distance d;
  d.latents = relative_l2(a.latents, b.latents), d.audio_latents = relative_l2(a.audio_latents, b.audio_latents);
  d.frames = relative_l2(a.frames, b.frames), d.sound = relative_l2(a.sound, b.sound);
  const double mean = a.frames.empty() ? 0 : squares(a.frames, b.frames).first / static_cast<double>(a.frames.size());
  d.psnr = mean == 0 ? 99 : std::min(99.0, 10 * std::log10(255.0 * 255.0 / mean));
  return d;
}

double largest(const Distance& d) { return std::max({d.latents, d.audio_latents, d.frames, d.sound}); }

double total(const Distance& d) { return d.latents + d.audio_latents + d.frames + d.sound; }

bool worse(const Distance& d, const Distance& than) {
  constexpr double kMore = 1.02;
  return d.latents > kMore * than.latents || d.audio_latents > kMore * than.audio_latents || d.frames > kMore * than.frames || d.sound > kMore * than.sound;
}

}  // namespace zt

// zoetrope decode-medium: the process that media_apart starts. The medium is its standard input, the answer (medium_answer.h) its output.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <new>

#include "base/error.h"
#include "media/decode.h"
#include "serve/commands.h"
#include "serve/confine.h"
#include "serve/medium_answer.h"

namespace zt {

namespace {

struct Arguments {
  std::string wanted;
  double seconds = 16, work = 300;
  int64_t side = 16384, pixels = 200'000'000, memory = int64_t{4} << 30;
  int threads = 1;
};

// Nobody reads any longer: SIGPIPE ends the process, and where it is ignored this does.
void write_all(const void* data, size_t bytes) {
  const auto* at = static_cast<const uint8_t*>(data);
  while (bytes > 0) {
    const ssize_t n = write(STDOUT_FILENO, at, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) _exit(1);
    at += n, bytes -= static_cast<size_t>(n);
  }
}

template <class Head>
void write_part(MediumPart part, const Head& head, const void* data, size_t bytes) {
  const PartHeader header{part, 0, sizeof head + bytes};
  write_all(&header, sizeof header);
  write_all(&head, sizeof head);
  write_all(data, bytes);
}

void write_refusal(std::string text) {
  text.resize(std::min<size_t>(text.size(), kMaxRefusal));
  const PartHeader header{MediumPart::refusal, 0, text.size()};
  write_all(&header, sizeof header);
  write_all(text.data(), text.size());
}

void write_picture(MediumPart part, const Picture& p) { write_part(part, MediumSize{p.width, p.height}, p.rgb.data(), p.rgb.size()); }

void write_sound(const Sound& s) {
  const MediumSound head{s.sample_rate, static_cast<int32_t>(s.channels.size()), s.samples()};
  std::vector<float> samples;
  for (const auto& channel : s.channels) samples.insert(samples.end(), channel.begin(), channel.end());
  write_part(MediumPart::sound, head, samples.data(), samples.size() * sizeof(float));
}

void write_facts(const MediaInfo& i) {
  const MediumFacts facts{static_cast<int32_t>(i.kind), i.width, i.height, i.has_sound, i.sample_rate, i.channels, i.fps, i.seconds, i.frames};
  write_part(MediumPart::facts, facts, i.format.data(), std::min<size_t>(i.format.size(), kMaxFormat));
}

// Frames go out as they come; what the clip keeps of each is its number.
void write_clip(const MediaSource& medium, MediaLimits limits) {
  uint32_t sent = 0;
  limits.max_bytes = INT64_MAX;   // the reader counts
  limits.fit = [&](Picture p) {
    write_picture(MediumPart::frame, p);
    const auto* number = reinterpret_cast<const uint8_t*>(&sent);
    p.rgb.assign(number, number + sizeof sent);
    p.rgb.shrink_to_fit();
    ++sent;
    return p;
  };
  const Clip clip = load_clip(medium, limits);
  std::vector<uint32_t> order(clip.frames.size());
  for (size_t i = 0; i < order.size(); ++i) std::memcpy(&order[i], clip.frames[i].rgb.data(), sizeof(uint32_t));
  write_part(MediumPart::clip, MediumClip{clip.fps, static_cast<uint32_t>(order.size()), clip.sound.has_value()}, order.data(), order.size() * sizeof(uint32_t));
  if (clip.sound) write_sound(*clip.sound);
}

void answer(const Arguments& a) {
  MediaLimits limits;
  limits.max_seconds = a.seconds, limits.max_side = a.side, limits.max_pixels = a.pixels, limits.max_work = a.work, limits.threads = a.threads;
  const MediaSource medium(STDIN_FILENO, kMediumName);
  if (a.wanted == "picture") return write_picture(MediumPart::picture, load_picture(medium, limits));
  const MediaInfo info = probe(medium, limits);
  if (a.wanted == "probe") return write_facts(info);
  switch (info.kind) {
    case MediaKind::image: return write_picture(MediumPart::picture, load_picture(medium, limits));
    case MediaKind::video: return write_clip(medium, limits);
    case MediaKind::sound: return write_sound(load_sound(medium, limits));
  }
}

// Whatever stops the decoder is told as a refusal: what it lacks, its limits keep from the medium.
int run(const Arguments& a) {
  try {
    confine({a.memory, static_cast<int64_t>(std::ceil(a.work * a.threads)) + 2});
    answer(a);
  } catch (const std::bad_alloc&) {
    write_refusal(fmt::format("{}: found a medium that takes over {} MiB to decode, wanted less; make it smaller or shorter", kMediumName, a.memory >> 20));
  } catch (const std::exception& e) {
    write_refusal(e.what());
  }
  _exit(0);   // nothing is left to tidy; a leak checker would want what is given up
}

}  // namespace

Command decode_medium_command(CLI::App& root) {
  auto a = std::make_shared<Arguments>();
  CLI::App* app = root.add_subcommand("decode-medium", "Decode standard input for a server or worker; not for people")->group("");
  app->add_option("wanted", a->wanted)->required()->check(CLI::IsMember({"probe", "picture", "reference"}));
  app->add_option("--seconds", a->seconds);
  app->add_option("--side", a->side);
  app->add_option("--pixels", a->pixels);
  app->add_option("--work", a->work);
  app->add_option("--threads", a->threads)->check(CLI::Range(1, 64));
  app->add_option("--memory", a->memory);
  return {app, [a] { return run(*a); }};
}

}  // namespace zt

#include "serve/media_apart.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstring>
#include <thread>

#include <spdlog/spdlog.h>

#include "base/threads.h"
#include "serve/medium_answer.h"
#include "text/unicode.h"

namespace zt {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kMaxSampleRate = 768000, kMaxChannels = 64;   // as media/decode.cc takes them
constexpr double kMaxFps = 1000;

class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { reset(); }
  void reset(int fd = -1) {
    if (fd_ >= 0) close(fd_);
    fd_ = fd;
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

[[noreturn]] void cannot_start(const MediaSource& source, int code) {
  fail(ErrorKind::resource, "{}: the process that decodes media cannot be started ({}); try again later", source.name(), std::strerror(code));
}

// Above 2, so that none is overwritten while 0 to 2 are set.
void take_high(const MediaSource& source, int fd, Descriptor& out) {
  out.reset(fcntl(fd, F_DUPFD_CLOEXEC, 3));
  if (out.get() < 0) cannot_start(source, errno);
}

// The medium as a file: its own, or one in memory.
void open_input(const MediaSource& source, Descriptor& out) {
  if (source.descriptor() >= 0) return take_high(source, source.descriptor(), out);
  const Descriptor file(memfd_create("medium", MFD_CLOEXEC));
  if (file.get() < 0) cannot_start(source, errno);
  std::vector<uint8_t> block(static_cast<size_t>(std::min<int64_t>(source.size(), 1 << 20)));
  for (int64_t at = 0; at < source.size();) {
    const size_t n = source.read(at, block);
    for (size_t done = 0; done < n;) {
      const ssize_t wrote = write(file.get(), block.data() + done, n - done);
      if (wrote < 0 && errno != EINTR) cannot_start(source, errno);
      if (wrote > 0) done += static_cast<size_t>(wrote);
    }
    at += static_cast<int64_t>(n);
  }
  lseek(file.get(), 0, SEEK_SET);
  take_high(source, file.get(), out);
}

struct SpawnActions {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  SpawnActions() { posix_spawn_file_actions_init(&files), posix_spawnattr_init(&attributes); }
  ~SpawnActions() { posix_spawn_file_actions_destroy(&files), posix_spawnattr_destroy(&attributes); }
  SpawnActions(const SpawnActions&) = delete;
  SpawnActions& operator=(const SpawnActions&) = delete;
};

const char* wanted_name(int wanted) {
  constexpr const char* kNames[] = {"probe", "picture", "reference"};
  return kNames[wanted];
}

enum Wanted { kProbe, kPicture, kReference };

// The running process and its answer. It ends with this object.
class Decoder {
 public:
  Decoder(const MediaSource& source, const MediaLimits& limits, const DecoderProcess& process, Wanted wanted)
      : source_(source), limits_(limits), seconds_(limits.max_work + process.grace_seconds), cancel_(process.cancel) {
    deadline_ = Clock::now() + std::chrono::milliseconds(static_cast<int64_t>(seconds_ * 1000));
    Descriptor input, output;
    open_input(source, input);
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) cannot_start(source, errno);
    pipe_.reset(ends[0]);
    const Descriptor low(ends[1]);
    take_high(source, low.get(), output);
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    fcntl(ends[0], F_SETPIPE_SZ, 1 << 20);   // fewer turns where it is granted
    const int threads = std::clamp(limits.threads > 0 ? limits.threads : default_thread_count(), 1, 4);
    std::vector<std::string> words = process.command;
    for (std::string w : {std::string(wanted_name(wanted)), fmt::format("--seconds={}", limits.max_seconds), fmt::format("--side={}", limits.max_side),
                          fmt::format("--pixels={}", limits.max_pixels), fmt::format("--work={}", limits.max_work), fmt::format("--threads={}", threads),
                          fmt::format("--memory={}", process.memory_bytes)})
      words.push_back(std::move(w));
    spawn(words, input.get(), output.get());
  }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;
  ~Decoder() { end(); }

  template <class T>
  T read() {
    T value;
    read(&value, sizeof value);
    return value;
  }

  void read(void* out, size_t bytes) {
    auto* at = static_cast<uint8_t*>(out);
    while (bytes > 0) {
      if (cancel_ && cancel_->load()) throw Cancelled();   // the destructor kills it
      const ssize_t n = ::read(pipe_.get(), at, bytes);
      if (n == 0) ended_early();
      if (n > 0) at += n, bytes -= static_cast<size_t>(n);
      else if (errno == EAGAIN) wait();
      else if (errno != EINTR) fail(ErrorKind::resource, "{}: the answer of its decoder cannot be read ({})", source_.name(), std::strerror(errno));
    }
  }

  [[noreturn]] void damaged(const std::string& what) {
    spdlog::warn("{}: its decoder gave a damaged answer: {}", source_.name(), what);
    refuse("broke its decoder (" + what + ")");
  }

 private:
  void spawn(const std::vector<std::string>& words, int input, int output) {
    SpawnActions s;
    posix_spawn_file_actions_adddup2(&s.files, input, 0);
    posix_spawn_file_actions_adddup2(&s.files, output, 1);
    posix_spawn_file_actions_addopen(&s.files, 2, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addclosefrom_np(&s.files, 3);
    sigset_t none, all;
    sigemptyset(&none), sigfillset(&all);
    posix_spawnattr_setsigmask(&s.attributes, &none);
    posix_spawnattr_setsigdefault(&s.attributes, &all);
    posix_spawnattr_setpgroup(&s.attributes, 0);   // Ctrl-C is for the server, which ends this one
    posix_spawnattr_setflags(&s.attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
    std::vector<char*> arguments;
    for (const std::string& w : words) arguments.push_back(const_cast<char*>(w.c_str()));
    arguments.push_back(nullptr);
    char* const environment[] = {nullptr};
    const int code = posix_spawn(&pid_, words[0].c_str(), &s.files, &s.attributes, arguments.data(), environment);
    if (code != 0) pid_ = -1, cannot_start(source_, code);
  }

  void wait() {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline_ - Clock::now()).count();
    if (left <= 0) too_slow();
    pollfd p{pipe_.get(), POLLIN, 0};
    poll(&p, 1, static_cast<int>(std::min<int64_t>(left, cancel_ ? 50 : 60000)));
  }

  // The status that it left; nothing while it runs.
  std::optional<int> status() {
    int status = 0;
    pid_t n = 0;
    do n = waitpid(pid_, &status, WNOHANG);
    while (n < 0 && errno == EINTR);
    if (n == 0) return std::nullopt;
    pid_ = -1;
    return n < 0 ? 0 : status;
  }

  [[noreturn]] void ended_early() {
    std::optional<int> s;
    for (int i = 0; i < 100 && !(s = status()); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));   // the pipe closes just before it ends
    if (s && WIFSIGNALED(*s) && WTERMSIG(*s) == SIGXCPU) too_slow();
    const std::string how = !s ? "it stopped answering" : WIFSIGNALED(*s) ? fmt::format("signal {}", WTERMSIG(*s)) : fmt::format("exit code {}", WEXITSTATUS(*s));
    spdlog::warn("{}: its decoder ended before its answer: {}", source_.name(), how);
    refuse("broke its decoder (" + how + ")");
  }

  [[noreturn]] void too_slow() {
    spdlog::warn("{}: its decoder was ended after {:g} s", source_.name(), seconds_);
    fail(ErrorKind::request, "{}: found a medium that takes over {:g} s to decode, wanted less; make it smaller or shorter", source_.name(), limits_.max_work);
  }

  [[noreturn]] void refuse(const std::string& what) {
    fail(ErrorKind::request, "{}: {}, wanted a whole picture, video or sound; save it again, as PNG, MP4 (H.264 and AAC) or WAV", source_.name(), what);
  }

  void end() {
    if (pid_ < 0) return;
    kill(pid_, SIGKILL);
    while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
  }

  const MediaSource& source_;
  const MediaLimits& limits_;
  const double seconds_;
  const std::atomic<bool>* const cancel_;
  Clock::time_point deadline_;
  Descriptor pipe_;
  pid_t pid_ = -1;
};

// Text of a process that a stranger may have taken over: one line of valid UTF-8.
std::string read_text(Decoder& d, uint64_t bytes) {
  std::string text(static_cast<size_t>(bytes), '\0');
  d.read(text.data(), text.size());
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = ' ';
  return repair_utf8(text);
}

void expect_bytes(Decoder& d, const PartHeader& h, uint64_t least, uint64_t most) {
  if (h.bytes < least || h.bytes > most) d.damaged(fmt::format("part {} of {} bytes", static_cast<uint32_t>(h.part), h.bytes));
}

[[noreturn]] void pass_refusal(Decoder& d, const PartHeader& h, const std::string& name) {
  expect_bytes(d, h, 1, kMaxRefusal);
  std::string text = read_text(d, h.bytes);
  const std::string prefix = kMediumName;
  if (text.starts_with(prefix + ":")) text = name + text.substr(prefix.size());
  throw Error(ErrorKind::request, text);
}

bool size_allowed(int64_t width, int64_t height, const MediaLimits& limits) {
  return width >= 1 && height >= 1 && width <= limits.max_side && height <= limits.max_side && width * height <= limits.max_pixels;
}

MediaInfo read_facts(Decoder& d, const PartHeader& h, const MediaLimits& limits) {
  expect_bytes(d, h, sizeof(MediumFacts), sizeof(MediumFacts) + kMaxFormat);
  const auto f = d.read<MediumFacts>();
  MediaInfo info;
  info.format = read_text(d, h.bytes - sizeof f);
  if (f.kind < 0 || f.kind > static_cast<int>(MediaKind::sound)) d.damaged("no such kind");
  info.kind = static_cast<MediaKind>(f.kind);
  if (info.kind != MediaKind::sound && !size_allowed(f.width, f.height, limits)) d.damaged(fmt::format("{}x{} pixels", f.width, f.height));
  if (info.kind == MediaKind::video && !(f.fps > 0 && f.fps <= kMaxFps)) d.damaged("its rate");
  if (!std::isfinite(f.seconds) || !std::isfinite(f.fps) || f.frames < 0) d.damaged("its length");
  if (f.sample_rate < 0 || f.sample_rate > kMaxSampleRate || f.channels < 0 || f.channels > kMaxChannels) d.damaged("its sound");
  info.width = f.width, info.height = f.height, info.fps = f.fps, info.frames = f.frames, info.seconds = f.seconds;
  info.has_sound = f.has_sound != 0, info.sample_rate = f.sample_rate, info.channels = f.channels;
  return info;
}

Picture read_pixels(Decoder& d, const PartHeader& h, const MediaLimits& limits) {
  expect_bytes(d, h, sizeof(MediumSize), UINT64_MAX);
  const auto size = d.read<MediumSize>();
  if (!size_allowed(size.width, size.height, limits)) d.damaged(fmt::format("{}x{} pixels", size.width, size.height));
  const uint64_t bytes = uint64_t{3} * static_cast<uint64_t>(size.width) * static_cast<uint64_t>(size.height);
  expect_bytes(d, h, sizeof size + bytes, sizeof size + bytes);
  Picture p{size.width, size.height, std::vector<uint8_t>(bytes)};
  d.read(p.rgb.data(), p.rgb.size());
  return p;
}

Sound read_sound(Decoder& d, const PartHeader& h, const MediaLimits& limits) {
  expect_bytes(d, h, sizeof(MediumSound), UINT64_MAX);
  const auto s = d.read<MediumSound>();
  if (s.sample_rate < 1 || s.sample_rate > kMaxSampleRate || s.channels < 1 || s.channels > 2 || s.samples < 1 ||
      static_cast<double>(s.samples) > std::ceil(limits.max_seconds * s.sample_rate) + 1)
    d.damaged(fmt::format("{} samples of {} channels at {} Hz", s.samples, s.channels, s.sample_rate));
  const size_t samples = static_cast<size_t>(s.samples);
  const uint64_t bytes = sizeof s + uint64_t{4} * static_cast<uint64_t>(s.channels) * samples;
  expect_bytes(d, h, bytes, bytes);
  Sound sound{s.sample_rate, std::vector<std::vector<float>>(static_cast<size_t>(s.channels), std::vector<float>(samples))};
  for (auto& channel : sound.channels) d.read(channel.data(), channel.size() * sizeof(float));
  return sound;
}

// Frames as they come, then the clip that is made of them.
class ClipReader {
 public:
  ClipReader(Decoder& d, const MediaSource& source, const MediaLimits& limits) : d_(d), source_(source), limits_(limits) {}

  void add_frame(const PartHeader& h) {
    if (static_cast<double>(frames_.size()) > limits_.max_seconds * kMaxFps) d_.damaged("frames without end");
    Picture p = read_pixels(d_, h, limits_);
    if (limits_.fit) p = limits_.fit(std::move(p));
    count(p);
    frames_.push_back(std::move(p));
  }

  Clip finish(const PartHeader& h) {
    expect_bytes(d_, h, sizeof(MediumClip), UINT64_MAX);
    const auto c = d_.read<MediumClip>();
    const double most = limits_.max_seconds * c.fps + 1;
    if (!(c.fps > 0 && c.fps <= kMaxFps) || frames_.empty() || c.instants < 1 || c.instants > most) d_.damaged(fmt::format("a clip of {} frames", c.instants));
    expect_bytes(d_, h, sizeof c + c.instants * sizeof(uint32_t), sizeof c + c.instants * sizeof(uint32_t));
    std::vector<uint32_t> order(c.instants);
    d_.read(order.data(), order.size() * sizeof(uint32_t));
    Clip clip;
    clip.fps = c.fps;
    size_t next = 0;
    for (const uint32_t frame : order) {
      if (frame == next && next < frames_.size()) {
        clip.frames.push_back(std::move(frames_[next++]));
        if (clip.frames.back().width != clip.frames[0].width || clip.frames.back().height != clip.frames[0].height) d_.damaged("frames of two sizes");
      } else if (next > 0 && frame == next - 1) {   // the one before is held
        count(clip.frames.back());
        clip.frames.push_back(Picture(clip.frames.back()));
      } else {
        d_.damaged("frames out of order");
      }
    }
    if (next != frames_.size()) d_.damaged("frames without a place");
    if (c.has_sound) {
      const auto sound = d_.read<PartHeader>();
      if (sound.part == MediumPart::refusal) pass_refusal(d_, sound, source_.name());
      if (sound.part != MediumPart::sound) d_.damaged("no sound after the frames");
      clip.sound = read_sound(d_, sound, limits_);
    }
    return clip;
  }

 private:
  void count(const Picture& p) {
    bytes_ += static_cast<int64_t>(p.rgb.size());
    if (bytes_ > limits_.max_bytes)
      fail(ErrorKind::request, "{}: found more than {} bytes of {}x{} frames, wanted at most that for {} seconds; make it smaller or shorter", source_.name(),
           limits_.max_bytes, p.width, p.height, limits_.max_seconds);
  }

  Decoder& d_;
  const MediaSource& source_;
  const MediaLimits& limits_;
  std::vector<Picture> frames_;
  int64_t bytes_ = 0;
};

}  // namespace

MediaInfo probe_apart(const MediaSource& source, const MediaLimits& limits, const DecoderProcess& process) {
  Decoder d(source, limits, process, kProbe);
  const auto h = d.read<PartHeader>();
  if (h.part == MediumPart::refusal) pass_refusal(d, h, source.name());
  if (h.part != MediumPart::facts) d.damaged("no facts");
  return read_facts(d, h, limits);
}

Picture load_picture_apart(const MediaSource& source, const MediaLimits& limits, const DecoderProcess& process) {
  Decoder d(source, limits, process, kPicture);
  const auto h = d.read<PartHeader>();
  if (h.part == MediumPart::refusal) pass_refusal(d, h, source.name());
  if (h.part != MediumPart::picture) d.damaged("no picture");
  return read_pixels(d, h, limits);
}

Reference load_reference_apart(const MediaSource& source, const MediaLimits& limits, const DecoderProcess& process) {
  Decoder d(source, limits, process, kReference);
  ClipReader clip(d, source, limits);
  for (;;) {
    const auto h = d.read<PartHeader>();
    switch (h.part) {
      case MediumPart::refusal: pass_refusal(d, h, source.name());
      case MediumPart::picture: return read_pixels(d, h, limits);
      case MediumPart::frame: clip.add_frame(h); break;
      case MediumPart::clip: return clip.finish(h);
      case MediumPart::sound: return read_sound(d, h, limits);
      default: d.damaged("an unknown part");
    }
  }
}

MediaReaders apart_readers(const std::atomic<bool>* cancel) {
  DecoderProcess process;
  process.cancel = cancel;
  return {[process](const std::string& path) { return load_picture_apart(path, {}, process); },
          [process](const std::string& path) { return load_reference_apart(path, {}, process); }, load_latents};
}

}  // namespace zt

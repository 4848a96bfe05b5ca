#include "serve/live/live_hub.h"

#include <algorithm>
#include <cstring>
#include <ctime>
#include <deque>
#include <filesystem>

#include <spdlog/spdlog.h>

#include "formats/safetensors.h"
#include "pipeline/conditions.h"
#include "serve/job.h"
#include "serve/store/job_store.h"
#include "serve/worker_files.h"

namespace fs = std::filesystem;

namespace zt {

namespace {

using namespace std::chrono_literals;
constexpr const char* kPrefix = "live_";
constexpr auto kTick = 20ms;   // playback moves on its own

Tensor tensor_of(const SafetensorsFile& file, const char* name) {
  const View* v = file.find(name);
  if (!v || v->dtype != DType::f32) fail(ErrorKind::request, "{} is missing", name);
  Tensor t(v->shape);
  std::memcpy(t.data(), v->data, static_cast<size_t>(v->bytes()));
  return t;
}

}  // namespace

bool is_live_id(const std::string& text) {
  const std::string prefix = kPrefix;
  return text.size() == prefix.size() + 32 && text.starts_with(prefix) &&
         text.find_first_not_of("0123456789abcdef", prefix.size()) == std::string::npos;
}

// What only the hub's thread touches, beside what all may.
struct LiveHub::Making {
  std::shared_ptr<LiveChannel> shown;
  std::optional<ChannelState> saved;      // to go on from
  std::unique_ptr<Channel> channel;
  std::unique_ptr<LiveWriter> writer;
  std::deque<double> seconds;             // that each waiting segment took
  std::atomic<bool> cancel{false};
};

LiveHub::LiveHub(Engine& engine, EngineTurn& turn, const LiveOptions& options) : engine_(engine), turn_(turn), options_(options) {
  make_folder(options_.data + "/live");
  load();
  thread_ = std::thread([this] { run(); });
}

LiveHub::~LiveHub() {
  stop_ = true;
  {
    const std::lock_guard lock(mutex_);
    for (auto& [id, m] : channels_) m->cancel = true;
  }
  changed_.notify_all();
  thread_.join();
}

Request LiveHub::request(const LiveSettings& s) const {
  Request r;
  r.config = engine_.index().config;
  r.prompt = s.prompt, r.seed = s.seed, r.grid_points = s.evaluations + 1;
  if (s.width) r.width = s.width, r.height = s.height;
  r.num_frames = first_clip_frames(r.config);
  use_own_adapters(s.lora, engine_.index().folder, true, r);
  return r;
}

std::shared_ptr<LiveChannel> LiveHub::open(LiveSettings s) {
  resolve_geometry(request(s), engine_.index().canvas_multiple());
  s.id = kPrefix + new_job_id().substr(new_job_id().size() - 32);
  s.created = std::time(nullptr);
  auto m = std::make_shared<Making>();
  m->shown = std::make_shared<LiveChannel>(s);
  {
    const std::lock_guard lock(mutex_);
    if (channels_.size() >= options_.most)
      fail(ErrorKind::resource, "{} live channels are open, and no more are taken; end one (DELETE /v1/live/ID)", channels_.size());
    save(s);
    channels_[s.id] = m;
  }
  changed_.notify_all();
  return m->shown;
}

std::shared_ptr<LiveChannel> LiveHub::find(const std::string& id) const {
  const std::lock_guard lock(mutex_);
  const auto it = channels_.find(id);
  return it == channels_.end() ? nullptr : it->second->shown;
}

std::vector<std::shared_ptr<LiveChannel>> LiveHub::list() const {
  std::vector<std::shared_ptr<LiveChannel>> out;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, m] : channels_) out.push_back(m->shown);
  }
  std::stable_sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a->settings().created < b->settings().created; });
  return out;
}

void LiveHub::change(LiveChannel& channel, const std::optional<std::string>& prompt, std::optional<bool> paused, std::optional<int64_t> evaluations) {
  channel.change(prompt, paused, evaluations);
  {
    const std::lock_guard lock(mutex_);
    const LiveSettings now = channel.settings();
    if (channels_.count(now.id)) save(now);
  }
  changed_.notify_all();
}

void LiveHub::close(const std::string& id) {
  const std::lock_guard lock(mutex_);
  const auto it = channels_.find(id);
  if (it == channels_.end()) return;
  it->second->shown->stop();
  it->second->cancel = true;
  channels_.erase(it);
  std::error_code ec;
  for (const char* ending : {".json", ".safetensors"}) fs::remove(path(id, ending), ec);
}

void LiveHub::save(const LiveSettings& s) const {
  const std::string text = to_json(s).dump(-1, ' ', false, Json::error_handler_t::replace);
  write_file(path(s.id, ".json"), text.data(), text.size(), true);
}

void LiveHub::save(const std::string& id, const ChannelState& s) const {
  const Json numbers{{"segments", s.segments}, {"frames", s.frames}, {"samples", s.samples}};
  save_safetensors(path(id, ".safetensors"), {{"video", s.video.view()}, {"sound", s.sound.view()}}, {{"state", numbers.dump()}});
}

void LiveHub::load() {
  for (const auto& entry : fs::directory_iterator(options_.data + "/live")) {
    const std::string id = entry.path().stem().string();
    if (entry.path().extension() != ".json" || !is_live_id(id)) continue;
    try {
      load(id);
    } catch (const std::exception& e) {
      spdlog::error("live channel {} cannot be taken up: {}", id, e.what());
    }
  }
}

void LiveHub::load(const std::string& id) {
  auto m = std::make_shared<Making>();
  const LiveSettings settings = live_settings(read_json(path(id, ".json")));
  if (settings.id != id) fail(ErrorKind::request, "its file is of channel {}", settings.id);
  m->shown = std::make_shared<LiveChannel>(settings);
  if (fs::exists(path(id, ".safetensors"))) {
    const SafetensorsFile file(path(id, ".safetensors"));
    const auto numbers = file.metadata().find("state");
    const Json json = numbers == file.metadata().end() ? Json() : parse_json(numbers->second, "the saved state");
    if (!json.is_object()) fail(ErrorKind::request, "its state has no numbers");
    ChannelState s;
    s.segments = json.value("segments", int64_t{0}), s.frames = json.value("frames", int64_t{0}), s.samples = json.value("samples", int64_t{0});
    s.video = tensor_of(file, "video"), s.sound = tensor_of(file, "sound");
    m->shown->start_at((s.segments + 1) * (kSegmentFrames / kLiveGroup));
    m->saved = std::move(s);
  }
  channels_[id] = m;
}

void LiveHub::run() {
  while (!stop_) {
    if (make_one()) continue;
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kTick);
  }
}

// The channel that is closest to running dry; false if none wants more.
bool LiveHub::make_one() {
  std::shared_ptr<Making> next;
  double least = 0;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, m] : channels_) {
      if (m->shown->ended()) continue;
      if (!m->shown->wants_more() && !(m->shown->wants_decoded() && m->channel && m->channel->waiting() > 0)) continue;
      const double lead = m->shown->lead();
      if (!next || lead < least) next = m, least = lead;
    }
  }
  if (!next) return false;
  try {
    make(*next);
  } catch (const Cancelled&) {
  } catch (const std::exception& e) {
    spdlog::error("live channel {}: {}", next->shown->settings().id, e.what());
    next->shown->fail(e.what());
  }
  return true;
}

void LiveHub::make(Making& m) {
  const auto start = LiveChannel::Clock::now();
  const LiveSettings s = m.shown->settings();
  const EngineTurn::Hold hold(turn_);
  if (!m.channel) {
    if (m.saved) m.channel = std::make_unique<Channel>(engine_, request(s), std::move(*m.saved));
    else m.channel = std::make_unique<Channel>(engine_, request(s));
    m.saved.reset();
  }
  LiveChannel& shown = *m.shown;
  Hooks hooks;
  hooks.cancel = &m.cancel;
  auto spent = [&] { return std::chrono::duration<double>(LiveChannel::Clock::now() - start).count(); };
  if (shown.takes_change()) m.channel->forget_waiting(), m.seconds.clear();
  if (m.channel->waiting() == 0 || !shown.wants_decoded()) {
    m.channel->make(s.prompt, shown.evaluations() + 1, hooks);
    m.seconds.push_back(spent());
    shown.waits(m.channel->waiting());
    return;
  }
  Sink sink;
  sink.begin = [&](const ClipInfo& clip) {
    Mp4Options o;
    o.width = static_cast<int>(clip.width), o.height = static_cast<int>(clip.height), o.fps = clip.fps;
    o.sample_rate = clip.sample_rate, o.channels = clip.channels;
    o.preset = "superfast", o.sound_coder = "fast", o.crf = 20;
    m.writer = std::make_unique<LiveWriter>(o, kLiveGroup, [&m](std::string init) { m.shown->set_init(std::move(init), m.writer->timescales()); },
                                            [&m](Fragment f) { m.shown->add(std::move(f)); });
  };
  sink.frames = [&](const uint8_t* rgb, int64_t n) { m.writer->write_frames(rgb, n); };
  sink.sound = [&](const std::vector<const float*>& channels, int64_t n) { m.writer->write_audio(channels.data(), n); };
  shown.waits(m.channel->waiting() - 1);
  const Result result = m.channel->give(sink, hooks);
  shown.made(result, m.seconds.front() + spent(), m.channel->state().segments);
  m.seconds.pop_front();
  const std::lock_guard lock(mutex_);
  if (channels_.count(s.id)) save(s.id, m.channel->state());
}

}  // namespace zt

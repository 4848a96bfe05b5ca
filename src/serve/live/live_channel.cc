#include "serve/live/live_channel.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace zt {

namespace {

constexpr double kRungs[] = {1, 0.75, 0.5, 0.25};   // of the evaluations asked for
constexpr int kLowest = static_cast<int>(std::size(kRungs)) - 1;
constexpr int kEasySegments = 5;

double since(LiveChannel::Clock::time_point then, LiveChannel::Clock::time_point now) { return std::chrono::duration<double>(now - then).count(); }

double rounded(double x) { return std::round(x * 1000) / 1000; }

}  // namespace

Json to_json(const LiveSettings& s) {
  return {{"id", s.id},         {"owner", s.owner},   {"prompt", s.prompt},           {"seed", s.seed},
          {"width", s.width},   {"height", s.height}, {"evaluations", s.evaluations}, {"lead_seconds", s.lead_seconds},
          {"paused", s.paused}, {"created", s.created}, {"lora", s.lora}};
}

LiveSettings live_settings(const Json& j) {
  LiveSettings s;
  try {
    s.id = j.at("id"), s.owner = j.at("owner"), s.prompt = j.at("prompt"), s.seed = j.at("seed");
    s.width = j.at("width"), s.height = j.at("height"), s.evaluations = j.at("evaluations"), s.lead_seconds = j.at("lead_seconds");
    s.paused = j.at("paused"), s.created = j.at("created");
    if (j.contains("lora")) s.lora = j["lora"].get<std::vector<std::string>>();   // channels of before have none
  } catch (const Json::exception& e) {
    zt::fail(ErrorKind::request, "the saved channel is damaged ({}); remove its folder", e.what());
  }
  return s;
}

// Playback goes on while someone watches, as far as there is something to play; a stall is counted and waits for a whole fragment.
void LiveChannel::settle(Clock::time_point now) {
  const bool watched = viewers_ > 0 || (seen_ != Clock::time_point{} && since(seen_, now) < kGraceSeconds);
  if (playing_) {
    const double at = played_ + since(since_, now), end = decoded_seconds();
    played_ = std::min(at, end), since_ = now;
    if (at > end + 0.05) ++stalls_, ++revision_, playing_ = false;
  }
  if (!watched || settings_.paused) {
    playing_ = false;
  } else if (!playing_ && decoded_seconds() - played_ >= kFragmentSeconds) {
    playing_ = true, since_ = now;
  }
  while (!fragments_.empty() && static_cast<double>(first_ + 1) * kFragmentSeconds < played_ - kBehindSeconds) fragments_.pop_front(), ++first_;
}

void LiveChannel::set_init(std::string init, std::array<uint32_t, 2> timescales) {
  const std::lock_guard lock(mutex_);
  init_ = std::move(init), timescales_ = timescales;
}

void LiveChannel::add(Fragment fragment) {
  const std::lock_guard lock(mutex_);
  fragments_.push_back(std::make_shared<const Fragment>(std::move(fragment)));
  ++revision_;
  settle(Clock::now());
}

void LiveChannel::made(const Result& result, double seconds, int64_t segments) {
  const std::lock_guard lock(mutex_);
  segments_ = segments, last_seconds_ = seconds, stages_ = result.stages;
  ++revision_;
  settle(Clock::now());
  adapt(seconds);
}

// Fewer evaluations where the lead melts, more again where there was time to spare for a while.
void LiveChannel::adapt(double seconds) {
  const double ratio = seconds / kSegmentSeconds, ahead = made_seconds() - played_;
  if (playing_ && ratio > 0.9 && ahead < settings_.lead_seconds / 2 && rung_ < kLowest) {
    ++rung_, easy_ = 0;
  } else if (rung_ > 0 && ratio < 0.9 * kRungs[rung_] / kRungs[rung_ - 1] && ahead > 0.8 * settings_.lead_seconds) {
    if (++easy_ >= kEasySegments) --rung_, easy_ = 0;
  } else {
    easy_ = 0;
  }
}

void LiveChannel::waits(int64_t segments) {
  const std::lock_guard lock(mutex_);
  if (waiting_ != segments) waiting_ = segments, ++revision_;
}

bool LiveChannel::takes_change() {
  const std::lock_guard lock(mutex_);
  return std::exchange(changed_, false);
}

bool LiveChannel::wants_decoded() {
  const std::lock_guard lock(mutex_);
  settle(Clock::now());
  return decoded_seconds() - played_ < kReadySeconds;
}

void LiveChannel::fail(const std::string& message) {
  const std::lock_guard lock(mutex_);
  error_ = message, ++revision_;
}

void LiveChannel::start_at(int64_t index) {
  const std::lock_guard lock(mutex_);
  first_ = start_ = index;
  played_ = decoded_seconds();
}

bool LiveChannel::wants_more() {
  const std::lock_guard lock(mutex_);
  settle(Clock::now());
  return !stopped_ && error_.empty() && !settings_.paused && made_seconds() - played_ < settings_.lead_seconds;
}

double LiveChannel::lead() {
  const std::lock_guard lock(mutex_);
  settle(Clock::now());
  return made_seconds() - played_;
}

LiveSettings LiveChannel::settings() const {
  const std::lock_guard lock(mutex_);
  return settings_;
}

int64_t LiveChannel::evaluations() const {
  const std::lock_guard lock(mutex_);
  return std::max<int64_t>(std::min<int64_t>(2, settings_.evaluations), std::llround(static_cast<double>(settings_.evaluations) * kRungs[rung_]));
}

void LiveChannel::change(const std::optional<std::string>& prompt, std::optional<bool> paused, std::optional<int64_t> evaluations) {
  const std::lock_guard lock(mutex_);
  if (prompt && *prompt != settings_.prompt) settings_.prompt = *prompt, changed_ = true;
  if (paused) settings_.paused = *paused;
  if (evaluations) settings_.evaluations = *evaluations, rung_ = 0;
  ++revision_;
  settle(Clock::now());
}

void LiveChannel::stop() {
  const std::lock_guard lock(mutex_);
  stopped_ = true, ++revision_;
}

bool LiveChannel::ended() const {
  const std::lock_guard lock(mutex_);
  return stopped_ || !error_.empty();
}

const char* LiveChannel::status() const {
  if (!error_.empty()) return "failed";
  if (stopped_) return "stopped";
  if (settings_.paused) return "paused";
  if (playing_) return "playing";
  return decoded_seconds() - played_ < kReadySeconds ? "starting" : "waiting";
}

int64_t LiveChannel::revision() const {
  const std::lock_guard lock(mutex_);
  return revision_;
}

Json LiveChannel::resource() const {
  const std::lock_guard lock(mutex_);
  const double at = playing_ ? std::min(played_ + since(since_, Clock::now()), decoded_seconds()) : played_;
  Json stages = Json::object();
  for (const StageTime& s : stages_) stages[stage_name(s.stage)] = rounded(s.seconds);
  const std::string address = "/v1/live/" + settings_.id;
  return {{"id", settings_.id},
          {"object", "live"},
          {"status", status()},
          {"prompt", settings_.prompt},
          {"created_at", settings_.created},
          {"seed", settings_.seed},
          {"lora", settings_.lora},
          {"evaluations", settings_.evaluations},
          {"evaluations_now", std::max<int64_t>(std::min<int64_t>(2, settings_.evaluations), std::llround(static_cast<double>(settings_.evaluations) * kRungs[rung_]))},
          {"rung", rung_},
          {"lead_target_seconds", settings_.lead_seconds},
          {"lead_seconds", rounded(made_seconds() - at)},
          {"ready_seconds", rounded(decoded_seconds() - at)},
          {"made_seconds", rounded(made_seconds())},
          {"played_seconds", rounded(at)},
          {"segments", segments_},
          {"stalls", stalls_},
          {"viewers", viewers_},
          {"segment_seconds", kSegmentSeconds},
          {"work_per_second", rounded(last_seconds_ / kSegmentSeconds)},
          {"stage_durations", stages},
          {"stream_url", address + "/stream"},
          {"hls_url", address + "/index.m3u8"},
          {"error", error_.empty() ? Json() : Json{{"code", "failed"}, {"message", error_}}}};
}

void LiveChannel::join() {
  const std::lock_guard lock(mutex_);
  ++viewers_, ++revision_;
  seen_ = Clock::now();
  settle(seen_);
}

void LiveChannel::leave() {
  const std::lock_guard lock(mutex_);
  --viewers_, ++revision_;
  seen_ = Clock::now();
}

void LiveChannel::touch() {
  const std::lock_guard lock(mutex_);
  seen_ = Clock::now();
  settle(seen_);
}

int64_t LiveChannel::live_edge() {
  const std::lock_guard lock(mutex_);
  settle(Clock::now());
  return std::max(first_, static_cast<int64_t>(played_ / kFragmentSeconds));
}

LiveChannel::Piece LiveChannel::piece(int64_t index) const {
  const std::lock_guard lock(mutex_);
  Piece out{index, nullptr, index < first_};
  if (!out.lost && index < first_ + static_cast<int64_t>(fragments_.size())) out.fragment = fragments_[static_cast<size_t>(index - first_)];
  return out;
}

std::string LiveChannel::init() const {
  const std::lock_guard lock(mutex_);
  return init_;
}

std::array<uint32_t, 2> LiveChannel::timescales() const {
  const std::lock_guard lock(mutex_);
  return timescales_;
}

LiveChannel::Edge LiveChannel::edge() const {
  const std::lock_guard lock(mutex_);
  return {first_, first_ + static_cast<int64_t>(fragments_.size()), stopped_ || !error_.empty()};
}

// RFC 8216bis. The model makes a segment at once, so who stays less than one behind the end waits for the next: hence the hold-back. A channel
// that was taken up again has a clock that begins anew: its discontinuity sequence, which only ever grows, says so.
std::string LiveChannel::playlist() const {
  const std::lock_guard lock(mutex_);
  const bool over = stopped_ || !error_.empty();
  const int64_t end = first_ + static_cast<int64_t>(fragments_.size()), whole = end / kSegmentParts;
  const int64_t kept = (first_ + kSegmentParts - 1) / kSegmentParts;   // a segment whose beginning is gone is none
  const int64_t from = std::max(kept, static_cast<int64_t>((played_ - kListedSeconds) / kSegmentSeconds));
  std::string out = fmt::format("#EXTM3U\n#EXT-X-VERSION:9\n#EXT-X-TARGETDURATION:{}\n#EXT-X-INDEPENDENT-SEGMENTS\n#EXT-X-MEDIA-SEQUENCE:{}\n", kTargetSeconds, from);
  if (start_ > 0) out += fmt::format("#EXT-X-DISCONTINUITY-SEQUENCE:{}\n", start_ / kSegmentParts);
  if (!over)
    out += fmt::format("#EXT-X-SERVER-CONTROL:CAN-BLOCK-RELOAD=YES,PART-HOLD-BACK={:.5f}\n#EXT-X-PART-INF:PART-TARGET={:.5f}\n",
                       kSegmentSeconds + 2 * kFragmentSeconds, kFragmentSeconds);
  if (!init_.empty()) out += "#EXT-X-MAP:URI=\"init.mp4\"\n";
  for (int64_t n = from; n * kSegmentParts < end; ++n) {
    const int64_t parts = std::min(kSegmentParts, end - n * kSegmentParts);
    const bool fresh = static_cast<double>(end - (n + 1) * kSegmentParts) * kFragmentSeconds < 3 * kTargetSeconds;
    for (int64_t part = 0; part < parts && fresh && !over; ++part)
      out += fmt::format("#EXT-X-PART:DURATION={:.5f},URI=\"segment.m4s?n={}&part={}\",INDEPENDENT=YES\n", kFragmentSeconds, n, part);
    if (n < whole || over) out += fmt::format("#EXTINF:{:.5f},\nsegment.m4s?n={}\n", static_cast<double>(parts) * kFragmentSeconds, n);
  }
  if (!over) out += fmt::format("#EXT-X-PRELOAD-HINT:TYPE=PART,URI=\"segment.m4s?n={}&part={}\"\n", whole, end % kSegmentParts);
  else out += "#EXT-X-ENDLIST\n";
  return out;
}

}  // namespace zt

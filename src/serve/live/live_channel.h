#pragma once
// One live channel as its viewers and its operator see it: the fragments that can be played now, the clock of playback, the figures.
// One thread makes it (LiveHub), any number read it.
#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "media/live_writer.h"
#include "pipeline/channel.h"

namespace zt {

constexpr int kLiveGroup = 17;                      // frames of a fragment: a third of a segment
constexpr int64_t kSegmentParts = kSegmentFrames / kLiveGroup;
constexpr double kFragmentSeconds = 17.0 / 24;
constexpr double kSegmentSeconds = static_cast<double>(kSegmentFrames) / 24;

// What a person asked for; kept with the channel's state.
struct LiveSettings {
  std::string id, owner, prompt;
  std::vector<std::string> lora;                    // "name" or "name:strength", of the model's folder
  uint64_t seed = 0;
  int64_t width = 0, height = 0;                    // 0: the model's own
  int64_t evaluations = 8;
  double lead_seconds = 6;                          // made ahead of playback, and held; most of it as latents, which a new prompt throws away
  bool paused = false;
  int64_t created = 0;                              // Unix time
};
Json to_json(const LiveSettings& s);
LiveSettings live_settings(const Json& json);       // errors (request): not what to_json gives

class LiveChannel {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr double kGraceSeconds = 10;       // a viewer's pause that is no leaving
  static constexpr double kReadySeconds = 2;        // what is decoded ahead of playback is at least this; so a new prompt is seen within two segments
  static constexpr double kListedSeconds = 8;       // of the past, in the playlist
  static constexpr double kBehindSeconds = 24;      // what stays of the past: a segment can be had for a playlist's length after it was last listed
  static constexpr int kTargetSeconds = 2;          // HLS: a segment's, rounded

  explicit LiveChannel(LiveSettings settings) : settings_(std::move(settings)) {}

  // --- the maker ---
  void set_init(std::string init, std::array<uint32_t, 2> timescales);
  void add(Fragment fragment);
  void made(const Result& result, double seconds, int64_t segments);   // a segment, given out
  void waits(int64_t segments);                     // made, not decoded
  bool takes_change();                              // was the prompt changed since the last call? then what waits is of the old one
  bool wants_decoded();                             // is what is decoded short of what it should be?
  void fail(const std::string& message);
  void start_at(int64_t index);                     // its first fragment is to have this number (a channel taken up again)
  bool wants_more();                                // is the lead short of what it should be?
  double lead();                                    // seconds made and not played
  LiveSettings settings() const;
  int64_t evaluations() const;                      // of the next segment: the settings', on lower rungs fewer

  // --- people ---
  void change(const std::optional<std::string>& prompt, std::optional<bool> paused, std::optional<int64_t> evaluations);
  void stop();
  bool ended() const;
  Json resource() const;                            // all that is said of it
  int64_t revision() const;                         // grows with every change that resource() shows

  // --- viewers ---
  void join();
  void leave();
  void touch();                                     // an HLS client asked for something
  struct Piece {
    int64_t index = -1;                             // of the fragment
    std::shared_ptr<const Fragment> fragment;       // null: not there yet
    bool lost = false;                              // it is past: the viewer was too slow
  };
  int64_t live_edge();                              // index of the fragment that plays now
  Piece piece(int64_t index) const;
  std::string init() const;                         // "" until there is one
  std::array<uint32_t, 2> timescales() const;
  struct Edge {
    int64_t first = 0, end = 0;                     // of the fragments that can be had
    bool ended = false;                             // no more will come
  };
  Edge edge() const;
  std::string playlist() const;                     // HLS: segment n is fragments 3 n to 3 n + 2, its parts

 private:
  void settle(Clock::time_point now);               // moves the clock of playback; under the lock
  double decoded_seconds() const { return static_cast<double>(first_ + static_cast<int64_t>(fragments_.size())) * kFragmentSeconds; }
  double made_seconds() const { return decoded_seconds() + static_cast<double>(waiting_) * kSegmentSeconds; }
  const char* status() const;
  void adapt(double seconds);

  mutable std::mutex mutex_;
  LiveSettings settings_;
  std::string error_, init_;
  std::array<uint32_t, 2> timescales_{};
  std::deque<std::shared_ptr<const Fragment>> fragments_;
  int64_t first_ = 0;                               // index of fragments_.front()
  int64_t start_ = 0;                               // index of the first since the process began
  int64_t waiting_ = 0;                             // segments of latents
  bool stopped_ = false, changed_ = false;
  int viewers_ = 0;
  Clock::time_point seen_{};                        // when a viewer was last here
  // Playback: at `played_` seconds at `since_`, going on while someone watches.
  double played_ = 0;
  Clock::time_point since_{};
  bool playing_ = false;
  int64_t stalls_ = 0, segments_ = 0, revision_ = 0;
  int rung_ = 0, easy_ = 0;                         // easy_: segments in a row that would have allowed the rung above
  double last_seconds_ = 0;
  std::vector<StageTime> stages_;
};

}  // namespace zt

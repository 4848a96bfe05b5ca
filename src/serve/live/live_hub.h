#pragma once
// All live channels of a server: one thread makes the segment of the channel whose lead is shortest, in turn with the worker's jobs. What a
// channel needs to go on lies in DATA/live: ID.json, what was asked for, and ID.safetensors, what was made, replaced after every segment. So
// it outlives the process.
#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "serve/live/engine_turn.h"
#include "serve/live/live_channel.h"

namespace zt {

struct LiveOptions {
  std::string data;            // data folder
  size_t most = 4;             // channels at once
};

class LiveHub {
 public:
  // Takes up the channels that lie in the data folder. `engine` is used while `turn` is held.
  LiveHub(Engine& engine, EngineTurn& turn, const LiveOptions& options);
  ~LiveHub();
  LiveHub(const LiveHub&) = delete;
  LiveHub& operator=(const LiveHub&) = delete;

  // A new channel under a new id. Errors (request): a size or value that the model cannot make; (resource): there are too many already.
  std::shared_ptr<LiveChannel> open(LiveSettings settings);
  std::shared_ptr<LiveChannel> find(const std::string& id) const;              // null if there is none
  std::vector<std::shared_ptr<LiveChannel>> list() const;                      // oldest first
  void change(LiveChannel& channel, const std::optional<std::string>& prompt, std::optional<bool> paused, std::optional<int64_t> evaluations);
  void close(const std::string& id);                                           // ends it and forgets it
  size_t most() const { return options_.most; }

 private:
  struct Making;
  void run();
  bool make_one();
  void make(Making& m);
  void save(const LiveSettings& s) const;
  void save(const std::string& id, const ChannelState& s) const;
  void load();
  void load(const std::string& id);
  std::string path(const std::string& id, const char* ending) const { return options_.data + "/live/" + id + ending; }
  Request request(const LiveSettings& s) const;

  Engine& engine_;
  EngineTurn& turn_;
  LiveOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::shared_ptr<Making>> channels_;
  std::atomic<bool> stop_{false};
  std::thread thread_;         // last: it uses the others
};

bool is_live_id(const std::string& text);

}  // namespace zt

#pragma once
// What all routes share, and the routes.
#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "models/minimax_h3/model_index.h"
#include "pipeline/caches.h"
#include "pipeline/conditions.h"
#include "pipeline/memory.h"
#include "serve/http/errors.h"
#include "serve/http/keys.h"
#include "serve/http/metrics.h"
#include "serve/http/server.h"
#include "serve/http/watcher.h"
#include "serve/http/webhooks.h"
#include "serve/live/live_hub.h"
#include "serve/store/result_store.h"

namespace zt::http {

struct Route;
struct ServiceOptions {
  std::string data;                          // folder of uploads and results
  std::string results;                       // where finished files are kept, as open_results() takes it
  std::string keys_file;                     // "": no keys, loopback only
  std::vector<std::string> models;           // names that requests may use, the first is the true one
  std::vector<std::string> cors_origins;     // "*": any
  std::string plan = "exact";
  WebhookOptions webhooks;
  bool allow_url = false, access_log = false;
  int64_t max_queued = 10000;                // jobs
  double max_wait_seconds = 0;               // predicted; 0 = no limit
  int64_t memory_bytes = 0;                  // for weights and activations; 0 = no limit
  int64_t retention_seconds = 0;             // of ended jobs; 0 = kept
  size_t body_bytes = size_t{64} << 20;
};

// What a request will cost.
struct Price {
  int64_t rows = 0;                          // of the denoiser's sequence
  int64_t evaluations = 0;
  int64_t bytes = 0;                         // weights and activations, as far as can be told
  double seconds = 0;                        // predicted from the jobs before; 0: none yet
};

class Pricer {
 public:
  // memory: of the transformer and the one for references; limit: bytes that a request may need, 0: any.
  Pricer(const h3::ModelIndex& index, const std::array<MemoryNeeds, 2>& memory, int64_t limit) : index_(index), memory_(memory), limit_(limit) {}
  Price price(const zt::Request& request, const Geometry& geometry) const;
  void learn(const Price& price, double seconds);   // of a job that ended
  double mean_seconds() const;                      // of a job; 0: none ended yet

 private:
  const h3::ModelIndex& index_;
  std::array<MemoryNeeds, 2> memory_;
  int64_t limit_;
  mutable std::mutex mutex_;
  double per_row_evaluation_ = 0, mean_ = 0;
};

class Service {
 public:
  Service(const ServiceOptions& options, JobStore& store, const h3::ModelIndex& index, const std::array<MemoryNeeds, 2>& memory);
  ~Service();

  Handler handler();                         // for a Server; the service must outlive it
  void set_stats(std::function<ServerStats()> stats) { stats_ = std::move(stats); }
  void set_worker_state(std::function<std::string()> problem) { worker_problem_ = std::move(problem); }   // "" = none

  void set_cache_stats(std::function<std::array<CacheStats, 3>()> stats) { cache_stats_ = std::move(stats); }

  void set_live(LiveHub* live) { live_ = live; }   // null: nothing is made in this process

  // The whose-jobs argument of the store for a caller.
  std::optional<std::string> owner(const Request& r) const;

  ServiceOptions options;
  JobStore& store;
  const std::unique_ptr<ResultStore> results;
  const h3::ModelIndex& index;
  Keys keys;
  Metrics metrics;
  Pricer pricer;
  std::atomic<bool> draining{false};
  std::unique_ptr<Watcher> watcher;
  std::unique_ptr<Webhooks> webhooks;        // null where the operator allows no address

  // --- routes ---
  Response create(Request& r);
  Response remix(Request& r, const std::string& id);
  Response extend(Request& r);
  Response retrieve(const Request& r, const std::string& id);
  Response list(const Request& r);
  Response remove(const Request& r, const std::string& id);
  Response cancel(const Request& r, const std::string& id);
  Response content(const Request& r, const std::string& id);
  Response preview(const Request& r, const std::string& id);
  Response stream(const Request& r, const std::string& id);
  Response hls_playlist(const Request& r, const std::string& id);
  Response hls_init(const Request& r, const std::string& id);
  Response hls_segment(const Request& r, const std::string& id);
  Response events(const Request& r, const std::string& id);
  Response live_create(Request& r);
  Response live_list(const Request& r);
  Response live_get(const Request& r, const std::string& id);
  Response live_change(Request& r, const std::string& id);
  Response live_close(const Request& r, const std::string& id);
  Response live_stream(const Request& r, const std::string& id);
  Response live_events(const Request& r, const std::string& id);
  Response live_playlist(const Request& r, const std::string& id);
  Response live_init(const Request& r, const std::string& id);
  Response live_segment(const Request& r, const std::string& id);
  Response vote(Request& r);
  Response votes(const Request& r);
  Response capabilities();
  Response ready();
  Response metrics_page();
  Response openapi();

 private:
  struct Accepting;
  Response accept(Request& r, Accepting& a);
  std::optional<Response> admit(Request& r);
  Response handle(Request& r);
  Response attempt(const Request& r, const Route& route, std::string& code, const std::function<Response()>& run);
  void finish(const Request& r, const Route& route, Response& out, const std::string& code, double seconds);
  void add_cors(const Request& r, Response& out) const;
  void ended(const Job& job);
  void log(const Request& r, const std::string& route, const Response& out, double seconds);

  std::function<ServerStats()> stats_;
  LiveHub& live();
  std::shared_ptr<LiveChannel> find_live(const Request& r, const std::string& id);

  std::function<std::array<CacheStats, 3>()> cache_stats_;
  std::function<std::string()> worker_problem_;
  LiveHub* live_ = nullptr;
  int64_t start_seconds_ = 0;
};

// A job as a VideoResource: OpenAI's keys and ours.
Json video_resource(const Job& job);
// Milliseconds after which asking again is worth it.
int64_t poll_after_ms(const Job& job);
Response json_response(const Json& body, int status = 200);
// The job or 404.
Job find_job(Service& s, const Request& r, const std::string& id);

struct Route {
  const char *method, *pattern, *summary;    // "{id}" stands for a job
  unsigned scope;
  bool slow;                                 // may take long: media, disk
  Response (*run)(Service&, Request&, const std::string& id);
};
const std::vector<Route>& routes();
Json openapi_document(const Service& s);

}  // namespace zt::http

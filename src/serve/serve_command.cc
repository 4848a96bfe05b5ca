// zoetrope serve: the HTTP server, the store, and a worker in the same process. zoetrope live: the same around one channel. zoetrope key: a new API key.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>
#include <tuple>

#include "base/threads.h"
#include "formats/safetensors.h"
#include "pipeline/memory.h"
#include "serve/commands.h"
#include "serve/http/service.h"
#include "serve/job.h"
#include "serve/live/live_hub.h"
#include "serve/worker.h"

namespace fs = std::filesystem;

namespace zt {

namespace {

struct ServeOptions {
  http::ServerOptions server;
  http::ServiceOptions service;
  std::string model, store, webhook_secret, plan = "exact", data = "zoetrope-data";
  std::vector<std::string> aliases = {"MiniMax-H3", "sora-2", "sora-2-pro"};
  int64_t body_mib = 64, memory_mib = -1, cache_mib = 256;
  int workers = 1, threads = 0;
  size_t live = 4;
  std::optional<LiveSettings> channel;   // opened at once; its address is printed
};

void bind(CLI::App* app, ServeOptions& o) {
  app->add_option("--model,-m", o.model, "model folder in the diffusers layout (default: the h3-nano that comes with the program)")->type_name("DIR");
  app->add_option("--host", o.server.host, "address to listen on (default 127.0.0.1; any other needs --keys)")->type_name("ADDRESS");
  app->add_option("--port", o.server.port, "port to listen on (default 8080; 0: any free one, printed)")->type_name("N")->check(CLI::Range(0, 65535));
  app->add_option("--data", o.data, "folder of uploads, results and the embedded store (default zoetrope-data)")->type_name("DIR");
  app->add_option("--store", o.store, "job store: sqlite:FILE or postgresql://... (default sqlite:DATA/jobs.db)")->type_name("URL");
  app->add_option("--results", o.service.results, "where finished files are kept: s3://BUCKET[/PREFIX], by the AWS_ variables (default: the data folder)")
      ->type_name("URL");
  app->add_option("--plan", o.plan, "the plan that the model is run under: exact, fast or a plan file (default exact)")->type_name("PLAN");
  app->add_option("--workers", o.workers, "0: only accept; other processes work (zoetrope worker). Default 1")->type_name("0|1")->check(CLI::Range(0, 1));
  app->add_option("--threads", o.threads, "threads of the worker (default: the cores this process may use)")->type_name("N")->check(CLI::Range(1, 256));
  app->add_option("--max-live", o.live, "live channels at once (default 4)")->type_name("N")->check(CLI::Range(0, 64));
  app->add_option("--keys", o.service.keys_file, "file of API keys (see zoetrope key); without it only loopback is served")->type_name("FILE");
  app->add_option("--model-alias", o.aliases, "other names that requests may call the model by (default MiniMax-H3, sora-2, sora-2-pro)")->type_name("NAME");
  app->add_option("--cors-origin", o.service.cors_origins, "origin whose pages may use the server, or *; repeatable")->type_name("ORIGIN");
  app->add_flag("--allow-url", o.service.allow_url, "fetch media from public http(s) addresses that requests name");
  app->add_option("--webhook-prefix", o.service.webhooks.prefixes, "beginning of addresses that requests may have told of their end; repeatable")->type_name("URL");
  app->add_option("--webhook-secret", o.webhook_secret, "file with the secret that webhooks are signed with (whsec_...)")->type_name("FILE");
  app->add_option("--max-queued", o.service.max_queued, "jobs that may wait; more are refused with 429 (default 10000)")->type_name("N")->check(CLI::Range(1, 100000000));
  app->add_option("--max-wait", o.service.max_wait_seconds, "predicted seconds of waiting above which requests are refused with 429 (default: no limit)")
      ->type_name("S")->check(CLI::Range(0.0, 1e9));
  app->add_option("--max-body", o.body_mib, "MiB of one request body (default 64)")->type_name("MIB")->check(CLI::Range(1, 4096));
  app->add_option("--max-connections", o.server.max_connections, "connections at once (default 1024)")->type_name("N")->check(CLI::Range(1, 1000000));
  app->add_option("--memory", o.memory_mib,
                  "MiB that a request may need, weights included; a transformer that does not fit is streamed (default: nine tenths of the machine's); 0: no limit")
      ->type_name("MIB")->check(CLI::Range(0, 1 << 30));
  app->add_option("--cache", o.cache_mib, "MiB of prompt embeddings and reference latents that are kept for later requests (default 256); 0: none")
      ->type_name("MIB")->check(CLI::Range(0, 1 << 20));
  app->add_option("--retention", o.service.retention_seconds, "seconds after which ended jobs and their files are deleted (default: never)")
      ->type_name("S")->check(CLI::Range(0, 1 << 30));
  app->add_option("--drain", o.server.drain_seconds, "seconds that open answers get when the server ends (default 30)")->type_name("S")->check(CLI::Range(0.0, 3600.0));
  app->add_flag("--access-log", o.service.access_log, "one JSON line on stderr for each request, without prompts");
}

bool is_loopback(const std::string& host) { return host == "localhost" || host == "::1" || host.starts_with("127."); }

// The worker in this process; what ends it early makes the server not ready.
class Worker {
 public:
  Worker(JobStore& store, ResultStore& results, Engine& engine, EngineTurn& turn, const std::string& data) {
    thread_ = std::thread([this, &store, &results, &engine, &turn, data] {
      try {
        WorkerOptions options;
        options.data = data, options.results = &results, options.turn = &turn;
        run_worker(store, engine, options, stop_);
      } catch (const std::exception& e) {
        std::fprintf(stderr, "zoetrope: the worker ended: %s\n", e.what());
      }
      ended_ = true;
    });
  }
  ~Worker() {
    stop_ = true;
    thread_.join();
  }
  std::string problem() const { return ended_ ? "the worker has ended" : ""; }

 private:
  std::atomic<bool> stop_{false}, ended_{false};
  std::thread thread_;
};

int run_serve(ServeOptions o) {
  signal(SIGPIPE, SIG_IGN);
  if (o.service.keys_file.empty() && !is_loopback(o.server.host))
    fail(ErrorKind::request, "--host {} is reachable by others and there are no API keys; give --keys FILE, or a loopback address", o.server.host);
  if (!o.service.webhooks.prefixes.empty()) {
    if (o.webhook_secret.empty()) fail(ErrorKind::request, "--webhook-prefix needs --webhook-secret FILE, or nobody could tell whose webhooks they are");
    for (const std::string& p : o.service.webhooks.prefixes)
      if ((!p.starts_with("http://") && !p.starts_with("https://")) || p.find('/', 8) == std::string::npos)
        fail(ErrorKind::request, "--webhook-prefix {}: wanted https://HOST/ with at least the slash after the host", p);
    o.service.webhooks.secret = http::read_webhook_secret(o.webhook_secret);
  }
  const std::string model = resolve_model_folder(o.model);
  const h3::ModelIndex index = h3::read_model_index(model);
  const Plan plan = read_plan(o.plan, model);
  const ModelReport report = inspect_model(model, false);
  std::error_code ec;
  fs::create_directories(o.data, ec);
  if (ec) fail(ErrorKind::request, "--data {}: cannot be made: {}", o.data, ec.message());
  o.data = fs::absolute(o.data).lexically_normal().string();
  const std::unique_ptr<JobStore> store = open_store(o.store.empty() ? "sqlite:" + o.data + "/jobs.db" : o.store);

  o.service.data = o.data;
  o.service.plan = plan.name;
  o.service.models = {fs::path(model).lexically_normal().filename().string()};
  o.service.models.insert(o.service.models.end(), o.aliases.begin(), o.aliases.end());
  o.service.memory_bytes = o.memory_mib < 0 ? std::max<int64_t>(usable_bytes() - (o.cache_mib << 20), 1) : o.memory_mib << 20;
  o.service.body_bytes = o.server.body_bytes = static_cast<size_t>(o.body_mib) << 20;
  o.server.body_total_bytes = std::max(o.server.body_total_bytes, 2 * o.server.body_bytes);

  http::Service service(o.service, *store, index, {memory_needs(report, plan, "transformer"), memory_needs(report, plan, "transformer_ref")});
  http::Server server(o.server, service.handler());
  service.set_stats([&server] { return server.stats(); });
  std::optional<Engine> engine;
  EngineTurn turn;
  std::unique_ptr<LiveHub> live;
  std::unique_ptr<Worker> worker;
  if (o.workers > 0) {
    engine.emplace(model, plan, o.threads > 0 ? o.threads : default_thread_count());
    engine->caches().limit(o.cache_mib << 20);
    engine->limit_memory(o.service.memory_bytes, o.memory_mib >= 0);
    service.set_cache_stats([&engine] { return engine->caches().stats(); });
    live = std::make_unique<LiveHub>(*engine, turn, LiveOptions{o.data, o.live});
    service.set_live(live.get());
    worker = std::make_unique<Worker>(*store, *service.results, *engine, turn, o.data);
    service.set_worker_state([&worker] { return worker->problem(); });
  }
  const std::string shown = o.server.host.find(':') == std::string::npos ? o.server.host : "[" + o.server.host + "]";
  const std::string address = fmt::format("http://{}:{}", shown, server.port());
  std::fprintf(stderr, "zoetrope: %s under plan %s on %s\n", o.service.models.front().c_str(), plan.name.c_str(), address.c_str());
  if (o.channel) {
    const std::string id = live->open(*o.channel)->settings().id;
    std::printf("%s/#live/%s\n", address.c_str(), id.c_str());
    std::fflush(stdout);
    std::fprintf(stderr, "zoetrope: open that in a browser, or give a player %s/v1/live/%s/stream; Ctrl-C ends it\n", address.c_str(), id.c_str());
  }
  server.run(true);
  if (!o.channel) std::fprintf(stderr, "zoetrope: ending; a job in the making goes back to the queue with its last step\n");
  return 0;
}

// A folder of its own that goes with it.
struct TemporaryFolder {
  std::string path = (fs::temp_directory_path() / "zoetrope-live-XXXXXX").string();
  TemporaryFolder() {
    if (!mkdtemp(path.data())) fail(ErrorKind::resource, "{}: cannot be made: {}; set TMPDIR to a folder that can be written", path, std::strerror(errno));
  }
  ~TemporaryFolder() {
    std::error_code ec;
    fs::remove_all(path, ec);
  }
};

struct LiveCommandOptions {
  ServeOptions serve;
  LiveSettings channel;
  std::string size;
};

int run_live(LiveCommandOptions o) {
  const std::string model = resolve_model_folder(o.serve.model);
  if (o.serve.plan.empty()) o.serve.plan = fs::exists(model + "/plans/live.json") ? "live" : "fast";
  if (o.channel.prompt.empty()) fail(ErrorKind::request, "the prompt is empty; say what the channel shows");
  if (!o.size.empty()) {
    const auto size = parse_size(o.size);
    if (!size) fail(ErrorKind::request, "--size is \"{}\"; wanted WIDTHxHEIGHT such as 192x128", o.size);
    std::tie(o.channel.width, o.channel.height) = *size;
  }
  std::optional<TemporaryFolder> folder;
  if (o.serve.data.empty()) folder.emplace(), o.serve.data = folder->path;
  o.serve.live = 1, o.serve.channel = o.channel, o.serve.server.drain_seconds = 1;
  return run_serve(o.serve);
}

}  // namespace

Command live_command(CLI::App& root) {
  auto o = std::make_shared<LiveCommandOptions>();
  o->serve.plan = o->serve.data = "", o->serve.server.port = 0;
  CLI::App* app = root.add_subcommand("live", "Video with sound that goes on until Ctrl-C: prints the address to watch and steer it at");
  app->add_option("prompt", o->channel.prompt, "what it shows and sounds like; may be changed while it plays")->required()->type_name("TEXT");
  app->add_option("--model,-m", o->serve.model, "model folder (default: the h3-nano that comes with the program)")->type_name("DIR");
  app->add_option("--port", o->serve.server.port, "port on this machine (default: any free one)")->type_name("N")->check(CLI::Range(0, 65535));
  app->add_option("--size", o->size, "pixels (default: the model's canvas)")->type_name("WxH");
  app->add_option("--seed", o->channel.seed, "seed (default 0)")->type_name("N");
  app->add_option("--evaluations", o->channel.evaluations, "of the denoiser, each segment (default 8)")->type_name("N")->check(CLI::Range(1, 1000));
  app->add_option("--lead", o->channel.lead_seconds, "seconds made ahead of playback (default 6)")->type_name("S")->check(CLI::Range(2.0, 60.0));
  app->add_option("--plan", o->serve.plan, "plan (default: live if the model has it, else fast)")->type_name("PLAN");
  app->add_option("--data", o->serve.data, "folder that keeps the channel, to go on with zoetrope serve (default: kept nowhere)")->type_name("DIR");
  app->add_option("--threads", o->serve.threads, "worker threads (default: the cores this process may use)")->type_name("N")->check(CLI::Range(1, 256));
  return {app, [o] { return report_errors([&] { return run_live(*o); }); }};
}

Command serve_command(CLI::App& root) {
  auto options = std::make_shared<ServeOptions>();
  CLI::App* app = root.add_subcommand("serve", "Answer over HTTP: OpenAI's videos API and MiniMax-H3's");
  bind(app, *options);
  return {app, [options] { return report_errors([&] { return run_serve(*options); }); }};
}

Command key_command(CLI::App& root) {
  auto id = std::make_shared<std::string>();
  CLI::App* app = root.add_subcommand("key", "Make an API key: prints the secret once, and the line for the file of --keys");
  app->add_option("id", *id, "whose key it is")->required()->type_name("ID");
  return {app, [id] {
            return report_errors([&] {
              const std::string secret = http::new_secret();
              std::printf("secret (give it to its owner, it is kept nowhere): %s\n", secret.c_str());
              std::printf("for the file of --keys: {\"keys\": [%s]}\n", Json{{"id", *id}, {"sha256", sha256(secret)}}.dump().c_str());
              return 0;
            });
          }};
}

}  // namespace zt

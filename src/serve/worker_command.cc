// zoetrope worker: takes jobs from a shared store until it is told to stop.
#include <algorithm>
#include <csignal>
#include <filesystem>

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include "base/threads.h"
#include "serve/commands.h"
#include "serve/job.h"
#include "serve/worker.h"

namespace zt {

namespace {

std::atomic<bool> g_stop{false};   // set by a signal, which has no argument to travel by

void on_stop(int) { g_stop = true; }

struct WorkerArguments {
  std::string model, data, store, results, plan = "exact", name;
  int threads = 0;
  double lease = 30;
  int64_t cache_mib = 256, memory_mib = -1;
};

int run(const WorkerArguments& a) {
  struct sigaction action {};
  action.sa_handler = on_stop;
  action.sa_flags = static_cast<int>(SA_RESETHAND);   // a second one ends the program at once
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  spdlog::set_default_logger(spdlog::stderr_logger_mt("zoetrope"));
  if (!std::filesystem::is_directory(a.data)) fail(ErrorKind::request, "--data {}: is no folder; make it first", a.data);
  const auto store = open_store(a.store.empty() ? "sqlite:" + a.data + "/jobs.db" : a.store);
  const std::string model = resolve_model_folder(a.model);
  Engine engine(model, read_plan(a.plan, model), a.threads ? a.threads : default_thread_count());
  engine.caches().limit(a.cache_mib << 20);
  engine.limit_memory(a.memory_mib < 0 ? std::max<int64_t>(usable_bytes() - (a.cache_mib << 20), 1) : a.memory_mib << 20, a.memory_mib >= 0);
  const auto results = open_results(a.results, a.data);
  WorkerOptions options;
  options.data = a.data;
  options.results = results.get();
  options.name = a.name;
  options.lease_ms = static_cast<int64_t>(a.lease * 1000);
  options.heartbeat_ms = std::max<int64_t>(50, std::min<int64_t>(options.heartbeat_ms, options.lease_ms / 5));
  run_worker(*store, engine, options, g_stop);
  return 0;
}

}  // namespace

Command worker_command(CLI::App& root) {
  auto a = std::make_shared<WorkerArguments>();
  CLI::App* app = root.add_subcommand("worker", "Take jobs from the store of a server, also from other machines");
  app->add_option("--model", a->model, "model folder (default: the h3-nano that comes with the program)")->type_name("DIR");
  app->add_option("--data", a->data, "folder of uploads and results; for all servers and workers of a store the same files")->type_name("DIR")->required();
  app->add_option("--store", a->store, "sqlite:PATH (default: sqlite:DIR/jobs.db) or postgresql://USER@HOST/DATABASE")->type_name("URL");
  app->add_option("--results", a->results, "where finished files are kept, as the server has it: s3://BUCKET[/PREFIX] (default: the data folder)")->type_name("URL");
  app->add_option("--plan", a->plan, "exact, fast or a plan file (default exact); jobs of other plans fail")->type_name("exact|fast|FILE");
  app->add_option("--threads", a->threads, "threads of the engine (default: the cores this process may use)")->type_name("N")->check(CLI::Range(1, 256));
  app->add_option("--cache", a->cache_mib, "MiB of prompt embeddings and reference latents that are kept for later jobs (default 256); 0: none")
      ->type_name("MIB")->check(CLI::Range(0, 1 << 20));
  app->add_option("--memory", a->memory_mib,
                  "MiB that a job may need, weights included; a transformer that does not fit is streamed (default: nine tenths of the machine's); 0: no limit")
      ->type_name("MIB")->check(CLI::Range(0, 1 << 30));
  app->add_option("--name", a->name, "what the store calls this worker (default: host and process)")->type_name("NAME");
  app->add_option("--lease", a->lease, "seconds after its last sign of life in which a worker's job is given to another (default 30)")
      ->type_name("S")->check(CLI::Range(0.5, 3600.0));
  return {app, [a] { return report_errors([&] { return run(*a); }); }};
}

}  // namespace zt

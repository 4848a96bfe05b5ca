#pragma once
// One generation from options to a file: what the command line runs in process, and what a worker will run from a queue.
#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "pipeline/engine.h"
#include "serve/options.h"

namespace zt {

constexpr const char* kVersion = "0.1.0";

// The adapter that "FILE[:strength]" means. A name without a folder is first looked for in `folder`/loras, with or without its ending.
// Errors (kind request): no such file, a strength outside -16 .. 16.
AdapterUse find_adapter(const std::string& text, const std::string& folder);
// The same of a stranger's request: only names in `folder`/loras.
AdapterUse find_own_adapter(const std::string& text, const std::string& folder);
// Puts them into `request`, with the schedule that they state: its evaluations too, unless the request's are `counted`. Errors (request): as above;
// a schedule that cannot be read.
void use_own_adapters(const std::vector<std::string>& texts, const std::string& folder, bool counted, Request& request);

// Options -> request: resolves conflicts and defaults, reads and decodes every file. `index` gives the model's own values.
// Errors (kind request): conflicting or impossible options, unreadable media; each names the option, what was found and the remedy.
Request build_request(const GenerateOptions& options, const h3::ModelIndex& index);

// The same with other readers of media, such as ones that give sizes alone: whoever accepts a request checks it without decoding.
struct MediaReaders {
  std::function<Picture(const std::string& path)> picture;
  std::function<Reference(const std::string& path)> reference;
  std::function<Latents(const std::string& path)> latents;
};
Request build_request(const GenerateOptions& options, const h3::ModelIndex& index, const MediaReaders& readers);

struct JobReport {
  Request request;             // without its media
  Result result;
  Plan plan;
  std::string model, model_hash, isa, output;
  int threads = 0;
  double total_seconds = 0;    // load to closed file
  size_t peak_rss_bytes = 0;
};

// Runs a request on a resident engine to a finished MP4 at `output`. `options` is what its metadata says it was made from, `frames` sees
// every finished frame (RGB [count, height, width, 3]) and may be empty; `stream` is a path for the growing file (Mp4Options), "" for none.
// The request's media are dropped from the report. Errors as Engine::generate; request (the file cannot be written); Cancelled leaves no file.
using FrameWatcher = std::function<void(const ClipInfo& clip, const uint8_t* rgb, int64_t count)>;
JobReport run_request(Engine& engine, const GenerateOptions& options, Request request, const std::string& model_hash, const std::string& output,
                      const Hooks& hooks, const FrameWatcher& frames = {}, const std::string& stream = "");

// Runs `options` to a finished MP4. Errors as above; Cancelled leaves no file.
JobReport run_job(const GenerateOptions& options, const std::string& model_folder, const Hooks& hooks);

// Latents of a clip as a file, for Request::start. Errors (request): cannot be written; damaged, or something else.
void save_latents(const std::string& path, const Latents& latents);
Latents load_latents(const std::string& path);

// The report as the JSON that --json prints.
Json report_json(const JobReport& report);

// SHA-256 over names, sizes and contents of a model folder's files (of a file over 256 MiB, its first and last MiB).
std::string model_hash(const std::string& folder);

// --model if given, else models/h3-nano beside the program or in the source tree. Errors (kind model): none there.
std::string resolve_model_folder(const std::string& option);

size_t peak_rss_bytes();       // of this process so far

}  // namespace zt

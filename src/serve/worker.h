#pragma once
// Takes jobs from a store and turns them into files, one at a time, with one resident engine; finished files are sent to a store of results
// beside the next job.
#include <atomic>
#include <cstdint>
#include <string>

#include "pipeline/engine.h"
#include "serve/live/engine_turn.h"
#include "serve/store/job_store.h"
#include "serve/store/result_store.h"

namespace zt {

// What Job::result of a completed job says (paths are relative to the data folder, or to where
// finished files are kept instead, serve/store/result_store.h):
// {"files": {"video": {"path", "bytes", "sha256", "type": "video/mp4"}, "thumbnail": {...}, "spritesheet": {...}, "latents": {...}},
//  "width", "height", "frames", "fps", "seconds", "sample_rate", "samples", "seed", "steps", "evaluations", "task", "plan": {...},
//  "model_hash", "version", "isa", "threads", "stages": [{"stage", "seconds", "share", "runs"}], "total_seconds", "ratio", "peak_rss_bytes",
//  "kept_away": true where the files went to a store of results}
// While a job runs, jobs/ID/preview.png under the data folder is its latest picture, replaced between evaluations; it may be absent. It stays
// for about an hour after the end, for whoever was told of it.
// jobs/ID/run.TOKEN/stream.mp4 is the clip as it grows (Mp4Options::stream_path); it stays for about an hour after the end.
// A job is completed only when its files are kept; where the store of results is away, the finished clip waits under its lease, and outlives the worker.

// A job whose options hold "n" (2 to kMostClips) makes as many clips, with seeds from its own on. The result is that of the first and has
// "videos": [{"path", "bytes", "sha256", "type", "seed"}] of all; its total_seconds are those of all.
constexpr int64_t kMostClips = 10;

struct WorkerOptions {
  std::string data;                          // data folder; of all workers of a store the same files
  std::string name;                          // in Job::worker; "" = host and process
  int64_t lease_ms = 30000;                  // how long a job waits after its worker died
  int64_t heartbeat_ms = 3000;
  int64_t poll_ms = 1000;                    // how often an idle worker looks without having been told
  bool checkpoints = true;
  size_t most_waiting = 8;                   // finished jobs that wait for a store of results; no other is claimed while there are so many
  ResultStore* results = nullptr;            // where finished files are kept; null: the data folder
  EngineTurn* turn = nullptr;                // where others use the engine too
};

// Until `stop`: claims, runs, stores. Returns after the job in hand was given back to the queue with its last checkpoint. A job that fails is
// the job's state, never an exception; a store that fails is retried for as long as `stop` is false.
void run_worker(JobStore& store, Engine& engine, const WorkerOptions& options, const std::atomic<bool>& stop);

// Removes folders of jobs that the store does not know and that are older than an hour, and what ended claims left behind.
void sweep_data_folder(JobStore& store, ResultStore& results, const std::string& data);

}  // namespace zt

#pragma once
// The queue that outlives every process: jobs are accepted, claimed under a lease, finished, listed, deleted. Two drivers stand behind one
// interface: SQLite (one machine) and PostgreSQL (many). Every call is one transaction, may come from any thread, and blocks for a disk or
// a network at most `StoreOptions::busy_timeout_ms`. Errors of every call: resource (store unreachable, disk full, read-only, damaged);
// the message says which. What a call acknowledged survives kill -9 and, progress and heartbeats apart, the loss of power.
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace zt {

enum class JobStatus { queued, in_progress, completed, failed, cancelled };
const char* status_name(JobStatus status);                          // "in_progress"
std::optional<JobStatus> parse_status(const std::string& name);

constexpr int kBatchPriority = 0, kInteractivePriority = 10;        // any int; higher is claimed first and preempts lower

// What create() takes. Texts are stored as they are; the store reads none of the JSON.
struct NewJob {
  std::string id;                    // from new_job_id(), so that uploads can be laid into their folder before the job exists; "" = made here
  std::string owner;                 // whose job it is: the id of an API key; "" on a server without keys
  std::string options;               // JSON: the keys of generate_options(); what the worker runs. Paths are relative to the data folder
  std::string request;               // JSON of the API that took it: echoed, never run
  int priority = kInteractivePriority;
  int64_t deadline_ms = 0;           // Unix ms after which nobody wants it (it then fails as deadline_exceeded); 0 = none
  int64_t retention_ms = 0;          // deleted that long after it ended; 0 = kept
  std::string idempotency_key;       // unique within `owner`; "" = none
  std::string fingerprint;           // of the request: the same key with another fingerprint is a conflict
  std::string remixed_from;          // id of another job, or ""
  std::string webhook;               // JSON for the deliverer of webhooks, or "" = none is owed
};

struct Job {
  std::string id, owner, options, request, idempotency_key, fingerprint, remixed_from, webhook;
  JobStatus status = JobStatus::queued;
  int priority = 0;
  int64_t deadline_ms = 0, retention_ms = 0;
  int64_t created_ms = 0, started_ms = 0, ended_ms = 0, expires_ms = 0;   // Unix ms; 0 = not (yet)
  // How far it is: the stage's name as stage_name() gives it, done of total in it, and the whole in percent.
  std::string stage;
  int64_t done = 0, total = 0;
  int percent = 0;
  bool cancel_requested = false;
  std::string error_code, error_message;                             // failed: code is request, model, resource, internal, deadline_exceeded, worker_lost
  std::string error_param;                                           // failed: the request's field that is to blame, or ""
  std::string result;                                                // completed: JSON, see serve/worker.h
  // The lease. `token` fences: a call with an old token changes nothing.
  std::string worker;
  int64_t token = 0, heartbeat_ms = 0, lease_ms = 0;
  int attempt = 0;                                                   // claims since the last checkpoint that was not given back by choice
  std::string checkpoint;                                            // path relative to the data folder, or ""
  int64_t checkpoint_step = 0;                                       // evaluations that it holds
  int webhook_attempts = 0;
  int64_t webhook_due_ms = 0;                                        // 0 = nothing is owed (yet)
  int64_t revision = 0;                                              // of the store, at this job's last change
};

enum class CreateOutcome {
  created,
  existing,   // same owner, idempotency key and fingerprint: the earlier job, whatever became of it
  conflict,   // same owner and key, another fingerprint: the earlier job
  full        // a limit is reached; nothing was stored, `job` is empty
};
struct Created {
  CreateOutcome outcome;
  Job job;
};
struct QueueLimits {
  int64_t queued = 0, queued_of_owner = 0;   // jobs waiting; 0 = no limit
};

struct ListQuery {
  std::optional<std::string> owner = {};     // nullopt = everybody's
  std::optional<JobStatus> status = {};
  std::string after = {};                    // id of the last job of the page before; "" = from the start
  int limit = 20;                            // 0 to 1000
  bool ascending = false;                    // by time of creation
};
struct Page {
  std::vector<Job> jobs;
  bool has_more = false;
};

// Who holds a job, as claim() gave it.
struct Lease {
  std::string id;
  int64_t token = 0;
};
// What the holder must know. Not held: another has it, or it was deleted: stop and throw everything away.
struct LeaseState {
  bool held = false;
  bool cancel = false;     // its owner asked for that: stop, then cancelled()
  bool yield = false;      // a job of higher priority waits and this one should make room: stop at the next step, then release()
  bool overdue = false;    // its deadline passed: stop, then fail("deadline_exceeded")
};

struct Progress {
  std::string stage;
  int64_t done = 0, total = 0;
  int percent = 0;
};

struct Counts {
  int64_t queued = 0, in_progress = 0, completed = 0, failed = 0, cancelled = 0;
  int64_t oldest_queued_ms = 0;              // creation of the job that waits longest; 0 = none waits
};

struct Change {
  std::string id;
  int64_t revision = 0;
  bool deleted = false;
};

// A person's choice between two clips that were shown without a word on how they were made.
struct Vote {
  std::string owner;                         // as of jobs
  std::string a, b;                          // how they were made: what is compared, long after the clips are gone
  std::string choice;                        // "a", "b" or "same"
};
struct VoteCount {
  std::string a, b;                          // a < b
  int64_t a_better = 0, b_better = 0, same = 0;
};

struct StoreOptions {
  int busy_timeout_ms = 5000;
  int max_attempts = 10;                     // claims without a new checkpoint after which a job fails as worker_lost
  std::function<int64_t()> now_ms;           // Unix ms; for tests. PostgreSQL uses the server's clock unless this is set
};

class JobStore {
 public:
  virtual ~JobStore() = default;

  // --- the side that accepts ---
  // Durable when it returns. Errors also: request (an id that exists or is none).
  virtual Created create(const NewJob& job, const QueueLimits& limits = {}) = 0;
  // With `owner`, another's job is as absent as one that never was.
  virtual std::optional<Job> get(const std::string& id, const std::optional<std::string>& owner = {}) = 0;
  // Errors also: request (`after` names no job of that owner).
  virtual Page list(const ListQuery& query) = 0;
  // A queued job is cancelled at once; a running one when its worker notices. The job after the call; nullopt if there is none.
  virtual std::optional<Job> request_cancel(const std::string& id, const std::optional<std::string>& owner = {}) = 0;
  // Removes the job at once, running or not: a later completion finds nothing. The job as it was; the caller removes its folder.
  virtual std::optional<Job> erase(const std::string& id, const std::optional<std::string>& owner = {}) = 0;
  virtual Counts counts() = 0;

  // --- the side that works ---
  // The next job under a lease of `lease_ms` from now, renewed by every call below. Order: priority, then the owner with the fewest running
  // jobs, then the owner served longest ago, then the nearest deadline, then age. Jobs whose lease ended are queued again first.
  virtual std::optional<Job> claim(const std::string& worker, int64_t lease_ms) = 0;
  virtual LeaseState heartbeat(const Lease& lease) = 0;
  virtual LeaseState progress(const Lease& lease, const Progress& progress) = 0;
  virtual LeaseState checkpoint(const Lease& lease, const std::string& path, int64_t step) = 0;
  // Each ends the lease; false if it was not held any more (then the caller throws its files away). Durable when they return true.
  virtual bool complete(const Lease& lease, const std::string& result) = 0;
  virtual bool fail(const Lease& lease, const std::string& code, const std::string& message, const std::string& param = "") = 0;
  virtual bool cancelled(const Lease& lease) = 0;
  virtual bool release(const Lease& lease) = 0;                      // back into the queue, its checkpoint kept; costs no attempt
  // Queues jobs whose lease ended, fails the overdue and the hopeless, erases the expired; returns the erased. claim() does the first two.
  virtual std::vector<Job> sweep() = 0;

  // --- webhooks: owed from the moment a job with `webhook` ends until they are settled ---
  // Up to `limit` jobs whose delivery is due; each is put off by `hold_ms`, so that a deliverer that dies loses nothing.
  virtual std::vector<Job> due_webhooks(int limit, int64_t hold_ms) = 0;
  virtual void settle_webhook(const std::string& id, bool done, int64_t retry_at_ms = 0) = 0;

  // --- votes ---
  virtual void add_vote(const Vote& vote) = 0;                       // durable when it returns; errors also: request (no such choice)
  virtual std::vector<VoteCount> votes(const std::optional<std::string>& owner = {}) = 0;   // by what was compared

  // --- changes ---
  virtual int64_t revision() = 0;            // of the last change
  // Jobs changed or deleted after `revision`, in order of change, each once with its latest; waits up to `timeout` for the first. Changes of
  // other processes are seen too (PostgreSQL: at once; SQLite: within 100 ms). Deletions are remembered for an hour. One thread watches for a
  // whole server; wake() ends its wait.
  virtual std::vector<Change> changes(int64_t revision, std::chrono::milliseconds timeout, int limit = 1000) = 0;
  virtual void wake() = 0;

  // Everything that is wrong with the store, in sentences; empty if it is sound.
  virtual std::vector<std::string> check() = 0;
  virtual int64_t now_ms() = 0;              // the store's clock
};

// "sqlite:PATH", "postgresql://..." (a libpq URI); creates or migrates the schema. Errors: request (no such scheme), resource (cannot be
// opened, or its schema is of a later version).
std::unique_ptr<JobStore> open_store(const std::string& url, const StoreOptions& options = {});

std::string new_job_id();                    // "video_" and 32 hex digits of the system's randomness
bool is_job_id(const std::string& text);     // safe as a file name
// "jobs/ID": everything of a job lies in that folder of the data folder: input/ (uploads), run.TOKEN/ (what that claim made).
std::string job_folder(const std::string& id);

}  // namespace zt

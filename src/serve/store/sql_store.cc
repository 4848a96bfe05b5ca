// The job store in the SQL that both databases share. Order of locks everywhere: rows of jobs, then the row of store_revision; so no two
// transactions wait for each other, and revisions become visible in their order.
#include <algorithm>
#include <atomic>
#include <charconv>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "serve/store/sql.h"
#include "text/unicode.h"

namespace zt {

namespace {

const std::string kColumns =
    "id, owner, options, request, idempotency_key, fingerprint, remixed_from, webhook, status, priority, deadline_ms, retention_ms, "
    "created_ms, started_ms, ended_ms, expires_ms, stage, done, total, percent, cancel_requested, error_code, error_message, error_param, result, "
    "worker, token, heartbeat_ms, lease_ms, attempt, checkpoint, checkpoint_step, webhook_attempts, webhook_due_ms, revision";
// A worker that was cut off for longer than its lease goes on if nobody took its job meanwhile: its token is still the last one given.
const std::string kHeld = "id = $1 AND token = $2 AND token > 0 AND status IN ('in_progress', 'queued')";
// A clock that was set back must not make a dead worker's lease last: a heartbeat from the far future counts as ended too.
const std::string kLeaseEnded = "status = 'in_progress' AND ($1 - heartbeat_ms > lease_ms OR heartbeat_ms - $1 > lease_ms)";
constexpr int64_t kDeletedKeptMs = 3600 * 1000;

int64_t number(const std::string& cell) {
  int64_t value = 0;
  std::from_chars(cell.data(), cell.data() + cell.size(), value);
  return value;
}

Job read_job(const SqlRow& row) {
  size_t i = 0;
  auto text = [&](std::string& to) { to = row[i++]; };
  auto whole = [&](auto& to) { to = static_cast<std::remove_reference_t<decltype(to)>>(number(row[i++])); };
  Job j;
  text(j.id), text(j.owner), text(j.options), text(j.request), text(j.idempotency_key), text(j.fingerprint), text(j.remixed_from), text(j.webhook);
  j.status = parse_status(row[i++]).value_or(JobStatus::failed);
  whole(j.priority), whole(j.deadline_ms), whole(j.retention_ms), whole(j.created_ms), whole(j.started_ms), whole(j.ended_ms), whole(j.expires_ms);
  text(j.stage), whole(j.done), whole(j.total), whole(j.percent), whole(j.cancel_requested);
  text(j.error_code), text(j.error_message), text(j.error_param), text(j.result);
  text(j.worker), whole(j.token), whole(j.heartbeat_ms), whole(j.lease_ms), whole(j.attempt), text(j.checkpoint), whole(j.checkpoint_step);
  whole(j.webhook_attempts), whole(j.webhook_due_ms), whole(j.revision);
  return j;
}

std::vector<Job> read_jobs(const std::vector<SqlRow>& rows) {
  std::vector<Job> jobs;
  for (const SqlRow& row : rows) jobs.push_back(read_job(row));
  return jobs;
}

std::optional<Job> one(const std::vector<SqlRow>& rows) { return rows.empty() ? std::nullopt : std::optional<Job>(read_job(rows[0])); }

std::string storable(std::string text) {   // messages may quote bytes of foreign files; PostgreSQL takes no NUL
  std::replace(text.begin(), text.end(), '\0', ' ');
  return repair_utf8(text);
}

class SqlStore : public JobStore {
 public:
  SqlStore(std::unique_ptr<SqlDriver> driver, const StoreOptions& options) : driver_(std::move(driver)), options_(options) {}
  ~SqlStore() override {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
    }
    signal_.notify_all();
    if (watcher_.joinable()) watcher_.join();
  }

  Created create(const NewJob& job, const QueueLimits& limits) override;
  std::optional<Job> get(const std::string& id, const std::optional<std::string>& owner) override;
  Page list(const ListQuery& query) override;
  std::optional<Job> request_cancel(const std::string& id, const std::optional<std::string>& owner) override;
  std::optional<Job> erase(const std::string& id, const std::optional<std::string>& owner) override;
  Counts counts() override;

  std::optional<Job> claim(const std::string& worker, int64_t lease_ms) override;
  LeaseState heartbeat(const Lease& lease) override { return touch(lease, false, "", {}); }
  LeaseState progress(const Lease& lease, const Progress& p) override {
    return touch(lease, true, ", stage = $6, done = $7, total = $8, percent = $9", {storable(p.stage), p.done, p.total, int64_t{p.percent}});
  }
  LeaseState checkpoint(const Lease& lease, const std::string& path, int64_t step) override {
    return touch(lease, true, ", checkpoint = $6, checkpoint_step = $7, attempt = 0", {path, step});
  }
  bool complete(const Lease& lease, const std::string& result) override { return finish(lease, {JobStatus::completed, "", "", "", result}); }
  bool fail(const Lease& lease, const std::string& code, const std::string& message, const std::string& param) override {
    return finish(lease, {JobStatus::failed, code, message, param, ""});
  }
  bool cancelled(const Lease& lease) override { return finish(lease, {JobStatus::cancelled, "", "", "", ""}); }
  bool release(const Lease& lease) override;
  std::vector<Job> sweep() override;

  std::vector<Job> due_webhooks(int limit, int64_t hold_ms) override;
  void settle_webhook(const std::string& id, bool done, int64_t retry_at_ms) override;

  void add_vote(const Vote& vote) override;
  std::vector<VoteCount> votes(const std::optional<std::string>& owner) override;

  int64_t revision() override;
  std::vector<Change> changes(int64_t revision, std::chrono::milliseconds timeout, int limit) override;
  void wake() override;

  std::vector<std::string> check() override;
  int64_t now_ms() override;

 private:
  struct End {
    JobStatus status;
    std::string error_code, error_message, error_param, result;
  };
  template <class F>
  auto write(Channel channel, F&& body);
  template <class F>
  auto read(F&& body);
  int64_t now(SqlConnection& c) { return options_.now_ms ? options_.now_ms() : driver_->now_ms(c); }
  int64_t next_revision(SqlConnection& c) { return number(c.run("UPDATE store_revision SET revision = revision + 1 RETURNING revision")[0][0]); }
  // A job of that id and owner, its row locked.
  std::optional<Job> lock(SqlConnection& c, const std::string& id, const std::optional<std::string>& owner);
  void end(SqlConnection& c, const std::string& id, int64_t now, const End& how);
  void remove(SqlConnection& c, const std::string& id, int64_t now);
  bool finish(const Lease& lease, const End& how);
  LeaseState touch(const Lease& lease, bool visible, const std::string& more, const std::vector<SqlValue>& values);
  bool should_yield(SqlConnection& c, const SqlRow& row, int64_t token);
  void requeue(SqlConnection& c, int64_t now);
  void signal();
  void watch();

  std::unique_ptr<SqlDriver> driver_;
  StoreOptions options_;
  std::mutex mutex_;                 // of what follows
  std::condition_variable signal_;
  uint64_t generation_ = 0, woken_ = 0;
  bool stop_ = false;
  std::thread watcher_;
};

template <class F>
auto SqlStore::write(Channel channel, F&& body) {
  decltype(body(std::declval<SqlConnection&>())) result{};
  driver_->transaction(channel, [&](SqlConnection& c) {
    result = body(c);
    driver_->announce(c);
  });
  signal();
  return result;
}

template <class F>
auto SqlStore::read(F&& body) {
  decltype(body(std::declval<SqlConnection&>())) result{};
  driver_->transaction(Channel::read, [&](SqlConnection& c) { result = body(c); });
  return result;
}

// --- the side that accepts ---

Created SqlStore::create(const NewJob& n, const QueueLimits& limits) {
  const std::string id = n.id.empty() ? new_job_id() : n.id;
  if (!is_job_id(id)) zt::fail(ErrorKind::request, "job id \"{}\": wanted one that new_job_id() gave", storable(id));
  return write(Channel::durable, [&](SqlConnection& c) -> Created {
    c.run("SELECT revision FROM store_revision" + driver_->lock_row());   // one creation at a time: limits and keys hold exactly
    if (!n.idempotency_key.empty())
      if (auto old = one(c.run("SELECT " + kColumns + " FROM jobs WHERE owner = $1 AND idempotency_key = $2", {n.owner, n.idempotency_key})))
        return {old->fingerprint == n.fingerprint ? CreateOutcome::existing : CreateOutcome::conflict, *old};
    if (!c.run("SELECT id FROM jobs WHERE id = $1", {id}).empty()) zt::fail(ErrorKind::request, "job id {} exists already", id);
    if (limits.queued > 0 && number(c.run("SELECT count(*) FROM jobs WHERE status = 'queued'")[0][0]) >= limits.queued) return {CreateOutcome::full, {}};
    if (limits.queued_of_owner > 0 &&
        number(c.run("SELECT count(*) FROM jobs WHERE status = 'queued' AND owner = $1", {n.owner})[0][0]) >= limits.queued_of_owner)
      return {CreateOutcome::full, {}};
    const int64_t t = now(c), revision = next_revision(c);
    const auto rows = c.run(
        "INSERT INTO jobs (seq, revision, " + kColumns.substr(0, kColumns.rfind(',')) +
            ") VALUES ($1, $1, $2, $3, $4, $5, $6, $7, $8, $9, 'queued', $10, $11, $12, $13, 0, 0, 0, '', 0, 0, 0, 0, '', '', '', '', '', 0, 0, 0, 0, '', 0, 0, 0) "
            "RETURNING " + kColumns,
        {revision, id, n.owner, n.options, n.request, n.idempotency_key, n.fingerprint, n.remixed_from, n.webhook, int64_t{n.priority}, n.deadline_ms,
         n.retention_ms, t});
    return {CreateOutcome::created, read_job(rows[0])};
  });
}

std::optional<Job> SqlStore::get(const std::string& id, const std::optional<std::string>& owner) {
  auto job = read([&](SqlConnection& c) { return one(c.run("SELECT " + kColumns + " FROM jobs WHERE id = $1", {id})); });
  if (job && owner && job->owner != *owner) return std::nullopt;
  return job;
}

Page SqlStore::list(const ListQuery& q) {
  const int64_t limit = std::clamp(q.limit, 0, 1000);
  return read([&](SqlConnection& c) -> Page {
    std::string where = "1 = 1";
    std::vector<SqlValue> values;
    auto add = [&](const std::string& condition, const SqlValue& value) {
      values.push_back(value);
      where += " AND " + condition + " $" + std::to_string(values.size());
    };
    if (q.owner) add("owner =", *q.owner);
    if (q.status) add("status =", std::string(status_name(*q.status)));
    if (!q.after.empty()) {
      const auto from = c.run("SELECT seq, owner FROM jobs WHERE id = $1", {q.after});
      if (from.empty() || (q.owner && from[0][1] != *q.owner)) zt::fail(ErrorKind::request, "after \"{}\": there is no such job", storable(q.after.substr(0, 80)));
      add(q.ascending ? "seq >" : "seq <", number(from[0][0]));
    }
    values.push_back(limit + 1);
    Page page;
    page.jobs = read_jobs(c.run("SELECT " + kColumns + " FROM jobs WHERE " + where + " ORDER BY seq " + (q.ascending ? "ASC" : "DESC") + " LIMIT $" +
                                    std::to_string(values.size()),
                                values));
    if (static_cast<int64_t>(page.jobs.size()) > limit) page.has_more = true, page.jobs.pop_back();
    return page;
  });
}

std::optional<Job> SqlStore::lock(SqlConnection& c, const std::string& id, const std::optional<std::string>& owner) {
  auto job = one(c.run("SELECT " + kColumns + " FROM jobs WHERE id = $1" + driver_->lock_row(), {id}));
  if (job && owner && job->owner != *owner) return std::nullopt;
  return job;
}

std::optional<Job> SqlStore::request_cancel(const std::string& id, const std::optional<std::string>& owner) {
  return write(Channel::durable, [&](SqlConnection& c) -> std::optional<Job> {
    const auto job = lock(c, id, owner);
    if (!job) return std::nullopt;
    if (job->status == JobStatus::queued)
      end(c, id, now(c), {JobStatus::cancelled, "", "", ""});
    else if (job->status == JobStatus::in_progress && !job->cancel_requested)
      c.run("UPDATE jobs SET cancel_requested = 1, revision = $2 WHERE id = $1", {id, next_revision(c)});
    return one(c.run("SELECT " + kColumns + " FROM jobs WHERE id = $1", {id}));
  });
}

std::optional<Job> SqlStore::erase(const std::string& id, const std::optional<std::string>& owner) {
  return write(Channel::durable, [&](SqlConnection& c) {
    const auto job = lock(c, id, owner);
    if (job) remove(c, id, now(c));
    return job;
  });
}

void SqlStore::remove(SqlConnection& c, const std::string& id, int64_t now) {
  c.run("DELETE FROM jobs WHERE id = $1", {id});
  c.run("INSERT INTO deleted (id, revision, deleted_ms) VALUES ($1, $2, $3) "
        "ON CONFLICT (id) DO UPDATE SET revision = excluded.revision, deleted_ms = excluded.deleted_ms",
        {id, next_revision(c), now});
}

Counts SqlStore::counts() {
  return read([&](SqlConnection& c) {
    Counts n;
    for (const SqlRow& row : c.run("SELECT status, count(*) FROM jobs GROUP BY status")) {
      int64_t* to[] = {&n.queued, &n.in_progress, &n.completed, &n.failed, &n.cancelled};
      if (const auto status = parse_status(row[0])) *to[static_cast<size_t>(*status)] = number(row[1]);
    }
    n.oldest_queued_ms = number(c.run("SELECT coalesce(min(created_ms), 0) FROM jobs WHERE status = 'queued'")[0][0]);
    return n;
  });
}

// --- votes ---

void SqlStore::add_vote(const Vote& v) {
  if (v.choice != "a" && v.choice != "b" && v.choice != "same") zt::fail(ErrorKind::request, "choice \"{}\": wanted a, b or same", storable(v.choice));
  const bool turned = v.b < v.a;   // a pair is one pair, whichever side was named first
  const std::string choice = v.choice == "same" ? "same" : (v.choice == "a") != turned ? "a" : "b";
  driver_->transaction(Channel::durable, [&](SqlConnection& c) {
    c.run("INSERT INTO votes (owner, a, b, choice, voted_ms) VALUES ($1, $2, $3, $4, $5)",
          {v.owner, storable(turned ? v.b : v.a), storable(turned ? v.a : v.b), choice, now(c)});
  });
}

std::vector<VoteCount> SqlStore::votes(const std::optional<std::string>& owner) {
  return read([&](SqlConnection& c) {
    std::vector<VoteCount> out;
    const std::string where = owner ? " WHERE owner = $1" : "";
    const std::vector<SqlValue> values = owner ? std::vector<SqlValue>{*owner} : std::vector<SqlValue>{};
    for (const SqlRow& row : c.run("SELECT a, b, choice, count(*) FROM votes" + where + " GROUP BY a, b, choice ORDER BY a, b, choice", values)) {
      if (out.empty() || out.back().a != row[0] || out.back().b != row[1]) out.push_back({row[0], row[1]});
      VoteCount& n = out.back();
      (row[2] == "a" ? n.a_better : row[2] == "b" ? n.b_better : n.same) = number(row[3]);
    }
    return out;
  });
}

// --- the side that works ---

void SqlStore::requeue(SqlConnection& c, int64_t now) {
  for (const SqlRow& row : c.run("SELECT id, attempt, cancel_requested FROM jobs WHERE " + kLeaseEnded + driver_->lock_row_or_skip(), {now})) {
    if (number(row[2]) != 0)
      end(c, row[0], now, {JobStatus::cancelled, "", "", ""});
    else if (number(row[1]) >= options_.max_attempts)
      end(c, row[0], now, {JobStatus::failed, "worker_lost", fmt::format("{} workers in a row ended or went silent while they ran this job", row[1]), ""});
    else
      c.run("UPDATE jobs SET status = 'queued', revision = $2 WHERE id = $1", {row[0], next_revision(c)});
  }
  for (const SqlRow& row : c.run("SELECT id FROM jobs WHERE status = 'queued' AND deadline_ms > 0 AND deadline_ms < $1" + driver_->lock_row_or_skip(), {now}))
    end(c, row[0], now, {JobStatus::failed, "deadline_exceeded", "its deadline passed while it waited", ""});
}

std::optional<Job> SqlStore::claim(const std::string& worker, int64_t lease_ms) {
  return write(Channel::durable, [&](SqlConnection& c) -> std::optional<Job> {
    const int64_t t = now(c);
    requeue(c, t);
    const auto next = c.run(
        "SELECT id, owner FROM jobs WHERE status = 'queued' ORDER BY priority DESC, "
        "(SELECT count(*) FROM jobs r WHERE r.owner = jobs.owner AND r.status = 'in_progress'), "
        "coalesce((SELECT served FROM owners o WHERE o.owner = jobs.owner), 0), "
        "CASE WHEN deadline_ms = 0 THEN 9223372036854775807 ELSE deadline_ms END, seq LIMIT 1" + driver_->lock_row_or_skip());
    if (next.empty()) return std::nullopt;
    const int64_t revision = next_revision(c);
    c.run("INSERT INTO owners (owner, served) VALUES ($1, $2) ON CONFLICT (owner) DO UPDATE SET served = excluded.served", {next[0][1], revision});
    return one(c.run("UPDATE jobs SET status = 'in_progress', worker = $2, token = $3, revision = $3, heartbeat_ms = $4, lease_ms = $5, "
                     "attempt = attempt + 1, started_ms = CASE WHEN started_ms = 0 THEN $4 ELSE started_ms END WHERE id = $1 RETURNING " + kColumns,
                     {next[0][0], storable(worker), revision, t, lease_ms}));
  });
}

// Of those that run, the least important make room, the latest started first; and only as many as there are jobs that wait for it.
bool SqlStore::should_yield(SqlConnection& c, const SqlRow& row, int64_t token) {
  const int64_t priority = number(row[3]);
  const int64_t waiting = number(c.run("SELECT count(*) FROM jobs WHERE status = 'queued' AND priority > $1", {priority})[0][0]);
  if (waiting == 0) return false;
  return waiting > number(c.run("SELECT count(*) FROM jobs WHERE status = 'in_progress' AND (priority < $1 OR (priority = $1 AND token > $2))",
                                {priority, token})[0][0]);
}

// `more` sets further columns from $6 on.
LeaseState SqlStore::touch(const Lease& lease, bool visible, const std::string& more, const std::vector<SqlValue>& values) {
  LeaseState state;
  driver_->transaction(Channel::casual, [&](SqlConnection& c) {
    state = {};
    const auto rows = c.run("SELECT status, cancel_requested, deadline_ms, priority, revision FROM jobs WHERE " + kHeld + driver_->lock_row(), {lease.id, lease.token});
    if (rows.empty()) return;
    const int64_t t = now(c);
    state.held = true;
    state.cancel = number(rows[0][1]) != 0;
    state.overdue = number(rows[0][2]) > 0 && number(rows[0][2]) < t;
    state.yield = should_yield(c, rows[0], lease.token);
    visible |= rows[0][0] == "queued";
    std::vector<SqlValue> all{lease.id, lease.token, t, visible ? next_revision(c) : number(rows[0][4]), std::string("in_progress")};
    all.insert(all.end(), values.begin(), values.end());
    c.run("UPDATE jobs SET heartbeat_ms = $3, revision = $4, status = $5" + more + " WHERE id = $1 AND token = $2", all);
    if (visible) driver_->announce(c);
  });
  if (visible) signal();
  return state;
}

void SqlStore::end(SqlConnection& c, const std::string& id, int64_t now, const End& how) {
  c.run("UPDATE jobs SET status = $2, ended_ms = $3, expires_ms = CASE WHEN retention_ms > 0 THEN $3 + retention_ms ELSE 0 END, error_code = $4, "
        "error_message = $5, result = $6, cancel_requested = 0, checkpoint = '', checkpoint_step = 0, "
        "webhook_due_ms = CASE WHEN webhook <> '' THEN $3 ELSE 0 END, percent = CASE WHEN $2 = 'completed' THEN 100 ELSE percent END, revision = $7, "
        "error_param = $8 "
        "WHERE id = $1",
        {id, std::string(status_name(how.status)), now, how.error_code, storable(how.error_message), how.result, next_revision(c), storable(how.error_param)});
}

bool SqlStore::finish(const Lease& lease, const End& how) {
  return write(Channel::durable, [&](SqlConnection& c) {
    if (!c.run("SELECT id FROM jobs WHERE " + kHeld + driver_->lock_row(), {lease.id, lease.token}).empty()) {
      end(c, lease.id, now(c), how);
      return true;
    }
    // The same call again, after one whose answer was lost with the connection.
    const auto rows = c.run("SELECT status FROM jobs WHERE id = $1 AND token = $2 AND token > 0", {lease.id, lease.token});
    return !rows.empty() && rows[0][0] == status_name(how.status);
  });
}

bool SqlStore::release(const Lease& lease) {
  return write(Channel::durable, [&](SqlConnection& c) {
    const auto rows = c.run("SELECT cancel_requested FROM jobs WHERE " + kHeld + driver_->lock_row(), {lease.id, lease.token});
    if (rows.empty()) return false;
    if (number(rows[0][0]) != 0)
      end(c, lease.id, now(c), {JobStatus::cancelled, "", "", ""});
    else
      c.run("UPDATE jobs SET status = 'queued', token = 0, worker = '', attempt = CASE WHEN attempt > 0 THEN attempt - 1 ELSE 0 END, revision = $2 WHERE id = $1",
            {lease.id, next_revision(c)});
    return true;
  });
}

std::vector<Job> SqlStore::sweep() {
  return write(Channel::durable, [&](SqlConnection& c) {
    const int64_t t = now(c);
    requeue(c, t);
    auto expired = read_jobs(c.run("SELECT " + kColumns + " FROM jobs WHERE expires_ms > 0 AND expires_ms < $1 ORDER BY expires_ms LIMIT 1000" +
                                       driver_->lock_row_or_skip(), {t}));
    for (const Job& job : expired) remove(c, job.id, t);
    if (!c.run("SELECT id FROM deleted WHERE deleted_ms < $1 LIMIT 1", {t - kDeletedKeptMs}).empty())
      c.run("DELETE FROM deleted WHERE deleted_ms < $1", {t - kDeletedKeptMs});
    return expired;
  });
}

// --- webhooks ---

std::vector<Job> SqlStore::due_webhooks(int limit, int64_t hold_ms) {
  return write(Channel::durable, [&](SqlConnection& c) {
    const int64_t t = now(c);
    auto jobs = read_jobs(c.run("SELECT " + kColumns + " FROM jobs WHERE webhook_due_ms > 0 AND webhook_due_ms <= $1 ORDER BY webhook_due_ms LIMIT $2" +
                                    driver_->lock_row_or_skip(), {t, int64_t{limit}}));
    for (Job& job : jobs) {
      job.webhook_due_ms = t + hold_ms, ++job.webhook_attempts;
      c.run("UPDATE jobs SET webhook_due_ms = $2, webhook_attempts = $3 WHERE id = $1", {job.id, job.webhook_due_ms, int64_t{job.webhook_attempts}});
    }
    return jobs;
  });
}

void SqlStore::settle_webhook(const std::string& id, bool done, int64_t retry_at_ms) {
  driver_->transaction(Channel::durable, [&](SqlConnection& c) {
    const int64_t due = done ? 0 : std::max(retry_at_ms, now(c) + 1);
    c.run("UPDATE jobs SET webhook_due_ms = $2 WHERE id = $1", {id, due});
  });
}

// --- changes ---

int64_t SqlStore::revision() {
  return read([&](SqlConnection& c) { return number(c.run("SELECT revision FROM store_revision")[0][0]); });
}

std::vector<Change> SqlStore::changes(int64_t revision, std::chrono::milliseconds timeout, int limit) {
  const auto until = std::chrono::steady_clock::now() + timeout;
  std::unique_lock lock(mutex_);
  if (!watcher_.joinable() && timeout.count() > 0) watcher_ = std::thread([this] { watch(); });
  const uint64_t woken = woken_;
  for (;;) {
    const uint64_t generation = generation_;
    lock.unlock();
    std::vector<Change> changes = read([&](SqlConnection& c) {
      std::vector<Change> found;
      for (const SqlRow& row : c.run("SELECT id, revision, 0 FROM jobs WHERE revision > $1 UNION ALL SELECT id, revision, 1 FROM deleted WHERE revision > $1 "
                                     "ORDER BY 2 LIMIT $2", {revision, int64_t{std::max(limit, 1)}}))
        found.push_back({row[0], number(row[1]), row[2] == "1"});
      return found;
    });
    if (!changes.empty()) return changes;
    lock.lock();
    const bool more = signal_.wait_until(lock, until, [&] { return generation_ != generation || woken_ != woken || stop_; });
    if (!more || woken_ != woken || stop_) return {};
  }
}

void SqlStore::signal() {
  {
    std::lock_guard lock(mutex_);
    ++generation_;
  }
  signal_.notify_all();
}

void SqlStore::wake() {
  {
    std::lock_guard lock(mutex_);
    ++woken_;
  }
  signal_.notify_all();
}

void SqlStore::watch() {
  using namespace std::chrono_literals;
  std::unique_lock lock(mutex_);
  while (!stop_) {
    lock.unlock();
    bool failed = false, changed = false;
    try {
      changed = driver_->wait_for_others(200ms);
    } catch (const std::exception&) {   // the calls that need the store report it; here it is tried again
      failed = true;
    }
    if (changed) signal();
    lock.lock();
    if (failed) signal_.wait_for(lock, 500ms, [&] { return stop_; });
  }
}

// --- the rest ---

std::vector<std::string> SqlStore::check() {
  std::vector<std::string> wrong = driver_->check();
  const std::pair<const char*, const char*> rules[] = {
      {"status = 'in_progress' AND (token = 0 OR lease_ms <= 0 OR heartbeat_ms = 0)", "runs without a lease"},
      {"status IN ('completed', 'failed', 'cancelled') AND ended_ms = 0", "has ended at no time"},
      {"status IN ('queued', 'in_progress') AND (ended_ms <> 0 OR result <> '' OR error_code <> '')", "has an end before its end"},
      {"status = 'completed' AND (result = '' OR percent <> 100)", "is completed without a result"},
      {"status = 'failed' AND error_code = ''", "failed without a reason"},
      {"revision > (SELECT revision FROM store_revision)", "was changed in the future"},
      {"revision IN (SELECT revision FROM jobs GROUP BY revision HAVING count(*) > 1)", "shares its revision with another job"},
      {"id IN (SELECT id FROM deleted)", "is there and deleted"},
      {"webhook_due_ms > 0 AND (webhook = '' OR ended_ms = 0)", "owes a webhook that it cannot"},
  };
  for (const auto& [condition, what] : rules) {
    const auto rows = read([&rule = condition](SqlConnection& c) { return c.run(std::string("SELECT id FROM jobs WHERE ") + rule + " LIMIT 20"); });
    for (const SqlRow& row : rows) wrong.push_back("job " + row[0] + " " + what);
  }
  return wrong;
}

int64_t SqlStore::now_ms() {
  if (options_.now_ms) return options_.now_ms();
  return read([&](SqlConnection& c) { return driver_->now_ms(c); });
}

}  // namespace

std::unique_ptr<JobStore> make_sql_store(std::unique_ptr<SqlDriver> driver, const StoreOptions& options) {
  return std::make_unique<SqlStore>(std::move(driver), options);
}

}  // namespace zt

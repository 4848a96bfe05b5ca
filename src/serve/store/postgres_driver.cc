// PostgreSQL through libpq: a connection a channel, one that listens. Broken connections are opened again.
// https://www.postgresql.org/docs/15/libpq.html, https://www.postgresql.org/docs/15/sql-notify.html
#include <libpq-fe.h>
#include <poll.h>

#include <charconv>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "base/error.h"
#include "serve/store/sql.h"

namespace zt {

namespace {

constexpr const char* kNotification = "zoetrope_jobs";
constexpr int kTries = 5;

using Result = std::unique_ptr<PGresult, decltype(&PQclear)>;

struct Retry {   // the transaction was undone by the server and may be run again
  std::string message;
};
struct ConnectionLost {
  std::string message;
};

// Without the password that a URI may hold.
std::string shown(const std::string& uri) {
  const size_t start = uri.find("://"), at = uri.find('@');
  if (start == std::string::npos || at == std::string::npos) return uri.substr(0, uri.find('?'));
  return uri.substr(0, start + 3) + "..." + uri.substr(at, uri.find('?', at) - at);
}

std::string trimmed(const char* message) {
  std::string text = message ? message : "";
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

class PostgresConnection : public SqlConnection {
 public:
  PostgresConnection(const std::string& uri, bool casual, int timeout_ms) : uri_(uri), casual_(casual), timeout_ms_(timeout_ms) {}
  ~PostgresConnection() override { close(); }
  PostgresConnection(const PostgresConnection&) = delete;
  PostgresConnection& operator=(const PostgresConnection&) = delete;

  std::vector<SqlRow> run(const std::string& sql, const std::vector<SqlValue>& values = {}) override {
    open();
    auto it = statements_.find(sql);
    if (it == statements_.end()) {
      const std::string name = "s" + std::to_string(statements_.size());
      judge(Result(PQprepare(connection_, name.c_str(), sql.c_str(), 0, nullptr), PQclear));
      it = statements_.emplace(sql, name).first;
    }
    std::vector<std::string> texts;
    std::vector<const char*> pointers;
    for (const SqlValue& v : values) texts.push_back(std::holds_alternative<int64_t>(v) ? std::to_string(std::get<int64_t>(v)) : std::get<std::string>(v));
    for (const std::string& t : texts) pointers.push_back(t.c_str());
    const int n = count_parameters(sql, static_cast<int>(values.size()));
    return rows(judge(Result(PQexecPrepared(connection_, it->second.c_str(), n, pointers.data(), nullptr, nullptr, 0), PQclear)));
  }

  // A statement that is run as it stands, unprepared (BEGIN, LISTEN).
  void command(const char* sql) {
    open();
    judge(Result(PQexec(connection_, sql), PQclear));
  }

  void close() {
    if (connection_) PQfinish(connection_);
    connection_ = nullptr;
    statements_.clear();
  }

  bool is_open() const { return connection_ != nullptr; }
  PGconn* raw() { return connection_; }

 private:
  static int count_parameters(const std::string& sql, int given) {   // PostgreSQL takes no more than the statement names
    while (given > 0 && sql.find("$" + std::to_string(given)) == std::string::npos) --given;
    return given;
  }

  void open() {
    if (connection_) return;
    connection_ = PQconnectdb(uri_.c_str());
    if (PQstatus(connection_) != CONNECTION_OK) {
      const std::string message = trimmed(PQerrorMessage(connection_));
      close();
      throw ConnectionLost{message};
    }
    PQsetNoticeProcessor(connection_, [](void*, const char*) {}, nullptr);
    // A store that stalls must not hang its callers.
    judge(Result(PQexec(connection_, fmt::format("SET statement_timeout = {}; SET lock_timeout = {}; SET synchronous_commit = {}; SET client_encoding = 'UTF8'",
                                                 2 * timeout_ms_, timeout_ms_, casual_ ? "off" : "on").c_str()), PQclear));
  }

  Result judge(Result result) {
    const ExecStatusType status = PQresultStatus(result.get());
    if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK) return result;
    const char* state = PQresultErrorField(result.get(), PG_DIAG_SQLSTATE);
    const std::string code = state ? state : "";
    const std::string message = trimmed(result ? PQresultErrorMessage(result.get()) : PQerrorMessage(connection_));
    // 57P01 to 57P03: the server is being shut down, crashed, or is starting
    if (PQstatus(connection_) != CONNECTION_OK || code.starts_with("57P")) {
      close();
      throw ConnectionLost{message};
    }
    if (code == "40001" || code == "40P01") throw Retry{message};
    const char* remedy = code == "53100" ? "free space on its disk" : code.starts_with("42501") ? "give its user the rights on the tables" : "see the message";
    fail(ErrorKind::resource, "store {}: {} (SQLSTATE {}); {}", shown(uri_), message, code, remedy);
  }

  static std::vector<SqlRow> rows(const Result& result) {
    std::vector<SqlRow> out(static_cast<size_t>(PQntuples(result.get())));
    for (size_t r = 0; r < out.size(); ++r)
      for (int i = 0; i < PQnfields(result.get()); ++i)
        out[r].emplace_back(PQgetvalue(result.get(), static_cast<int>(r), i), static_cast<size_t>(PQgetlength(result.get(), static_cast<int>(r), i)));
    return out;
  }

  std::string uri_;
  bool casual_;
  int timeout_ms_;
  PGconn* connection_ = nullptr;
  std::unordered_map<std::string, std::string> statements_;   // SQL -> prepared name
};

class PostgresDriver : public SqlDriver {
 public:
  PostgresDriver(const std::string& uri, const StoreOptions& options)
      : uri_(uri), channels_{{uri, false, options.busy_timeout_ms}, {uri, false, options.busy_timeout_ms}, {uri, true, options.busy_timeout_ms}},
        listener_(uri, true, options.busy_timeout_ms) {}

  void transaction(Channel channel, const std::function<void(SqlConnection&)>& body) override {
    const auto at = static_cast<size_t>(channel);
    std::lock_guard lock(mutexes_[at]);
    PostgresConnection& c = channels_[at];
    std::string last;
    for (int t = 0; t < kTries; ++t) {
      if (t) std::this_thread::sleep_for(std::chrono::milliseconds(20 << t));
      bool committing = false;
      try {
        c.command(channel == Channel::read ? "BEGIN READ ONLY" : "BEGIN");
        body(c);
        committing = channel != Channel::read;
        c.command("COMMIT");
        return;
      } catch (const Retry& e) {
        last = e.message;
        roll_back(c);
      } catch (const ConnectionLost& e) {
        last = e.message;
        // Whether it was committed is not known; the caller's own repetition must find out.
        if (committing) fail(ErrorKind::resource, "store {}: the connection broke during a commit: {}; try again", shown(uri_), last);
      } catch (...) {
        roll_back(c);
        throw;
      }
    }
    fail(ErrorKind::resource, "store {}: {}; is the server running and reachable?", shown(uri_), last);
  }

  std::string lock_row() const override { return " FOR UPDATE"; }
  std::string lock_row_or_skip() const override { return " FOR UPDATE SKIP LOCKED"; }

  void lock_schema(SqlConnection& c) override { c.run("SELECT pg_advisory_xact_lock(7956001)"); }   // any number that no one else locks
  int64_t now_ms(SqlConnection& c) override {   // one clock for all machines
    const std::string text = c.run("SELECT CAST(floor(extract(epoch FROM clock_timestamp()) * 1000) AS BIGINT)")[0][0];
    int64_t value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value);
    return value;
  }

  void announce(SqlConnection& c) override { c.run(std::string("NOTIFY ") + kNotification); }

  bool wait_for_others(std::chrono::milliseconds timeout) override {
    try {
      const bool fresh = !listener_.is_open();
      if (fresh) listener_.command((std::string("LISTEN ") + kNotification).c_str());
      pollfd p{PQsocket(listener_.raw()), POLLIN, 0};
      poll(&p, 1, static_cast<int>(timeout.count()));
      if (PQconsumeInput(listener_.raw()) == 0) throw ConnectionLost{};
      bool any = fresh;   // what happened before it listened is not told
      while (PGnotify* n = PQnotifies(listener_.raw())) any = true, PQfreemem(n);
      return any;
    } catch (const ConnectionLost& e) {
      listener_.close();
      fail(ErrorKind::resource, "store {}: {}", shown(uri_), e.message);
    }
  }

  std::vector<std::string> check() override { return {}; }

 private:
  static void roll_back(PostgresConnection& c) noexcept {
    try {
      if (c.is_open()) c.command("ROLLBACK");
    } catch (...) {   // without its connection it is rolled back all the same
      c.close();
    }
  }

  std::string uri_;
  std::mutex mutexes_[3];
  PostgresConnection channels_[3];   // by Channel
  PostgresConnection listener_;      // of the thread that waits
};

}  // namespace

std::unique_ptr<SqlDriver> open_postgres(const std::string& uri, const StoreOptions& options) { return std::make_unique<PostgresDriver>(uri, options); }

}  // namespace zt

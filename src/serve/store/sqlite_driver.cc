// SQLite: one file in WAL mode and three connections on it, one a channel. A write-ahead log lets readers see the last commit while a
// writer waits for the disk. https://sqlite.org/wal.html, https://sqlite.org/pragma.html#pragma_synchronous
#include <sqlite3.h>

#include <mutex>
#include <thread>
#include <unordered_map>

#include "base/error.h"
#include "serve/store/sql.h"

namespace zt {

namespace {

[[noreturn]] void fail_sqlite(const std::string& path, int code, const char* message) {
  const char* remedy = "see the message";
  switch (code & 0xff) {
    case SQLITE_FULL: remedy = "free space on its disk"; break;
    case SQLITE_READONLY: remedy = "make its folder and file writable"; break;
    case SQLITE_CANTOPEN: remedy = "its folder must exist and be writable"; break;
    case SQLITE_BUSY:
    case SQLITE_LOCKED: remedy = "another process holds it; try again"; break;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB: remedy = "the file is damaged; restore it from a backup"; break;
    case SQLITE_IOERR: remedy = "its disk fails or is full"; break;
    default: break;
  }
  fail(ErrorKind::resource, "store sqlite:{}: {} (SQLite {}); {}", path, message, code, remedy);
}

class SqliteConnection : public SqlConnection {
 public:
  SqliteConnection(const std::string& path, const char* synchronous, int busy_timeout_ms) : path_(path) {
    const int code = sqlite3_open_v2(path.c_str(), &db_, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nullptr);
    try {
      if (code != SQLITE_OK) fail_sqlite(path_, code, db_ ? sqlite3_errmsg(db_) : "no memory");
      sqlite3_extended_result_codes(db_, 1);
      sqlite3_busy_timeout(db_, busy_timeout_ms);
      if (const auto rows = run("PRAGMA journal_mode = WAL"); rows.empty() || rows[0][0] != "wal")
        fail(ErrorKind::resource, "store sqlite:{}: its file system allows no write-ahead log; put it on a local disk", path_);
      run(std::string("PRAGMA synchronous = ") + synchronous);
      run("PRAGMA journal_size_limit = 67108864");
    } catch (...) {
      close();
      throw;
    }
  }
  ~SqliteConnection() override { close(); }
  SqliteConnection(const SqliteConnection&) = delete;
  SqliteConnection& operator=(const SqliteConnection&) = delete;

  std::vector<SqlRow> run(const std::string& sql, const std::vector<SqlValue>& values = {}) override {
    sqlite3_stmt* s = statement(sql);
    struct Reset {
      sqlite3_stmt* s;
      ~Reset() { sqlite3_reset(s), sqlite3_clear_bindings(s); }
    } reset{s};
    bind(s, values);
    std::vector<SqlRow> rows;
    int code;
    while ((code = sqlite3_step(s)) == SQLITE_ROW) {
      SqlRow& row = rows.emplace_back();
      for (int i = 0; i < sqlite3_column_count(s); ++i) {
        const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(s, i));
        row.emplace_back(text ? text : "", static_cast<size_t>(sqlite3_column_bytes(s, i)));
      }
    }
    if (code != SQLITE_DONE) fail_sqlite(path_, code, sqlite3_errmsg(db_));
    return rows;
  }

  bool in_transaction() const { return sqlite3_get_autocommit(db_) == 0; }

 private:
  sqlite3_stmt* statement(const std::string& sql) {
    auto it = statements_.find(sql);
    if (it != statements_.end()) return it->second;
    sqlite3_stmt* s = nullptr;
    const int code = sqlite3_prepare_v3(db_, sql.c_str(), static_cast<int>(sql.size()), SQLITE_PREPARE_PERSISTENT, &s, nullptr);
    if (code != SQLITE_OK) fail_sqlite(path_, code, sqlite3_errmsg(db_));
    return statements_.emplace(sql, s).first->second;
  }

  void bind(sqlite3_stmt* s, const std::vector<SqlValue>& values) {
    for (size_t i = 0; i < values.size(); ++i) {
      // "$2" is a name to SQLite, numbered by first appearance
      const int at = sqlite3_bind_parameter_index(s, fmt::format("${}", i + 1).c_str());
      if (at == 0) continue;
      int code;
      if (const auto* number = std::get_if<int64_t>(&values[i])) {
        code = sqlite3_bind_int64(s, at, *number);
      } else {
        const std::string& text = std::get<std::string>(values[i]);
        code = sqlite3_bind_text64(s, at, text.data(), text.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
      }
      if (code != SQLITE_OK) fail_sqlite(path_, code, sqlite3_errmsg(db_));
    }
  }

  void close() {
    for (auto& [sql, s] : statements_) sqlite3_finalize(s);
    statements_.clear();
    sqlite3_close(db_);
    db_ = nullptr;
  }

  std::string path_;
  sqlite3* db_ = nullptr;
  std::unordered_map<std::string, sqlite3_stmt*> statements_;
};

class SqliteDriver : public SqlDriver {
 public:
  SqliteDriver(const std::string& path, const StoreOptions& options)
      : path_(path), durable_(path, "FULL", options.busy_timeout_ms), casual_(path, "NORMAL", options.busy_timeout_ms),
        read_(path, "NORMAL", options.busy_timeout_ms), watch_(path, "NORMAL", options.busy_timeout_ms) {}

  void transaction(Channel channel, const std::function<void(SqlConnection&)>& body) override {
    std::lock_guard lock(channel == Channel::read ? read_mutex_ : write_mutex_);
    SqliteConnection& c = channel == Channel::read ? read_ : channel == Channel::durable ? durable_ : casual_;
    c.run(channel == Channel::read ? "BEGIN" : "BEGIN IMMEDIATE");
    try {
      body(c);
      c.run("COMMIT");
    } catch (...) {
      roll_back(c);
      throw;
    }
  }

  std::string lock_row() const override { return ""; }   // BEGIN IMMEDIATE locks the whole store
  std::string lock_row_or_skip() const override { return ""; }
  void lock_schema(SqlConnection&) override {}
  int64_t now_ms(SqlConnection&) override {
    return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  }
  void announce(SqlConnection&) override {}

  // The number changes when another connection has committed; reading it touches the log's index in shared memory only.
  bool wait_for_others(std::chrono::milliseconds timeout) override {
    const auto end = std::chrono::steady_clock::now() + timeout;
    for (;;) {
      const std::string version = watch_.run("PRAGMA data_version")[0][0];
      if (version != seen_) {
        seen_ = version;
        return true;
      }
      const auto now = std::chrono::steady_clock::now();
      if (now >= end) return false;
      std::this_thread::sleep_for(std::min<std::chrono::steady_clock::duration>(end - now, std::chrono::milliseconds(100)));
    }
  }

  std::vector<std::string> check() override {
    std::vector<std::string> wrong;
    std::lock_guard lock(read_mutex_);
    for (const SqlRow& row : read_.run("PRAGMA integrity_check(20)"))
      if (row[0] != "ok") wrong.push_back("sqlite: " + row[0]);
    return wrong;
  }

 private:
  static void roll_back(SqliteConnection& c) noexcept {
    try {
      if (c.in_transaction()) c.run("ROLLBACK");
    } catch (const Error&) {   // the first error is the one to tell
    }
  }

  std::string path_;
  std::mutex write_mutex_, read_mutex_;   // of durable_ and casual_; of read_
  SqliteConnection durable_, casual_, read_;
  SqliteConnection watch_;                // of the thread that waits
  std::string seen_;
};

}  // namespace

std::unique_ptr<SqlDriver> open_sqlite(const std::string& path, const StoreOptions& options) { return std::make_unique<SqliteDriver>(path, options); }

}  // namespace zt

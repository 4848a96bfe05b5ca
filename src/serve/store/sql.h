#pragma once
// What the job store needs of a database: short transactions of prepared statements with $1, $2 ... as parameters. The SQL of sql_store.cc
// is the part that SQLite 3.35 and PostgreSQL 13 share; where they differ, the driver says so here.
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "serve/store/job_store.h"

namespace zt {

using SqlValue = std::variant<int64_t, std::string>;
using SqlRow = std::vector<std::string>;      // cells as text; no statement selects a NULL

class SqlConnection {
 public:
  virtual ~SqlConnection() = default;
  // Errors (resource): what the database said.
  virtual std::vector<SqlRow> run(const std::string& sql, const std::vector<SqlValue>& values = {}) = 0;
};

// read: sees what was committed and waits for no writer. durable: survives the loss of power when committed. casual: may lose its last
// commits with the power, never with the process, and keeps the order.
enum class Channel { read, durable, casual };

class SqlDriver {
 public:
  virtual ~SqlDriver() = default;
  // Runs `body` in one transaction, again if the database undid it (deadlock, lost connection before the commit). An exception of `body`
  // rolls back. Safe from any thread.
  virtual void transaction(Channel channel, const std::function<void(SqlConnection&)>& body) = 0;
  virtual std::string lock_row() const = 0;               // suffix of a SELECT of jobs whose rows are then changed
  virtual std::string lock_row_or_skip() const = 0;
  virtual void lock_schema(SqlConnection& connection) = 0;   // to the end of the transaction: one process migrates at a time
  virtual int64_t now_ms(SqlConnection& connection) = 0;  // Unix ms
  // Within a transaction: other processes that wait are told when it commits.
  virtual void announce(SqlConnection& connection) = 0;
  // Waits until another process may have changed something, or the time is over; called by one thread.
  virtual bool wait_for_others(std::chrono::milliseconds timeout) = 0;
  // What the database itself finds wrong with its files; empty if nothing.
  virtual std::vector<std::string> check() = 0;
};

std::unique_ptr<SqlDriver> open_sqlite(const std::string& path, const StoreOptions& options);
std::unique_ptr<SqlDriver> open_postgres(const std::string& uri, const StoreOptions& options);

// Creates the tables or brings older ones up to date. Errors (resource): a schema of a later version.
void migrate(SqlDriver& driver);

std::unique_ptr<JobStore> make_sql_store(std::unique_ptr<SqlDriver> driver, const StoreOptions& options);

}  // namespace zt

// The tables, and how older ones become the present ones. A step, once released, is never changed: the next one is added.
#include <charconv>

#include "base/error.h"
#include "serve/store/sql.h"

namespace zt {

namespace {

using Step = std::vector<const char*>;

// Texts are never NULL and numbers neither: '' and 0 stand for "none", so that both databases compare alike.
const std::vector<Step>& steps() {
  static const std::vector<Step> all = {
      {
          // `revision` counts the changes of the whole store; a row's own revision is the one of its last change.
          "CREATE TABLE store_revision (revision BIGINT NOT NULL)",
          "INSERT INTO store_revision (revision) VALUES (0)",
          "CREATE TABLE jobs ("
          " seq BIGINT NOT NULL PRIMARY KEY,"      // revision at its creation: the order of the list
          " id TEXT NOT NULL UNIQUE,"
          " owner TEXT NOT NULL, options TEXT NOT NULL, request TEXT NOT NULL,"
          " idempotency_key TEXT NOT NULL, fingerprint TEXT NOT NULL, remixed_from TEXT NOT NULL, webhook TEXT NOT NULL,"
          " status TEXT NOT NULL CHECK (status IN ('queued', 'in_progress', 'completed', 'failed', 'cancelled')),"
          " priority BIGINT NOT NULL, deadline_ms BIGINT NOT NULL, retention_ms BIGINT NOT NULL,"
          " created_ms BIGINT NOT NULL, started_ms BIGINT NOT NULL, ended_ms BIGINT NOT NULL, expires_ms BIGINT NOT NULL,"
          " stage TEXT NOT NULL, done BIGINT NOT NULL, total BIGINT NOT NULL, percent BIGINT NOT NULL,"
          " cancel_requested BIGINT NOT NULL, error_code TEXT NOT NULL, error_message TEXT NOT NULL, result TEXT NOT NULL,"
          " worker TEXT NOT NULL, token BIGINT NOT NULL, heartbeat_ms BIGINT NOT NULL, lease_ms BIGINT NOT NULL, attempt BIGINT NOT NULL,"
          " checkpoint TEXT NOT NULL, checkpoint_step BIGINT NOT NULL,"
          " webhook_attempts BIGINT NOT NULL, webhook_due_ms BIGINT NOT NULL,"
          " revision BIGINT NOT NULL)",
          "CREATE UNIQUE INDEX jobs_idempotency ON jobs (owner, idempotency_key) WHERE idempotency_key <> ''",
          "CREATE INDEX jobs_status ON jobs (status, owner)",
          "CREATE INDEX jobs_owner ON jobs (owner, seq)",
          "CREATE INDEX jobs_revision ON jobs (revision)",
          "CREATE INDEX jobs_webhook ON jobs (webhook_due_ms) WHERE webhook_due_ms > 0",
          "CREATE INDEX jobs_expires ON jobs (expires_ms) WHERE expires_ms > 0",
          "CREATE TABLE owners (owner TEXT NOT NULL PRIMARY KEY, served BIGINT NOT NULL)",   // revision of the last claim of a job of his
          "CREATE TABLE deleted (id TEXT NOT NULL PRIMARY KEY, revision BIGINT NOT NULL, deleted_ms BIGINT NOT NULL)",
          "CREATE INDEX deleted_revision ON deleted (revision)",
      },
      {
          "CREATE TABLE votes (owner TEXT NOT NULL, a TEXT NOT NULL, b TEXT NOT NULL, choice TEXT NOT NULL, voted_ms BIGINT NOT NULL)",
          "CREATE INDEX votes_pair ON votes (a, b)",
      },
      {
          "ALTER TABLE jobs ADD COLUMN error_param TEXT NOT NULL DEFAULT ''",
      },
  };
  return all;
}

}  // namespace

void migrate(SqlDriver& driver) {
  driver.transaction(Channel::durable, [&](SqlConnection& c) {
    driver.lock_schema(c);
    c.run("CREATE TABLE IF NOT EXISTS schema_version (version BIGINT NOT NULL)");
    const std::vector<SqlRow> rows = c.run("SELECT version FROM schema_version");
    int64_t version = 0;
    if (rows.empty())
      c.run("INSERT INTO schema_version (version) VALUES (0)");
    else
      std::from_chars(rows[0][0].data(), rows[0][0].data() + rows[0][0].size(), version);
    const int64_t newest = static_cast<int64_t>(steps().size());
    if (version > newest)
      fail(ErrorKind::resource, "the store has schema version {}, this program knows up to {}; use the program that wrote it, or a later one", version, newest);
    if (version == newest) return;
    for (; version < newest; ++version)
      for (const char* sql : steps()[static_cast<size_t>(version)]) c.run(sql);
    c.run("UPDATE schema_version SET version = $1", {newest});
  });
}

}  // namespace zt

#pragma once
// For tests: a fresh store, of SQLite in a temporary folder or in a database of its own in a PostgreSQL server that runs as long as the
// test program. The server runs as the user of the test; for root, which PostgreSQL refuses, as nobody.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/error.h"

namespace zt {

enum class StoreKind { sqlite, postgres };

inline std::string postgres_programs() {   // Debian keeps them apart by version
  std::error_code ec;
  for (const auto& e : std::filesystem::directory_iterator("/usr/lib/postgresql", ec))
    if (std::filesystem::exists(e.path() / "bin/initdb")) return (e.path() / "bin").string();
  return "";
}

inline bool postgres_installed() { return !postgres_programs().empty(); }

class PostgresServer {
 public:
  PostgresServer() {
    char name[] = "/tmp/zt_pg_XXXXXX";
    folder_ = mkdtemp(name);
    if (geteuid() == 0 && std::system(("chown nobody " + folder_).c_str()) != 0) fail(ErrorKind::internal, "chown nobody {}", folder_);
    const std::string bin = postgres_programs(), log = folder_ + "/log";
    const std::string as = geteuid() == 0 ? "setpriv --reuid=nobody --clear-groups " : "";
    if (std::system((as + bin + "/initdb -D " + folder_ + "/data -U zt -A trust --no-sync -E UTF8 --locale=C > /dev/null 2>&1").c_str()) != 0)
      fail(ErrorKind::internal, "initdb failed in {}", folder_);
    pid_ = fork();
    if (pid_ == 0) {
      if (chdir("/") != 0) _exit(1);
      const std::string run = fmt::format("exec {}{}/postgres -D {}/data -k {} -c listen_addresses= -c fsync=off > {} 2>&1", as, bin, folder_, folder_, log);
      execl("/bin/sh", "sh", "-c", run.c_str(), static_cast<char*>(nullptr));
      _exit(127);
    }
    const std::string ready = bin + "/pg_isready -q -h " + folder_;
    for (int i = 0; i < 200 && std::system(ready.c_str()) != 0; ++i) usleep(50'000);
    bin_ = bin;
  }
  ~PostgresServer() {
    if (pid_ > 0) kill(pid_, SIGQUIT), waitpid(pid_, nullptr, 0);
    std::error_code ec;
    std::filesystem::remove_all(folder_, ec);
  }
  // A new database, as a libpq URI.
  std::string create() {
    const std::string name = "db" + std::to_string(++count_);
    if (std::system((bin_ + "/createdb -h " + folder_ + " -U zt " + name).c_str()) != 0) fail(ErrorKind::internal, "createdb {}", name);
    return "postgresql:///" + name + "?host=" + folder_ + "&user=zt";
  }

 private:
  std::string folder_, bin_;
  pid_t pid_ = -1;
  int count_ = 0;
};

class StorePlace {
 public:
  explicit StorePlace(StoreKind kind) {
    char name[] = "/tmp/zt_store_XXXXXX";
    folder_ = mkdtemp(name);
    if (kind == StoreKind::sqlite) {
      url_ = "sqlite:" + folder_ + "/jobs.db";
    } else {
      static PostgresServer server;
      url_ = server.create();
    }
  }
  ~StorePlace() {
    std::error_code ec;
    std::filesystem::remove_all(folder_, ec);
  }
  const std::string& url() const { return url_; }
  const std::string& folder() const { return folder_; }

 private:
  std::string folder_, url_;
};

}  // namespace zt

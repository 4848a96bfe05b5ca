#pragma once
// API keys: only their SHA-256 is kept, in a file of the operator's.
#include <array>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace zt::http {

enum Scope : unsigned { kNone = 0, kRead = 1, kCreate = 2, kDelete = 4, kMetrics = 8 };

struct Key {
  std::string id;
  std::array<uint8_t, 32> hash{};
  unsigned scopes = kRead | kCreate | kDelete;
  double per_minute = 600;        // requests; as many may come at once
  int64_t max_queued = 0;         // jobs waiting; 0 = the server's own limit alone
  bool lenient = false;           // unknown fields warn
};

class Keys {
 public:
  Keys() = default;
  // {"keys": [{"id", "sha256", "scopes"?: ["read", "create", "delete", "metrics"], "per_minute"?, "max_queued"?, "lenient"?}]}
  // Errors (kind request): unreadable, an unknown key, a hash that is none, an id twice.
  explicit Keys(const std::string& path);
  bool empty() const { return keys_.empty(); }
  // The key of a presented secret, or null. Takes the same time for every secret of a length.
  const Key* identify(const std::string& secret) const;
  const Key* find(const std::string& id) const;
  // Counts one request; seconds until it may come again, 0 if now. Any thread.
  double take(const Key& key);

 private:
  struct Bucket {
    double tokens = 0;
    std::chrono::steady_clock::time_point filled{};
  };
  std::vector<Key> keys_;
  std::unique_ptr<std::mutex> mutex_ = std::make_unique<std::mutex>();
  std::vector<Bucket> buckets_;
};

// A new secret ("zk_" and 64 hex digits of the system's randomness).
std::string new_secret();

}  // namespace zt::http

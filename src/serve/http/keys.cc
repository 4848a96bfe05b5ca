#include "serve/http/keys.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>

#include <algorithm>

#include "base/error.h"
#include "base/json.h"

namespace zt::http {

namespace {

unsigned scope_of(const std::string& name, const std::string& where) {
  if (name == "read") return kRead;
  if (name == "create") return kCreate;
  if (name == "delete") return kDelete;
  if (name == "metrics") return kMetrics;
  fail(ErrorKind::request, "{}: scope \"{}\"; wanted read, create, delete or metrics", where, name);
}

Key read_key(const JsonView& v) {
  Key k;
  for (const auto& [name, value] : v.json().items())
    if (name != "id" && name != "sha256" && name != "scopes" && name != "per_minute" && name != "max_queued" && name != "lenient")
      fail(ErrorKind::request, "{}: \"{}\" is no field of a key", v.origin(), name);
  k.id = v.text("id");
  if (k.id.empty() || k.id.size() > 64) fail(ErrorKind::request, "{}: an id has 1 to 64 bytes", v.origin());
  const std::string hex = v.text("sha256");
  if (hex.size() != 64 || hex.find_first_not_of("0123456789abcdef") != std::string::npos)
    fail(ErrorKind::request, "{}: \"sha256\" of key {} is not 64 lower-case hex digits; `zoetrope key` prints them", v.origin(), k.id);
  for (size_t i = 0; i < 32; ++i) k.hash[i] = static_cast<uint8_t>(std::stoi(hex.substr(2 * i, 2), nullptr, 16));
  if (v.has("scopes")) {
    k.scopes = kNone;
    for (const Json& s : v.at("scopes")) k.scopes |= scope_of(s.is_string() ? s.get<std::string>() : s.dump(), v.origin());
  }
  k.per_minute = v.number("per_minute", 1, 1e6, k.per_minute);
  k.max_queued = v.integer("max_queued", 0, 1'000'000, 0);
  k.lenient = v.boolean("lenient", false);
  return k;
}

}  // namespace

Keys::Keys(const std::string& path) {
  const Json file = read_json(path, 4 << 20);
  const Json& list = JsonView(file, path).at("keys");
  if (!list.is_array() || list.empty()) fail(ErrorKind::request, "{}: \"keys\" is no list of keys", path);
  for (size_t i = 0; i < list.size(); ++i) {
    Key k = read_key(JsonView(list[i], fmt::format("{}: keys[{}]", path, i)));
    if (find(k.id)) fail(ErrorKind::request, "{}: the id {} stands twice", path, k.id);
    keys_.push_back(std::move(k));
  }
  buckets_.resize(keys_.size());
}

const Key* Keys::identify(const std::string& secret) const {
  uint8_t hash[32];
  EVP_Digest(secret.data(), secret.size(), hash, nullptr, EVP_sha256(), nullptr);
  const Key* found = nullptr;
  for (const Key& k : keys_)   // all of them, always
    if (CRYPTO_memcmp(k.hash.data(), hash, sizeof hash) == 0) found = &k;
  return found;
}

const Key* Keys::find(const std::string& id) const {
  for (const Key& k : keys_)
    if (k.id == id) return &k;
  return nullptr;
}

double Keys::take(const Key& key) {
  const std::lock_guard lock(*mutex_);
  Bucket& b = buckets_[static_cast<size_t>(&key - keys_.data())];
  const auto now = std::chrono::steady_clock::now();
  const double rate = key.per_minute / 60;
  if (b.filled.time_since_epoch().count() == 0) b.tokens = key.per_minute;
  else b.tokens = std::min(key.per_minute, b.tokens + rate * std::chrono::duration<double>(now - b.filled).count());
  b.filled = now;
  if (b.tokens < 1) return (1 - b.tokens) / rate;
  b.tokens -= 1;
  return 0;
}

std::string new_secret() {
  uint8_t bytes[32];
  if (RAND_bytes(bytes, sizeof bytes) != 1) fail(ErrorKind::resource, "the system gives no randomness");
  std::string out = "zk_";
  for (uint8_t b : bytes) out += fmt::format("{:02x}", b);
  return out;
}

}  // namespace zt::http

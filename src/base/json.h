#pragma once
// JSON of configuration files: parsed with limits, read with messages that name file, key, what was found and wanted.
#include <nlohmann/json.hpp>

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace zt {

using Json = nlohmann::json;

// Nesting deeper than 64 levels, more than 4 million values, invalid UTF-8 and a key twice in one object are refused: such files come
// from strangers. Time and memory are linear in the size. Errors (kind model): unreadable, larger than `max_bytes`, not JSON (line and
// column are named), one of the above.
Json read_json(const std::string& path, size_t max_bytes = size_t{64} << 20);
Json parse_json(std::string_view text, const std::string& origin);

// Typed access to one JSON object. `origin` is the file (and sub-object) that messages name.
class JsonView {
 public:
  JsonView(const Json& object, std::string origin);   // kind model error if it is no object
  bool has(const std::string& key) const;
  JsonView child(const std::string& key) const;
  int64_t integer(const std::string& key, int64_t low, int64_t high) const;
  int64_t integer(const std::string& key, int64_t low, int64_t high, int64_t fallback) const;
  double number(const std::string& key, double low, double high) const;
  double number(const std::string& key, double low, double high, double fallback) const;
  bool boolean(const std::string& key, bool fallback) const;
  std::string text(const std::string& key) const;
  std::string text(const std::string& key, const std::string& fallback) const;
  std::vector<int64_t> integers(const std::string& key, int64_t low, int64_t high) const;   // a list
  // A list of that many finite numbers, none below `low`.
  std::vector<float> floats(const std::string& key, size_t count, float low = std::numeric_limits<float>::lowest()) const;
  const Json& at(const std::string& key) const;      // kind model error if absent
  const std::string& origin() const { return origin_; }
  const Json& json() const { return *object_; }

 private:
  const Json* object_;
  std::string origin_;
};

}  // namespace zt

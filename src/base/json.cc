#include "base/json.h"

#include <cmath>

#include "base/error.h"
#include "base/mapped_file.h"

namespace zt {

namespace {

constexpr int kMaxDepth = 64;

std::string brief(const Json& v) {
  std::string s = v.dump(-1, ' ', false, Json::error_handler_t::replace);
  return s.size() > 60 ? s.substr(0, 57) + "..." : s;
}

}  // namespace

Json parse_json(std::string_view text, const std::string& origin) {
  bool deep = false;
  auto guard = [&](int depth, Json::parse_event_t, Json&) {
    if (depth > kMaxDepth) deep = true;
    return depth <= kMaxDepth;
  };
  try {
    // The depth is checked first without building anything: the parser below is recursive in its destructor only.
    int depth = 0;
    bool quoted = false;
    for (size_t i = 0; i < text.size(); ++i) {
      char c = text[i];
      if (quoted) {
        if (c == '\\') ++i;
        else if (c == '"') quoted = false;
      } else if (c == '"') {
        quoted = true;
      } else if (c == '{' || c == '[') {
        if (++depth > kMaxDepth) fail(ErrorKind::model, "{}: nested deeper than {} levels", origin, kMaxDepth);
      } else if (c == '}' || c == ']') {
        --depth;
      }
    }
    Json j = Json::parse(text.begin(), text.end(), guard);
    if (deep) fail(ErrorKind::model, "{}: nested deeper than {} levels", origin, kMaxDepth);
    return j;
  } catch (const nlohmann::json::exception& e) {
    std::string what = e.what();
    size_t cut = what.find("] ");
    fail(ErrorKind::model, "{}: not valid JSON: {}", origin, cut == std::string::npos ? what : what.substr(cut + 2));
  }
}

Json read_json(const std::string& path, size_t max_bytes) {
  MappedFile f(path);
  auto b = f.bytes();
  if (b.size() > max_bytes) fail(ErrorKind::model, "{}: {} bytes, more than the {} allowed for such a file", path, b.size(), max_bytes);
  return parse_json({reinterpret_cast<const char*>(b.data()), b.size()}, path);
}

JsonView::JsonView(const Json& object, std::string origin) : object_(&object), origin_(std::move(origin)) {
  if (!object.is_object()) fail(ErrorKind::model, "{}: found {}, wanted a JSON object", origin_, brief(object));
}

bool JsonView::has(const std::string& key) const {
  auto it = object_->find(key);
  return it != object_->end() && !it->is_null();
}

const Json& JsonView::at(const std::string& key) const {
  if (!has(key)) fail(ErrorKind::model, "{}: key \"{}\" is missing", origin_, key);
  return *object_->find(key);
}

JsonView JsonView::child(const std::string& key) const { return {at(key), origin_ + ": " + key}; }

int64_t JsonView::integer(const std::string& key, int64_t low, int64_t high) const {
  const Json& v = at(key);
  // 5000000.0 is an integer that somebody wrote with a point
  double d = v.is_number() ? v.get<double>() : NAN;
  if (!v.is_number() || !std::isfinite(d) || d != std::floor(d))
    fail(ErrorKind::model, "{}: \"{}\" is {}, wanted an integer from {} to {}", origin_, key, brief(v), low, high);
  if (d < static_cast<double>(low) || d > static_cast<double>(high))
    fail(ErrorKind::model, "{}: \"{}\" is {}, wanted from {} to {}", origin_, key, brief(v), low, high);
  return v.is_number_integer() ? v.get<int64_t>() : static_cast<int64_t>(d);
}

int64_t JsonView::integer(const std::string& key, int64_t low, int64_t high, int64_t fallback) const {
  return has(key) ? integer(key, low, high) : fallback;
}

double JsonView::number(const std::string& key, double low, double high) const {
  const Json& v = at(key);
  double d = v.is_number() ? v.get<double>() : NAN;
  if (!(d >= low && d <= high)) fail(ErrorKind::model, "{}: \"{}\" is {}, wanted a number from {} to {}", origin_, key, brief(v), low, high);
  return d;
}

double JsonView::number(const std::string& key, double low, double high, double fallback) const {
  return has(key) ? number(key, low, high) : fallback;
}

bool JsonView::boolean(const std::string& key, bool fallback) const {
  if (!has(key)) return fallback;
  const Json& v = at(key);
  if (!v.is_boolean()) fail(ErrorKind::model, "{}: \"{}\" is {}, wanted true or false", origin_, key, brief(v));
  return v.get<bool>();
}

std::string JsonView::text(const std::string& key) const {
  const Json& v = at(key);
  if (!v.is_string()) fail(ErrorKind::model, "{}: \"{}\" is {}, wanted a string", origin_, key, brief(v));
  return v.get<std::string>();
}

std::string JsonView::text(const std::string& key, const std::string& fallback) const { return has(key) ? text(key) : fallback; }

std::vector<int64_t> JsonView::integers(const std::string& key, int64_t low, int64_t high) const {
  const Json& v = at(key);
  if (!v.is_array()) fail(ErrorKind::model, "{}: \"{}\" is {}, wanted a list of integers", origin_, key, brief(v));
  std::vector<int64_t> out;
  for (const Json& x : v) {
    if (!x.is_number_integer() || x.get<int64_t>() < low || x.get<int64_t>() > high)
      fail(ErrorKind::model, "{}: \"{}\" holds {}, wanted integers from {} to {}", origin_, key, brief(x), low, high);
    out.push_back(x.get<int64_t>());
  }
  return out;
}

std::vector<float> JsonView::floats(const std::string& key, size_t count, float low) const {
  const Json& v = at(key);
  if (!v.is_array() || v.size() != count)
    fail(ErrorKind::model, "{}: \"{}\" is {}, wanted a list of {} numbers", origin_, key, brief(v), count);
  std::vector<float> out;
  for (const Json& x : v) {
    if (!x.is_number() || !std::isfinite(x.get<float>()))
      fail(ErrorKind::model, "{}: \"{}\" holds {}, wanted finite numbers", origin_, key, brief(x));
    if (x.get<float>() < low) fail(ErrorKind::model, "{}: \"{}\" holds {}, wanted at least {}", origin_, key, brief(x), low);
    out.push_back(x.get<float>());
  }
  return out;
}

}  // namespace zt

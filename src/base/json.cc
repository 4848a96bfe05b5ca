#include "base/json.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>

#include "base/error.h"
#include "base/mapped_file.h"

namespace zt {

namespace {

constexpr size_t kMaxDepth = 64;
constexpr size_t kMaxValues = size_t{1} << 22;   // the largest tokenizer.json has half a million

std::string brief(const Json& v) {
  std::string s = v.dump(-1, ' ', false, Json::error_handler_t::replace);
  return s.size() > 60 ? s.substr(0, 57) + "..." : s;
}

// The value of an integer that fits; 5000000.0 is one that somebody wrote with a point.
std::optional<int64_t> exact_integer(const Json& v) {
  if (v.is_number_unsigned()) return v.get<uint64_t>() <= INT64_MAX ? std::optional(static_cast<int64_t>(v.get<uint64_t>())) : std::nullopt;
  if (v.is_number_integer()) return v.get<int64_t>();
  if (!v.is_number()) return std::nullopt;
  double d = v.get<double>();
  return d == std::floor(d) && std::abs(d) <= 0x1p53 ? std::optional(static_cast<int64_t>(d)) : std::nullopt;
}

// Builds the tree while reading. The library's own callback parser looks through all siblings at the end of every object, which makes a
// list of many objects quadratic, and lets the last of two equal keys win.
class TreeBuilder : public nlohmann::json_sax<Json> {
 public:
  explicit TreeBuilder(const std::string& origin) : origin_(origin) {}
  Json root;

  bool null() override { return put(nullptr), true; }
  bool boolean(bool v) override { return put(v), true; }
  bool number_integer(int64_t v) override { return put(v), true; }
  bool number_unsigned(uint64_t v) override { return put(v), true; }
  bool number_float(double v, const std::string&) override { return put(v), true; }
  bool string(std::string& v) override { return put(std::move(v)), true; }
  bool binary(Json::binary_t&) override { return false; }   // not in text
  bool start_object(size_t) override { return open(Json::object()); }
  bool start_array(size_t) override { return open(Json::array()); }
  bool end_object() override { return open_.pop_back(), true; }
  bool end_array() override { return open_.pop_back(), true; }
  bool key(std::string& k) override {
    auto [it, fresh] = open_.back()->get_ref<Json::object_t&>().try_emplace(std::move(k));
    if (!fresh) fail(ErrorKind::model, "{}: key {} stands twice in one object; keep one of them", origin_, brief(it->first));
    slot_ = &it->second;
    return true;
  }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception& e) override {
    std::string what = e.what();
    size_t cut = what.find("] ");
    if (cut != std::string::npos) what.erase(0, cut + 2);
    // The message quotes the input, which may be anything and of any length.
    if (what.size() > 240) what = what.substr(0, 120) + " ... " + what.substr(what.size() - 115);
    for (char& c : what)
      if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) > 0x7E) c = '?';
    fail(ErrorKind::model, "{}: not valid JSON: {}", origin_, what);
  }

 private:
  Json* put(Json value) {
    if (++values_ > kMaxValues) fail(ErrorKind::model, "{}: more than {} values, which no file of this kind has", origin_, kMaxValues);
    if (open_.empty()) return &(root = std::move(value));
    if (open_.back()->is_object()) return &(*slot_ = std::move(value));
    auto& list = open_.back()->get_ref<Json::array_t&>();
    list.push_back(std::move(value));
    return &list.back();
  }
  bool open(Json value) {
    if (open_.size() >= kMaxDepth) fail(ErrorKind::model, "{}: nested deeper than {} levels", origin_, kMaxDepth);
    open_.push_back(put(std::move(value)));
    return true;
  }

  const std::string& origin_;
  std::vector<Json*> open_;   // the containers around the place being read; a list that grows holds no open element
  Json* slot_ = nullptr;      // where the value of the last key goes
  size_t values_ = 0;
};

}  // namespace

Json parse_json(std::string_view text, const std::string& origin) {
  TreeBuilder tree(origin);
  Json::sax_parse(text.begin(), text.end(), &tree);   // ends with an exception or a whole tree
  return std::move(tree.root);
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
  auto n = exact_integer(v);
  if (!n || *n < low || *n > high) fail(ErrorKind::model, "{}: \"{}\" is {}, wanted an integer from {} to {}", origin_, key, brief(v), low, high);
  return *n;
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
    auto n = exact_integer(x);
    if (!n || *n < low || *n > high)
      fail(ErrorKind::model, "{}: \"{}\" holds {}, wanted integers from {} to {}", origin_, key, brief(x), low, high);
    out.push_back(*n);
  }
  return out;
}

std::vector<float> JsonView::floats(const std::string& key, size_t count, float low) const {
  const Json& v = at(key);
  if (!v.is_array() || v.size() != count)
    fail(ErrorKind::model, "{}: \"{}\" is {}, wanted a list of {} numbers", origin_, key, brief(v), count);
  std::vector<float> out;
  for (const Json& x : v) {
    if (!x.is_number() || !(std::abs(x.get<double>()) <= std::numeric_limits<float>::max()))
      fail(ErrorKind::model, "{}: \"{}\" holds {}, wanted finite numbers", origin_, key, brief(x));
    if (x.get<float>() < low) fail(ErrorKind::model, "{}: \"{}\" holds {}, wanted at least {}", origin_, key, brief(x), low);
    out.push_back(x.get<float>());
  }
  return out;
}

}  // namespace zt

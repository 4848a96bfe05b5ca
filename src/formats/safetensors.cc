#include "formats/safetensors.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>

#include "base/json.h"
#include "formats/shown.h"

namespace zt {

namespace {

constexpr uint64_t kMaxHeader = 100'000'000;  // the limit of the format's own library
constexpr int64_t kMaxDim = int64_t{1} << 40;
constexpr size_t kMaxRank = 8;

struct Entry {
  std::string name, dtype;
  std::vector<int64_t> shape;
  std::vector<int64_t> offsets;
  bool has_dtype = false, has_shape = false, has_offsets = false;
};

// Receives the header event by event: nothing is recursive, and a key that stands twice is seen.
class HeaderReader : public nlohmann::json_sax<Json> {
 public:
  HeaderReader(const std::string& origin) : origin_(origin) {}
  std::vector<Entry> entries;
  StringMap metadata;

  bool null() override { return odd("null"); }
  bool boolean(bool) override { return odd("a boolean"); }
  bool number_float(double, const std::string& s) override { return odd("the number " + s); }
  bool binary(binary_t&) override { return odd("binary data"); }
  bool number_integer(int64_t v) override { return odd("the number " + std::to_string(v)); }
  bool number_unsigned(uint64_t v) override {
    if (state_ != State::shape && state_ != State::offsets) return odd("the number " + std::to_string(v));
    if (v > static_cast<uint64_t>(INT64_MAX)) return odd("the number " + std::to_string(v));
    Entry& e = entries.back();
    auto& list = state_ == State::shape ? e.shape : e.offsets;
    list.push_back(static_cast<int64_t>(v));
    if (state_ == State::shape && list.size() > kMaxRank) fail(ErrorKind::model, "{}: more than {} dimensions", here(), kMaxRank);
    if (state_ == State::shape && v > static_cast<uint64_t>(kMaxDim)) fail(ErrorKind::model, "{}: dimension {} is too large", here(), v);
    if (state_ == State::offsets && list.size() > 2) fail(ErrorKind::model, "{}: data_offsets holds more than two numbers", here());
    return true;
  }
  bool string(std::string& s) override {
    if (state_ == State::metadata) {
      metadata[key_] = s;
    } else if (state_ == State::entry && key_ == "dtype") {
      entries.back().dtype = s, entries.back().has_dtype = true;
    } else {
      return odd("the string \"" + shown(s) + "\"");
    }
    return true;
  }
  bool start_object(size_t) override {
    if (state_ == State::start) {
      state_ = State::top;
    } else if (state_ == State::top) {
      state_ = key_ == "__metadata__" ? State::metadata : State::entry;
      if (state_ == State::entry) entries.push_back({}), entries.back().name = key_;
      keys_.clear();
    } else {
      return odd("an object");
    }
    return true;
  }
  bool key(std::string& k) override {
    auto& seen = state_ == State::top ? names_ : keys_;
    if (!seen.insert(k).second) fail(ErrorKind::model, "{}: \"{}\" stands twice", state_ == State::top ? origin_ : here(), shown(k));
    key_ = k;
    return true;
  }
  bool end_object() override {
    if (state_ == State::entry) complete(entries.back());
    state_ = state_ == State::top ? State::end : State::top;
    return true;
  }
  bool start_array(size_t) override {
    if (state_ == State::entry && key_ == "shape") {
      state_ = State::shape, entries.back().has_shape = true;
    } else if (state_ == State::entry && key_ == "data_offsets") {
      state_ = State::offsets, entries.back().has_offsets = true;
    } else {
      return odd("a list");
    }
    return true;
  }
  bool end_array() override {
    state_ = State::entry;
    return true;
  }
  bool parse_error(size_t at, const std::string&, const nlohmann::detail::exception& e) override {
    std::string what = e.what();
    size_t cut = what.rfind("syntax error");
    fail(ErrorKind::model, "{}: the header is not valid JSON at its byte {}: {}", origin_, at,
         shown(cut == std::string::npos ? what : what.substr(cut)));
  }

 private:
  enum class State { start, top, metadata, entry, shape, offsets, end };

  std::string here() const {
    if (state_ == State::metadata) return origin_ + ": __metadata__";
    return entries.empty() ? origin_ : origin_ + ": tensor " + shown(entries.back().name);
  }
  bool odd(const std::string& found) const {
    if (state_ == State::start) fail(ErrorKind::model, "{}: the header is {}, wanted a JSON object", origin_, found);
    if (state_ == State::top)
      fail(ErrorKind::model, "{}: \"{}\" is {}, wanted an object with dtype, shape and data_offsets", origin_, shown(key_), found);
    const char* wanted = state_ == State::metadata ? "a string" : key_ == "dtype" ? "a dtype name" : "a list of integers from 0";
    if (state_ == State::entry && key_ != "dtype" && key_ != "shape" && key_ != "data_offsets")
      wanted = "only dtype, shape and data_offsets";
    fail(ErrorKind::model, "{}: \"{}\" is or holds {}, wanted {}", here(), shown(key_), found, wanted);
  }
  void complete(const Entry& e) const {
    const char* missing = !e.has_dtype ? "dtype" : !e.has_shape ? "shape" : !e.has_offsets ? "data_offsets" : nullptr;
    if (missing) fail(ErrorKind::model, "{}: key \"{}\" is missing", here(), missing);
    if (e.offsets.size() != 2) fail(ErrorKind::model, "{}: data_offsets holds {} numbers, wanted 2", here(), e.offsets.size());
  }

  const std::string& origin_;
  State state_ = State::start;
  std::string key_;
  std::set<std::string> names_, keys_;
};

// Bytes that dtype and shape ask for; nothing if that overflows.
std::optional<int64_t> wanted_bytes(const Shape& shape, DType dtype) {
  int64_t n = dtype_bytes(dtype);
  for (int64_t d : shape)
    if (__builtin_mul_overflow(n, d, &n)) return std::nullopt;
  return n;
}

std::string_view header_text(std::span<const std::byte> bytes, const std::string& origin) {
  const char* text = reinterpret_cast<const char*>(bytes.data());
  if (std::string_view(text, std::min<size_t>(bytes.size(), 42)) == "version https://git-lfs.github.com/spec/v1")
    fail(ErrorKind::model, "{}: found a Git LFS pointer, wanted the file it stands for; run git lfs pull", origin);
  if (bytes.size() < 8)
    fail(ErrorKind::model, "{}: found {} bytes, wanted at least the 8 of the header length; the file is truncated", origin, bytes.size());
  uint64_t n = 0;
  for (int i = 7; i >= 0; --i) n = n << 8 | static_cast<uint64_t>(bytes[static_cast<size_t>(i)]);
  if (n > kMaxHeader)
    fail(ErrorKind::model, "{}: the header claims {} bytes, more than the {} allowed; not a safetensors file", origin, n, kMaxHeader);
  if (n > bytes.size() - 8)
    fail(ErrorKind::model, "{}: the header claims {} bytes, but the file has {} after the length; the file is truncated", origin, n,
         bytes.size() - 8);
  std::string_view header(text + 8, n);
  if (header.empty() || header[0] != '{') fail(ErrorKind::model, "{}: the header does not begin with {{; not a safetensors file", origin);
  return header;
}

// The bytes must be wholly used, each once.
void check_cover(std::vector<Entry>& entries, int64_t data_bytes, const std::string& origin) {
  std::vector<const Entry*> order;
  for (const Entry& e : entries) order.push_back(&e);
  std::stable_sort(order.begin(), order.end(), [](const Entry* a, const Entry* b) { return a->offsets < b->offsets; });
  int64_t at = 0;
  const Entry* before = nullptr;
  for (const Entry* e : order) {
    int64_t begin = e->offsets[0];
    if (begin < at)
      fail(ErrorKind::model, "{}: tensor {} starts at byte {} inside tensor {}, which ends at {}", origin, shown(e->name), begin,
           shown(before->name), at);
    if (begin > at)
      fail(ErrorKind::model, "{}: tensor {} starts at byte {}, wanted {}: {} bytes before it belong to no tensor", origin, shown(e->name),
           begin, at, begin - at);
    at = e->offsets[1];
    before = e;
  }
  if (at != data_bytes)
    fail(ErrorKind::model, "{}: found {} bytes of tensors, wanted {}: {} bytes at the end belong to no tensor", origin, data_bytes, at,
         data_bytes - at);
}

NamedView make_view(const Entry& e, const std::byte* data, int64_t data_bytes, const std::string& origin) {
  DType dtype;
  if (!dtype_from_name(e.dtype, dtype))
    fail(ErrorKind::model,
         "{}: tensor {}: found dtype {}, wanted one of F64, F32, BF16, F16, F8_E4M3, F8_E5M2, I64, I32, I16, I8, U8, BOOL", origin,
         shown(e.name), shown(e.dtype));
  int64_t begin = e.offsets[0], end = e.offsets[1];
  if (begin > end) fail(ErrorKind::model, "{}: tensor {}: data_offsets [{}, {}] run backwards", origin, shown(e.name), begin, end);
  auto wanted = wanted_bytes(e.shape, dtype);
  if (!wanted)
    fail(ErrorKind::model, "{}: tensor {}: shape {} has more elements than fit in memory", origin, shown(e.name), to_string(e.shape));
  if (*wanted != end - begin)
    fail(ErrorKind::model, "{}: tensor {}: data_offsets [{}, {}] hold {} bytes, wanted {} for {} {}", origin, shown(e.name), begin, end,
         end - begin, *wanted, e.dtype, to_string(e.shape));
  if (end > data_bytes)
    fail(ErrorKind::model, "{}: tensor {}: ends at byte {} of the data, but the file holds {}; the file is truncated by {} bytes or more",
         origin, shown(e.name), end, data_bytes, end - data_bytes);
  return {e.name, View{data + begin, dtype, e.shape}};
}

}  // namespace

SafetensorsHeader parse_safetensors(std::span<const std::byte> bytes, const std::string& origin) {
  std::string_view text = header_text(bytes, origin);
  HeaderReader reader(origin);
  Json::sax_parse(text.begin(), text.end(), &reader);
  const std::byte* data = bytes.data() + 8 + text.size();
  const int64_t data_bytes = static_cast<int64_t>(bytes.size() - 8 - text.size());
  SafetensorsHeader out;
  out.metadata = std::move(reader.metadata);
  for (const Entry& e : reader.entries) out.tensors.push_back(make_view(e, data, data_bytes, origin));
  check_cover(reader.entries, data_bytes, origin);
  return out;
}

SafetensorsFile::SafetensorsFile(const std::string& path) : file_(std::make_shared<MappedFile>(path)) {
  SafetensorsHeader h = parse_safetensors(file_->bytes(), path);
  tensors_ = std::move(h.tensors);
  metadata_ = std::move(h.metadata);
  for (size_t i = 0; i < tensors_.size(); ++i) index_[tensors_[i].name] = i;
}

const View* SafetensorsFile::find(std::string_view name) const {
  auto it = index_.find(std::string(name));
  return it == index_.end() ? nullptr : &tensors_[it->second].view;
}

int64_t SafetensorsFile::total_bytes() const {
  int64_t n = 0;
  for (const NamedView& t : tensors_) n += t.view.bytes();
  return n;
}

}  // namespace zt

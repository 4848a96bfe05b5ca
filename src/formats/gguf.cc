#include "formats/gguf.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "base/error.h"
#include "formats/shown.h"

namespace zt {

namespace {

constexpr uint64_t kMaxString = 1 << 20, kMaxTensors = 1 << 20, kMaxPairs = 1 << 20;
constexpr int64_t kMaxDim = int64_t{1} << 40;
constexpr uint32_t kMaxRank = 4;   // the format's own limit

struct Row { GgufType type; const char* name; int64_t values, bytes; };
constexpr Row kRows[] = {{GgufType::f32, "F32", 1, 4},       {GgufType::f16, "F16", 1, 2},       {GgufType::bf16, "BF16", 1, 2},
                         {GgufType::q4_0, "Q4_0", 32, 18},   {GgufType::q4_1, "Q4_1", 32, 20},   {GgufType::q5_0, "Q5_0", 32, 22},
                         {GgufType::q5_1, "Q5_1", 32, 24},   {GgufType::q8_0, "Q8_0", 32, 34},   {GgufType::q2_k, "Q2_K", 256, 84},
                         {GgufType::q3_k, "Q3_K", 256, 110}, {GgufType::q4_k, "Q4_K", 256, 144}, {GgufType::q5_k, "Q5_K", 256, 176},
                         {GgufType::q6_k, "Q6_K", 256, 210}};

const Row* find_row(uint32_t type) {
  for (const Row& r : kRows)
    if (static_cast<uint32_t>(r.type) == type) return &r;
  return nullptr;
}

const Row& row_of(GgufType type) {
  const Row* r = find_row(static_cast<uint32_t>(type));
  if (!r) fail(ErrorKind::internal, "GGUF type {} is not in the table", static_cast<uint32_t>(type));
  return *r;
}

// Reads little-endian values and never past the end.
class Reader {
 public:
  Reader(std::span<const std::byte> bytes, const std::string& origin) : bytes_(bytes), origin_(origin) {}
  template <class T>
  T get(const std::string& what) {
    need(sizeof(T), what);
    T v;
    std::memcpy(&v, bytes_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return v;
  }
  std::string text(const std::string& what) {
    const auto n = get<uint64_t>(what);
    if (n > kMaxString) fail(ErrorKind::model, "{}: {} claims {} bytes, wanted at most {}", origin_, what, n, kMaxString);
    need(n, what);
    std::string s(reinterpret_cast<const char*>(bytes_.data() + at_), n);
    at_ += n;
    return s;
  }
  void skip(uint64_t n, const std::string& what) { need(n, what), at_ += n; }
  size_t at() const { return at_; }

 private:
  void need(uint64_t n, const std::string& what) const {
    if (n > bytes_.size() - at_)
      fail(ErrorKind::model, "{}: {} wants {} bytes at byte {}, but the file has {}; the file is truncated", origin_, what, n, at_, bytes_.size());
  }
  std::span<const std::byte> bytes_;
  const std::string& origin_;
  size_t at_ = 0;
};

constexpr uint32_t kString = 8, kArray = 9;
// Bytes of a scalar metadata type; 0 if it is none.
uint64_t scalar_bytes(uint32_t type) {
  constexpr uint64_t bytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return type < std::size(bytes) ? bytes[type] : 0;
}

int64_t read_integer(Reader& r, uint32_t type, const std::string& what) {
  switch (type) {
    case 0: return r.get<uint8_t>(what);
    case 1: return r.get<int8_t>(what);
    case 2: return r.get<uint16_t>(what);
    case 3: return r.get<int16_t>(what);
    case 4: return r.get<uint32_t>(what);
    case 5: return r.get<int32_t>(what);
    case 10: return static_cast<int64_t>(std::min<uint64_t>(r.get<uint64_t>(what), INT64_MAX));
    default: return r.get<int64_t>(what);
  }
}

bool is_integer(uint32_t type) { return type <= 5 || type == 10 || type == 11; }

void read_pair(Reader& r, const std::string& origin, GgufHeader& out) {
  const std::string key = r.text("a metadata key"), what = "metadata " + shown(key);
  const auto type = r.get<uint32_t>(what);
  if (type == kString) {
    out.strings[key] = r.text(what);
  } else if (type == kArray) {
    const auto element = r.get<uint32_t>(what);
    const auto n = r.get<uint64_t>(what);
    if (element == kString) {
      for (uint64_t i = 0; i < n; ++i) r.text(what);   // every string takes bytes, so the file's end bounds the loop
    } else if (is_integer(element) && n <= 8) {
      for (uint64_t i = 0; i < n; ++i) out.integer_lists[key].push_back(read_integer(r, element, what));
    } else if (const uint64_t each = scalar_bytes(element); each && n < (uint64_t{1} << 56)) {
      r.skip(n * each, what);
    } else {
      fail(ErrorKind::model, "{}: {} is a list of {} values of type {}, wanted scalars or strings", origin, what, n, element);
    }
  } else if (is_integer(type)) {
    out.integer_lists[key] = {read_integer(r, type, what)};
  } else if (const uint64_t bytes = scalar_bytes(type)) {
    r.skip(bytes, what);
  } else {
    fail(ErrorKind::model, "{}: {} has type {}, wanted 0 to 12", origin, what, type);
  }
}

struct Placed { GgufTensor tensor; uint64_t offset; };

Placed read_tensor(Reader& r, const std::string& origin) {
  Placed p{{}, 0};
  GgufTensor& t = p.tensor;
  t.name = r.text("a tensor name");
  const std::string what = "tensor " + shown(t.name);
  const auto rank = r.get<uint32_t>(what);
  if (rank > kMaxRank) fail(ErrorKind::model, "{}: {} has {} dimensions, wanted at most {}", origin, what, rank, kMaxRank);
  int64_t count = 1;
  for (uint32_t i = 0; i < rank; ++i) {
    const auto d = r.get<uint64_t>(what);
    if (d > static_cast<uint64_t>(kMaxDim) || __builtin_mul_overflow(count, static_cast<int64_t>(d), &count))
      fail(ErrorKind::model, "{}: {}: dimension {} is too large", origin, what, d);
    t.shape.insert(t.shape.begin(), static_cast<int64_t>(d));
  }
  const auto type = r.get<uint32_t>(what);
  p.offset = r.get<uint64_t>(what);
  const Row* row = find_row(type);
  if (!row) fail(ErrorKind::model, "{}: {} has type {}; read are F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0 and Q2_K to Q6_K", origin, what, type);
  t.type = row->type;
  const int64_t inner = t.shape.empty() ? 1 : t.shape.back();
  if (inner % row->values)
    fail(ErrorKind::model, "{}: {}: rows of {} values are no whole blocks of {} ({})", origin, what, inner, row->values, row->name);
  if (__builtin_mul_overflow(count / row->values, row->bytes, &t.bytes)) fail(ErrorKind::model, "{}: {} is too large", origin, what);
  return p;
}

void place(std::vector<Placed>& placed, std::span<const std::byte> bytes, uint64_t data, uint64_t alignment, const std::string& origin) {
  std::vector<Placed*> order;
  const uint64_t left = bytes.size() - data;
  for (Placed& p : placed) {
    if (p.offset > left || static_cast<uint64_t>(p.tensor.bytes) > left - p.offset)
      fail(ErrorKind::model, "{}: tensor {} wants {} bytes at {} of the data, but the file holds {}; the file is truncated", origin, shown(p.tensor.name),
           p.tensor.bytes, p.offset, left);
    order.push_back(&p);
  }
  std::stable_sort(order.begin(), order.end(), [](const Placed* a, const Placed* b) { return a->offset < b->offset; });
  uint64_t end = 0;
  const Placed* before = nullptr;
  for (Placed* p : order) {
    const std::string name = shown(p->tensor.name);
    if (p->offset % alignment) fail(ErrorKind::model, "{}: tensor {} starts at byte {}, wanted a multiple of {}", origin, name, p->offset, alignment);
    if (p->offset < end)
      fail(ErrorKind::model, "{}: tensor {} starts at byte {} inside tensor {}, which ends at {}", origin, name, p->offset, shown(before->tensor.name), end);
    if (p->offset - end >= alignment && p->offset != end)
      fail(ErrorKind::model, "{}: tensor {} starts at byte {}, but what stands before it ends at {}", origin, name, p->offset, end);
    p->tensor.data = bytes.data() + data + p->offset;
    end = p->offset + static_cast<uint64_t>(p->tensor.bytes);
    before = p;
  }
  if (bytes.size() - data - end >= alignment && bytes.size() - data > end)
    fail(ErrorKind::model, "{}: {} bytes at the end belong to no tensor", origin, bytes.size() - data - end);
}

}  // namespace

std::string_view gguf_type_name(GgufType type) { return row_of(type).name; }
int64_t gguf_block_values(GgufType type) { return row_of(type).values; }
int64_t gguf_block_bytes(GgufType type) { return row_of(type).bytes; }

GgufHeader parse_gguf(std::span<const std::byte> bytes, const std::string& origin) {
  if (bytes.size() < 24 || std::memcmp(bytes.data(), "GGUF", 4) != 0)
    fail(ErrorKind::model, "{}: does not begin with GGUF and its counts; not a GGUF file, or cut short", origin);
  Reader r(bytes, origin);
  r.skip(4, "the magic");
  const auto version = r.get<uint32_t>("the version");
  if (version == 0x02000000 || version == 0x03000000) fail(ErrorKind::model, "{}: is big-endian, wanted little-endian; convert it again", origin);
  if (version != 2 && version != 3) fail(ErrorKind::model, "{}: is version {} of GGUF, wanted 2 or 3", origin, version);
  const auto tensors = r.get<uint64_t>("the number of tensors"), pairs = r.get<uint64_t>("the number of metadata keys");
  if (tensors > kMaxTensors || pairs > kMaxPairs)
    fail(ErrorKind::model, "{}: claims {} tensors and {} metadata keys, wanted at most {} and {}", origin, tensors, pairs, kMaxTensors, kMaxPairs);
  GgufHeader out;
  for (uint64_t i = 0; i < pairs; ++i) read_pair(r, origin, out);
  std::vector<Placed> placed;
  std::set<std::string> names;
  for (uint64_t i = 0; i < tensors; ++i) {
    placed.push_back(read_tensor(r, origin));
    if (const std::string& n = placed.back().tensor.name; !names.insert(n).second) fail(ErrorKind::model, "{}: tensor {} stands twice", origin, shown(n));
  }
  int64_t alignment = 32;
  if (auto it = out.integer_lists.find("general.alignment"); it != out.integer_lists.end() && it->second.size() == 1) alignment = it->second[0];
  if (alignment < 1 || alignment > 65536 || (alignment & (alignment - 1)))
    fail(ErrorKind::model, "{}: general.alignment is {}, wanted a power of two up to 65536", origin, alignment);
  const auto step = static_cast<uint64_t>(alignment);
  const uint64_t data = (r.at() + step - 1) / step * step;
  if (data > bytes.size() && tensors) fail(ErrorKind::model, "{}: the file ends before its tensors; it is truncated", origin);
  place(placed, bytes, std::min<uint64_t>(data, bytes.size()), step, origin);
  for (Placed& p : placed) out.tensors.push_back(std::move(p.tensor));
  return out;
}

}  // namespace zt

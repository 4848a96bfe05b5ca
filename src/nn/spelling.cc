#include "nn/spelling.h"

#include <algorithm>
#include <unordered_map>

namespace zt {

namespace {

using Rows = TensorSource::Rows;

DType holding(const Stored& t) {
  const bool narrow = t.coding == Stored::Coding::plain && (t.bytes.dtype == DType::bf16 || t.bytes.dtype == DType::f16);
  return narrow ? t.bytes.dtype : DType::f32;
}

TensorSource target_of(const TensorSpec& s, Spelling spelling) {
  if (spelling == Spelling::ours || s.sources.empty()) return {s.name};
  TensorSource t = s.sources[0];
  if (t.rows == Rows::norms) fail(ErrorKind::internal, "tensor {}: lengths of rows cannot be spelled", s.name);
  if (t.rows == Rows::fused && spelling == Spelling::by_head) t.rows = Rows::fused_by_head;
  return t;
}

}  // namespace

void SpelledTensor::read(int64_t first, int64_t n, float* out) const {
  auto run = std::upper_bound(runs.begin(), runs.end(), first, [](int64_t r, const Run& x) { return r < x.first; });
  for (int64_t r = first; r < first + n;) {
    const Run& x = *(run++ - 1);
    const int64_t skip = r - x.first, some = std::min(x.rows - skip, first + n - r);
    x.from.read(x.ours + skip, some, out + (r - first) * row_values());
    r += some;
  }
}

void SpelledTensor::release_pages(const WeightFiles& files) const {
  const Stored* last = nullptr;
  for (const Run& r : runs)
    if (r.from.stored != last) files.release_pages(*(last = r.from.stored));
}

std::vector<SpelledTensor> spell(const TensorSpecs& specs, const Binding& binding, Spelling spelling) {
  std::vector<SpelledTensor> out;
  std::unordered_map<std::string, size_t> index;
  for (size_t i = 0; i < specs.size(); ++i) {
    const TensorSpec& s = specs[i];
    const BoundTensor& b = binding.tensors[i];
    const bool foreign = s.use == TensorSpec::Use::foreign;
    if (!b.stored || (foreign && spelling == Spelling::ours)) continue;
    const TensorSource target = target_of(s, spelling);
    const Shape shape = foreign ? b.stored->shape : s.shape;
    const auto [at, fresh] = index.emplace(target.name, out.size());
    if (fresh) {
      SpelledTensor t{target.name, shape, s.use, holding(*b.stored), {}};
      if (is_fused(target.rows)) t.shape[0] *= 3;
      out.push_back(std::move(t));
    }
    SpelledTensor& t = out[at->second];
    if (t.dtype != holding(*b.stored)) t.dtype = DType::f32;
    const int64_t rows = shape.empty() ? 1 : shape[0];
    for_each_run(target, t.rows(), 0, rows, [&t, &b](int64_t ours, int64_t theirs, int64_t n) { t.runs.push_back({b, theirs, ours, n}); });
  }
  for (SpelledTensor& t : out)
    std::sort(t.runs.begin(), t.runs.end(), [](const SpelledTensor::Run& a, const SpelledTensor::Run& b) { return a.first < b.first; });
  return out;
}

}  // namespace zt

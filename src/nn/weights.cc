#include "nn/weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <unordered_set>

namespace zt {

namespace {

using Rows = TensorSource::Rows;

bool readable(const Stored& t) {
  const DType d = t.bytes.dtype;
  return t.coding != Stored::Coding::plain || d == DType::f32 || d == DType::bf16 || d == DType::f16 || d == DType::f64;
}

// A few names of a list, for a message that stays readable.
std::string some(const std::vector<std::string>& names) {
  std::string s;
  for (size_t i = 0; i < names.size() && i < 3; ++i) s += (i ? ", " : "") + names[i];
  if (names.size() > 3) s += fmt::format(" and {} more", names.size() - 3);
  return s;
}

bool same_shape(const Stored& t, const Shape& wanted, Rows rows) {
  Shape s = wanted;
  if (is_fused(rows)) s[0] *= 3;
  return rows == Rows::norms ? t.rows() == element_count(wanted) : t.shape == s;
}

float norm_of_row(const Stored& t, int64_t r) {
  std::vector<float> row(static_cast<size_t>(t.row_values()));
  read_rows(t, r, 1, row.data());
  double sum = 0;
  for (float v : row) sum += static_cast<double>(v) * v;
  return static_cast<float>(std::sqrt(sum));
}

BoundTensor locate(const WeightFiles& files, const TensorSpec& spec) {
  if (const Stored* t = files.find(spec.name)) return {t, {}};
  for (const TensorSource& s : spec.sources)
    if (const Stored* t = files.find(s.name)) {
      BoundTensor b{t, s};
      if (s.rows == Rows::fused && files.fused_by_head()) b.order.rows = Rows::fused_by_head;
      return b;
    }
  return {};
}

}  // namespace

int64_t parameter_count(const TensorSpecs& specs) {
  int64_t n = 0;
  for (const TensorSpec& s : specs)
    if (s.use != TensorSpec::Use::foreign) n += element_count(s.shape);
  return n;
}

void for_each_run(const TensorSource& order, int64_t stored_rows, int64_t first, int64_t n, const std::function<void(int64_t, int64_t, int64_t)>& f) {
  const int64_t total = is_fused(order.rows) ? stored_rows / 3 : stored_rows;
  for (int64_t r = first; r < first + n;) {
    int64_t theirs = r, length = total - r;
    if (order.rows == Rows::halves_swapped) {
      const int64_t half = total / 2;
      theirs = (r + half) % total, length = half - r % half;
    } else if (order.rows == Rows::fused) {
      theirs = order.part * total + r;
    } else if (order.rows == Rows::fused_by_head) {
      const int64_t d = total / order.heads;
      theirs = r / d * 3 * d + order.part * d + r % d, length = d - r % d;
    }
    length = std::min(length, first + n - r);
    f(r, theirs, length);
    r += length;
  }
}

void BoundTensor::read(int64_t first, int64_t n, float* out) const {
  if (order.rows == Rows::norms) {
    for (int64_t r = 0; r < n; ++r) out[r] = norm_of_row(*stored, first + r);
    return;
  }
  const int64_t width = stored->row_values();
  for_each_run(order, stored->rows(), first, n, [&](int64_t ours, int64_t theirs, int64_t length) { read_rows(*stored, theirs, length, out + (ours - first) * width); });
}

Binding bind_tensors(const WeightFiles& files, const TensorSpecs& specs) {
  Binding out;
  std::unordered_set<const Stored*> used;
  for (const TensorSpec& s : specs) {
    const BoundTensor b = locate(files, s);
    if (b.stored) used.insert(b.stored);
    if (!b.stored && s.use != TensorSpec::Use::dead && s.use != TensorSpec::Use::foreign) out.missing.push_back(s.name);
    if (b.stored && s.use != TensorSpec::Use::foreign) {
      const Stored& t = *b.stored;
      if (!same_shape(t, s.shape, b.order.rows))
        out.misfits.push_back(fmt::format("{}: tensor {} has shape {}, wanted {}", *t.file, t.name, to_string(t.shape),
                                          to_string(s.shape) + (is_fused(b.order.rows) ? " three times over" : "")));
      else if (!readable(t))
        out.misfits.push_back(fmt::format("{}: tensor {} is {}, wanted F32, BF16, F16 or a quantised type with its scales", *t.file, t.name,
                                          t.coding_name()));
    }
    out.tensors.push_back(b);
  }
  for (const Stored& t : files.tensors())
    if (!used.count(&t)) out.unexpected.push_back(t.name);
  return out;
}

void check_binding(const Binding& b, const TensorSpecs& specs, const std::string& component) {
  if (!b.misfits.empty()) fail(ErrorKind::model, "{}; the weights and config.json of {} belong to different models", b.misfits[0], component);
  if (!b.missing.empty())
    fail(ErrorKind::model, "{}: {} of {} tensors are missing: {}; the checkpoint is incomplete or of another kind", component, b.missing.size(), specs.size(),
         some(b.missing));
  if (!b.unexpected.empty())
    fail(ErrorKind::model, "{}: {} tensors that the model does not have: {}; the config does not match the weights", component, b.unexpected.size(),
         some(b.unexpected));
}

Weights::Weights(WeightFiles files, TensorSpecs specs, std::string component, const WeightEdits* edits)
    : files_(std::make_unique<WeightFiles>(std::move(files))), specs_(std::move(specs)), component_(std::move(component)), edits_(edits) {
  Binding b = bind_tensors(*files_, specs_);
  for (size_t i = 0; i < specs_.size(); ++i) index_.emplace(specs_[i].name, i);
  check_binding(b, specs_, component_);
  bound_ = std::move(b.tensors);
}

const BoundTensor& Weights::bound(const std::string& name) const {
  auto it = index_.find(name);
  if (it == index_.end() || !bound_[it->second].stored) fail(ErrorKind::internal, "{}: tensor {} is not in the table", component_, name);
  return bound_[it->second];
}

BoundTensor Weights::at_hand(const std::string& name) const {
  BoundTensor b = bound(name);
  if (const Stored* here = staging_ ? staging_->find(*b.stored) : nullptr) b.stored = here;
  return b;
}

std::vector<const Stored*> Weights::stored(const std::function<bool(const std::string&)>& wanted) const {
  std::vector<const Stored*> out;
  for (size_t i = 0; i < specs_.size(); ++i)
    if (const Stored* t = bound_[i].stored; t && specs_[i].use != TensorSpec::Use::dead && wanted(specs_[i].name) && std::find(out.begin(), out.end(), t) == out.end())
      out.push_back(t);
  return out;
}

// Quantised and edited tensors become float32; others keep their type, and where the rows stand together, their bytes.
void Weights::make(const std::string& name, const TensorSpec& spec, const BoundTensor& b) const {
  const bool edited = edits_ && edits_->touches(name);
  Made m;
  if (b.stored->coding != Stored::Coding::plain || b.order.rows == Rows::norms || edited) {
    m.buffer = Buffer(static_cast<size_t>(element_count(spec.shape)) * sizeof(float));
    m.view = {m.buffer.data(), DType::f32, spec.shape};
    b.read(0, spec.shape[0], m.buffer.as<float>());
    if (edited) edits_->apply(name, spec.shape, m.buffer.as<float>());
  } else {
    const auto* from = static_cast<const char*>(b.stored->bytes.data);
    const auto row = static_cast<size_t>(b.stored->row_values() * dtype_bytes(b.stored->bytes.dtype));
    if (b.order.rows == Rows::same || b.order.rows == Rows::fused) {
      m.view = {from + (b.order.rows == Rows::fused ? static_cast<size_t>(b.order.part * spec.shape[0]) * row : 0), b.stored->bytes.dtype, spec.shape};
    } else {
      m.buffer = Buffer(static_cast<size_t>(spec.shape[0]) * row);
      for_each_run(b.order, b.stored->rows(), 0, spec.shape[0], [&](int64_t ours, int64_t theirs, int64_t n) {
        std::memcpy(m.buffer.as<char>() + static_cast<size_t>(ours) * row, from + static_cast<size_t>(theirs) * row, static_cast<size_t>(n) * row);
      });
      m.view = {m.buffer.data(), b.stored->bytes.dtype, spec.shape};
    }
  }
  made_[name] = std::move(m);
}

const View& Weights::view(const std::string& name) const {
  auto it = made_.find(name);
  if (it == made_.end()) {
    const BoundTensor b = at_hand(name);
    make(name, specs_[index_.at(name)], b);
    it = made_.find(name);
  }
  return it->second.view;
}

void Weights::release_pages() const {
  made_.clear();
  files_->release_pages();
}

void Weights::release_pages(const std::string& name) const {
  made_.erase(name);
  const Stored& t = *bound(name).stored;
  if (!staging_ || !staging_->find(t)) files_->release_pages(t);
}

std::vector<float> Weights::vector(const std::string& name) const {
  std::vector<float> values = to_float32(view(name));
  release_pages(name);
  return values;
}

void Weights::row(const std::string& name, int64_t r, float* out) const {
  const BoundTensor b = at_hand(name);
  if (!edits_ || !edits_->touches(name)) return b.read(r, 1, out);
  const View& v = view(name);
  const int64_t width = b.stored->row_values();
  std::memcpy(out, static_cast<const float*>(v.data) + r * width, static_cast<size_t>(width) * sizeof(float));
}

RowSource Weights::source(const std::string& name) const {
  const BoundTensor b = at_hand(name);
  const Shape& shape = specs_[index_.at(name)].shape;
  if (edits_ && edits_->touches(name)) {
    const View& v = view(name);
    return row_source({v.data, v.dtype, {shape[0], element_count(shape) / shape[0]}});
  }
  const bool bf16 = b.stored->coding == Stored::Coding::plain && b.stored->bytes.dtype == DType::bf16;
  return {shape[0], element_count(shape) / shape[0], [b](int64_t first, int64_t n, float* out) { b.read(first, n, out); }, bf16};
}

PackedWeight Weights::pack(const Ops& ops, const std::string& name, Compute compute, PackInto into) const {
  const RowSource source = this->source(name);
  const bool matrix = specs_[index_.at(name)].use == TensorSpec::Use::matrix;
  PackedWeight packed = pack_weight(ops, std::span(&source, 1), 1, matrix ? compute : Compute::f32, std::move(into));
  release_pages(name);   // or file and packed copy would both be in memory before the last tensor is read
  return packed;
}

}  // namespace zt

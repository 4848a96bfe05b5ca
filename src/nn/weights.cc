#include "nn/weights.h"

namespace zt {

namespace {

bool is_float(DType t) {
  return t == DType::f32 || t == DType::bf16 || t == DType::f16 || t == DType::f64;
}

// A few names of a list, for a message that stays readable.
std::string some(const std::vector<std::string>& names) {
  std::string s;
  for (size_t i = 0; i < names.size() && i < 3; ++i) s += (i ? ", " : "") + names[i];
  if (names.size() > 3) s += fmt::format(" and {} more", names.size() - 3);
  return s;
}

}  // namespace

int64_t parameter_count(const TensorSpecs& specs) {
  int64_t n = 0;
  for (const TensorSpec& s : specs) n += element_count(s.shape);
  return n;
}

Weights::Weights(SafetensorsSet files, TensorSpecs specs, std::string component)
    : files_(std::move(files)), specs_(std::move(specs)), component_(std::move(component)) {
  std::vector<std::string> missing, unexpected;
  for (size_t i = 0; i < specs_.size(); ++i) {
    const TensorSpec& s = specs_[i];
    index_.emplace(s.name, i);
    const View* v = files_.find(s.name);
    if (!v) {
      if (s.use != TensorSpec::Use::dead) missing.push_back(s.name);
      continue;
    }
    if (v->shape != s.shape)
      fail(ErrorKind::model, "{}: tensor {} has shape {}, the config of {} wants {}; the weights and config.json belong to different models",
           files_.file_of(s.name), s.name, to_string(v->shape), component_, to_string(s.shape));
    if (!is_float(v->dtype))
      fail(ErrorKind::model, "{}: tensor {} is {}, wanted F32, BF16 or F16; convert the checkpoint first", files_.file_of(s.name), s.name,
           dtype_name(v->dtype));
  }
  if (!missing.empty())
    fail(ErrorKind::model, "{}: {} of {} tensors are missing: {}; the checkpoint is incomplete or of another kind", component_, missing.size(),
         specs_.size(), some(missing));
  for (const std::string& name : files_.names())
    if (!index_.count(name)) unexpected.push_back(name);
  if (!unexpected.empty())
    fail(ErrorKind::model, "{}: {} tensors that the model does not have: {}; the config does not match the weights", component_,
         unexpected.size(), some(unexpected));
}

const View& Weights::view(const std::string& name) const {
  const View* v = index_.count(name) ? files_.find(name) : nullptr;
  if (!v) fail(ErrorKind::internal, "{}: tensor {} is not in the table", component_, name);
  return *v;
}

void Weights::release_pages() const {
  for (const SafetensorsFile& f : files_.files()) f.release_pages();
}

std::vector<float> Weights::vector(const std::string& name) const {
  std::vector<float> values = to_float32(view(name));
  release_pages(name);
  return values;
}

PackedWeight Weights::pack(const Ops& ops, const std::string& name, Compute compute) const {
  const View& v = view(name);
  const TensorSpec& s = specs_[index_.at(name)];
  const View flat{v.data, v.dtype, {v.shape[0], v.count() / v.shape[0]}};
  PackedWeight packed = pack_weight(ops, flat, 1, s.use == TensorSpec::Use::matrix ? compute : Compute::f32);
  release_pages(name);   // or file and packed copy would both be in memory before the last tensor is read
  return packed;
}

}  // namespace zt

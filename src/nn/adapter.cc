#include "nn/adapter.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <regex>

#include "base/json.h"
#include "formats/shown.h"

namespace fs = std::filesystem;

namespace zt {

namespace {

using Rows = TensorSource::Rows;

// The path of whoever trained or saved it; some stand twice.
constexpr std::string_view kPrefixes[] = {"base_model.model.", "model.diffusion_model.", "diffusion_model.", "transformer_ref.", "transformer.",
                                          "unet.", "lora_unet_", "lora_transformer_", "lycoris_"};

enum class Part { down, up, alpha, diff, diff_bias, set, w1, w1_a, w1_b, w2, w2_a, w2_b, unknown };
struct Suffix { std::string_view text; Part part; bool peft_infix = false; };
constexpr Suffix kSuffixes[] = {{".lora_A.default.weight", Part::down, true}, {".lora_B.default.weight", Part::up, true},
                                {".lora_A.weight", Part::down}, {".lora_B.weight", Part::up}, {".lora_down.weight", Part::down}, {".lora_up.weight", Part::up},
                                {".lora.down.weight", Part::down}, {".lora.up.weight", Part::up}, {".alpha", Part::alpha}, {".diff_b", Part::diff_bias},
                                {".diff", Part::diff}, {".set_weight", Part::set}, {".lokr_w1", Part::w1}, {".lokr_w1_a", Part::w1_a}, {".lokr_w1_b", Part::w1_b},
                                {".lokr_w2", Part::w2}, {".lokr_w2_a", Part::w2_a}, {".lokr_w2_b", Part::w2_b}};

// Rows times columns of a payload; kernels of one tap are matrices.
int64_t rows(const View& v) { return v.shape.empty() ? 1 : v.shape[0]; }
int64_t columns(const View& v) { return rows(v) ? v.count() / rows(v) : 0; }

bool is_number(DType t) { return t == DType::f32 || t == DType::f16 || t == DType::bf16 || t == DType::f64; }

// A number that may stand as one or, in safetensors' metadata, as text.
double number_of(const Json& v, double low, double high, const std::string& origin) {
  double d = NAN;
  if (v.is_number()) d = v.get<double>();
  if (v.is_string()) d = std::strtod(v.get_ref<const std::string&>().c_str(), nullptr);
  if (!(d >= low && d <= high))
    fail(ErrorKind::model, "{}: is {}, wanted a number from {:g} to {:g}", origin, shown(v.dump(-1, ' ', true, Json::error_handler_t::replace)), low, high);
  return d;
}

// What PEFT keeps beside the tensors: alpha and how it is divided.
struct PeftConfig {
  std::optional<double> alpha;
  std::map<std::string, double> pattern;   // module -> alpha
  bool root = false;                       // alpha / sqrt(r)
};

void read_peft(const Json& j, const std::string& prefix, const std::string& origin, PeftConfig& c) {
  for (const auto& [key, v] : j.items()) {
    if (!key.starts_with(prefix)) continue;
    const std::string name = key.substr(prefix.size());
    if (name == "lora_alpha") c.alpha = number_of(v, 0, 1e6, origin + ": lora_alpha");
    if (name == "use_rslora" && v.is_boolean()) c.root = v.get<bool>();
    if (name == "alpha_pattern" && v.is_object())
      for (const auto& [module, a] : v.items()) c.pattern[module] = number_of(a, 0, 1e6, origin + ": alpha_pattern of " + shown(module));
  }
}

PeftConfig peft_config(const SafetensorsFile& file) {
  PeftConfig c;
  const fs::path beside = fs::path(file.path()).parent_path() / "adapter_config.json";
  std::error_code e;
  if (fs::exists(beside, e)) {
    const Json j = read_json(beside.string());
    if (j.is_object()) read_peft(j, "", beside.string(), c);
  }
  if (auto it = file.metadata().find("lora_adapter_metadata"); it != file.metadata().end()) {
    const std::string origin = file.path() + ": lora_adapter_metadata";
    const Json j = parse_json(it->second, origin);
    for (const char* prefix : {"", "transformer."})
      if (j.is_object()) read_peft(j, prefix, origin, c);
  }
  return c;
}

std::string strip(std::string name) {
  for (bool again = true; again;) {
    again = false;
    for (std::string_view p : kPrefixes)
      if (name.starts_with(p)) name.erase(0, p.size()), again = true;
  }
  return name;
}

// A place in the table that a name of a file may mean.
struct Target {
  const TensorSpec* spec;
  TensorSource order;
};
using Targets = std::multimap<std::string, Target>;

std::string flat(std::string name) {
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
}

// Every spelling of every tensor, whole and as kohya writes it.
Targets all_names(const TensorSpecs& specs) {
  Targets out;
  auto add = [&](const std::string& name, const Target& t) {
    out.emplace(name, t);
    const size_t dot = name.rfind('.');
    if (dot == std::string::npos) return;
    if (const std::string other = flat(name.substr(0, dot)) + name.substr(dot); other != name) out.emplace(other, t);
  };
  for (const TensorSpec& s : specs) {
    if (s.use == TensorSpec::Use::foreign || s.shape.empty()) continue;
    add(s.name, {&s, {}});
    for (const TensorSource& other : s.sources)
      if (other.name != s.name && other.rows != Rows::norms) add(other.name, {&s, other});
  }
  return out;
}

// What one file holds for one layer.
struct Module {
  std::map<Part, View> parts;
  std::string name, odd;     // as the file has it; its first tensor of no known part
  bool peft_infix = false;
  double scale = 1;          // alpha / r
  bool has(Part p) const { return parts.count(p) != 0; }
  const View& at(Part p) const { return parts.at(p); }
};

// A factor of a Kronecker product: itself, or the product of two.
Shape factor_shape(const Module& m, Part whole, Part a, Part b) {
  if (m.has(whole)) return {rows(m.at(whole)), columns(m.at(whole))};
  if (!m.has(a) || !m.has(b) || columns(m.at(a)) != rows(m.at(b))) return {};
  return {rows(m.at(a)), columns(m.at(b))};
}

// Why the module cannot be added to a matrix of `stored` rows of `width` values; empty if it can.
std::string misfit(const Module& m, int64_t stored, int64_t width) {
  const std::string wanted = fmt::format("wanted {} x {}", stored, width);
  if (!m.odd.empty()) return fmt::format("has {}, which is not supported", m.odd);
  if (m.has(Part::down) != m.has(Part::up)) return "one of its two factors is missing";
  if (m.has(Part::down)) {
    const View &a = m.at(Part::down), &b = m.at(Part::up);
    if (columns(b) != rows(a) || rows(a) < 1) return fmt::format("its factors {} and {} do not match", to_string(b.shape), to_string(a.shape));
    if (rows(b) != stored || columns(a) != width) return fmt::format("its product is {} x {}, {}", rows(b), columns(a), wanted);
    return "";
  }
  for (Part p : {Part::diff, Part::set})
    if (m.has(p)) return m.at(p).count() == stored * width ? "" : fmt::format("has shape {}, {}", to_string(m.at(p).shape), wanted);
  const Shape w1 = factor_shape(m, Part::w1, Part::w1_a, Part::w1_b), w2 = factor_shape(m, Part::w2, Part::w2_a, Part::w2_b);
  if (w1.empty() || w2.empty()) return "no whole set of factors";
  if (w1[0] * w2[0] != stored || w1[1] * w2[1] != width) return fmt::format("its product is {} x {}, {}", w1[0] * w2[0], w1[1] * w2[1], wanted);
  return "";
}

std::vector<float> finite(const View& v, const std::string& what) {
  std::vector<float> out = to_float32(v);
  for (float x : out)
    if (!std::isfinite(x)) fail(ErrorKind::model, "{}: holds NaN or infinity", what);
  return out;
}

// Rows of what a module adds to a matrix, made when they are asked for.
class Payload {
 public:
  Payload(const Module& m, int64_t width, const std::string& what) : scale_(static_cast<float>(m.scale)), width_(width) {
    if (m.has(Part::down)) {
      left_ = finite(m.at(Part::up), what), right_ = finite(m.at(Part::down), what), rank_ = rows(m.at(Part::down));
    } else if (m.has(Part::diff) || m.has(Part::set)) {
      left_ = finite(m.at(m.has(Part::diff) ? Part::diff : Part::set), what);
    } else {
      kron_ = true;
      left_ = factor(m, Part::w1, Part::w1_a, Part::w1_b, what), right_ = factor(m, Part::w2, Part::w2_a, Part::w2_b, what);
      w2_ = factor_shape(m, Part::w2, Part::w2_a, Part::w2_b);
    }
  }
  void row(int64_t r, float* out) const {
    if (kron_) {
      const float *a = left_.data() + r / w2_[0] * (width_ / w2_[1]), *b = right_.data() + r % w2_[0] * w2_[1];
      for (int64_t i = 0; i < width_; ++i) out[i] = scale_ * a[i / w2_[1]] * b[i % w2_[1]];
    } else if (rank_) {
      std::fill_n(out, width_, 0.0f);
      for (int64_t k = 0; k < rank_; ++k) {
        const float c = scale_ * left_[static_cast<size_t>(r * rank_ + k)];
        const float* a = right_.data() + k * width_;
        for (int64_t i = 0; i < width_; ++i) out[i] += c * a[i];
      }
    } else {
      std::copy_n(left_.data() + r * width_, width_, out);
    }
  }

 private:
  static std::vector<float> factor(const Module& m, Part whole, Part a, Part b, const std::string& what) {
    if (m.has(whole)) return finite(m.at(whole), what);
    const std::vector<float> left = finite(m.at(a), what), right = finite(m.at(b), what);
    const int64_t n = rows(m.at(a)), inner = columns(m.at(a)), width = columns(m.at(b));
    std::vector<float> out(static_cast<size_t>(n * width));
    for (int64_t i = 0; i < n; ++i)
      for (int64_t k = 0; k < inner; ++k)
        for (int64_t j = 0; j < width; ++j)
          out[static_cast<size_t>(i * width + j)] += left[static_cast<size_t>(i * inner + k)] * right[static_cast<size_t>(k * width + j)];
    return out;
  }
  float scale_;
  int64_t width_, rank_ = 0;
  bool kron_ = false;
  std::vector<float> left_, right_;
  Shape w2_;
};

// alpha / r of a module. Whole factors of a Kronecker product have no r.
double scale_of(const Module& m, const PeftConfig& peft, const std::string& what) {
  double rank = 0;
  for (Part p : {Part::w1_b, Part::w2_b, Part::down})
    if (m.has(p)) rank = static_cast<double>(rows(m.at(p)));
  std::optional<double> alpha = peft.alpha;
  for (const auto& [module, a] : peft.pattern)
    if (m.name == module || m.name.ends_with("." + module)) alpha = a;
  if (m.has(Part::alpha)) {
    const View& v = m.at(Part::alpha);
    if (v.count() != 1) fail(ErrorKind::model, "{}.alpha has shape {}, wanted one number", what, to_string(v.shape));
    alpha = to_float32(v)[0];
    if (!std::isfinite(*alpha)) fail(ErrorKind::model, "{}.alpha is {}, wanted a finite number", what, *alpha);
  }
  return alpha && rank > 0 ? *alpha / (peft.root ? std::sqrt(rank) : rank) : 1.0;
}

// The modules of a file by their names without prefixes.
std::map<std::string, Module> read_modules(const SafetensorsFile& file, std::vector<std::string>& unused) {
  std::map<std::string, Module> out;
  for (const NamedView& t : file.tensors()) {
    const auto s = std::find_if(std::begin(kSuffixes), std::end(kSuffixes), [&](const Suffix& x) { return t.name.ends_with(x.text) && t.name.size() > x.text.size(); });
    const bool known = s != std::end(kSuffixes);
    const size_t end = known ? t.name.size() - s->text.size() : std::min(t.name.rfind('.'), t.name.size());
    Module& m = out[strip(t.name.substr(0, end))];
    if (m.name.empty()) m.name = t.name.substr(0, end);
    if (!known) m.odd = shown(t.name.substr(end));
    else if (!is_number(t.view.dtype)) m.odd = fmt::format("{} of type {}", s->text, dtype_name(t.view.dtype));
    else if (!m.parts.emplace(s->part, t.view).second) unused.push_back(fmt::format("{}: {}: stands twice", file.path(), shown(t.name)));
    if (known) m.peft_infix |= s->peft_infix;
  }
  const PeftConfig peft = peft_config(file);
  for (auto& [name, m] : out) m.scale = scale_of(m, peft, file.path() + ": tensor " + shown(m.name));
  return out;
}

}  // namespace

struct Adapters::File {
  explicit File(const AdapterUse& use) : file(use.path), strength(static_cast<float>(use.strength)) {}
  SafetensorsFile file;
  float strength;
  std::map<std::string, Module> modules;
};

struct Adapters::Edit {
  const File* file;
  const Module* module;
  TensorSource order;
  int64_t stored_rows;
  bool bias;
};

void Adapters::add(File& f, const TensorSpecs& specs) {
  const std::string& path = f.file.path();
  const Targets names = all_names(specs);
  f.modules = read_modules(f.file, unused_);
  size_t used = 0;
  for (const auto& [name, m] : f.modules) {
    std::string why = "no layer of this model";
    bool bound = false;
    for (const bool bias : {false, true}) {
      if (bias && !m.has(Part::diff_bias)) continue;
      if (!bias && m.odd.empty() && m.parts.size() == m.parts.count(Part::diff_bias) + m.parts.count(Part::alpha)) continue;   // a bias alone
      auto [low, high] = names.equal_range(name + (bias ? ".bias" : ".weight"));
      for (auto it = low; it != high; ++it) {
        TensorSource order = it->second.order;
        const Shape& shape = it->second.spec->shape;
        const int64_t stored = shape[0] * (is_fused(order.rows) ? 3 : 1), width = element_count(shape) / shape[0];
        // Who saves by PEFT over the released names trains on the shards' own order.
        if (order.rows == Rows::fused && m.peft_infix) order.rows = Rows::fused_by_head;
        const std::string found = !bias ? misfit(m, stored, width) : m.at(Part::diff_bias).count() == stored ? "" : "its diff_b has another length";
        if (!found.empty()) {
          why = found;
          continue;
        }
        edits_[it->second.spec->name].push_back({&f, &m, order, stored, bias});
        bound = true;
      }
    }
    used += bound;
    if (!bound) unused_.push_back(fmt::format("{}: {}: {}", path, shown(m.name), why));
  }
  if (!used)
    fail(ErrorKind::model, "{}: none of its {} layers fits this model ({}); it was made for another", path, f.modules.size(),
         unused_.empty() ? "it is empty" : unused_.back());
}

Adapters::Adapters(const std::vector<AdapterUse>& uses, const TensorSpecs& specs) {
  for (const AdapterUse& use : uses) {
    files_.push_back(std::make_unique<File>(use));
    add(*files_.back(), specs);
  }
}

Adapters::~Adapters() = default;

bool Adapters::touches(const std::string& name) const { return edits_.count(name) != 0; }

void Adapters::apply(const std::string& name, const Shape& shape, float* values) const {
  auto it = edits_.find(name);
  if (it == edits_.end()) return;
  const int64_t width = element_count(shape) / shape[0];
  std::vector<float> row(static_cast<size_t>(width));
  for (const Edit& e : it->second) {
    const float s = e.file->strength;
    const std::string what = e.file->file.path() + ": tensor " + shown(e.module->name);
    Module bias;
    if (e.bias) bias.parts[Part::diff] = e.module->at(Part::diff_bias);
    const Payload payload(e.bias ? bias : *e.module, width, what);
    const bool set = !e.bias && e.module->has(Part::set) && !e.module->has(Part::down) && !e.module->has(Part::diff);
    for_each_run(e.order, e.stored_rows, 0, shape[0], [&](int64_t ours, int64_t theirs, int64_t n) {
      for (int64_t r = 0; r < n; ++r) {
        payload.row(theirs + r, row.data());
        float* out = values + (ours + r) * width;
        for (int64_t i = 0; i < width; ++i) out[i] += s * (set ? row[static_cast<size_t>(i)] - out[i] : row[static_cast<size_t>(i)]);
      }
    });
  }
}

AdapterSchedule read_adapter_schedule(const std::string& path) {
  const SafetensorsFile file(path);
  Json said = Json::object();
  for (const auto& [key, value] : file.metadata()) said[key] = value;
  const std::string beside = fs::path(path).replace_extension(".json").string();
  std::error_code e;
  if (fs::exists(beside, e)) {
    const Json j = read_json(beside, 1 << 20);
    if (j.is_object()) said.update(j);
  }
  AdapterSchedule out;
  if (said.contains("evaluations")) out.evaluations = std::llround(number_of(said["evaluations"], 1, 1000, path + ": evaluations"));
  if (said.contains("video_shift")) out.video_shift = static_cast<float>(number_of(said["video_shift"], 1e-3, 1e3, path + ": video_shift"));
  if (said.contains("audio_shift")) out.audio_shift = static_cast<float>(number_of(said["audio_shift"], 1e-3, 1e3, path + ": audio_shift"));
  out.says_distilled = std::regex_search(fs::path(path).filename().string(),
                                         std::regex("turbo|lightning|distill|dmd|fasth3|lcm|[0-9][ _-]?steps?", std::regex::icase));
  return out;
}

}  // namespace zt

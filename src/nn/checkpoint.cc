#include "nn/checkpoint.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>

#include "base/json.h"
#include "tensor/block_format.h"

namespace fs = std::filesystem;

namespace zt {

namespace {

constexpr int64_t kNvfp4Group = 16;
constexpr int64_t kMaxRotation = 4096;

// Whole checkpoints are saved with the path of the module that held them.
constexpr std::string_view kPrefixes[] = {"model.diffusion_model.", "diffusion_model."};

bool starts_with_any(const std::string& name, std::string_view& prefix) {
  for (std::string_view p : kPrefixes)
    if (name.starts_with(p)) return prefix = p, true;
  return false;
}

std::span<const std::byte> bytes_of(const View& v) {
  return {static_cast<const std::byte*>(v.data), v.data ? static_cast<size_t>(v.bytes()) : 0};
}

// x [n] in groups of `group`: x H with H = H4 x H4 x ... / sqrt(group), which is symmetric and its own inverse.
void turn(float* x, int64_t n, int64_t group) {
  const float scale = 1 / std::sqrt(static_cast<float>(group));
  for (float* g = x; g < x + n; g += group) {
    for (int64_t step = 1; step < group; step *= 4)
      for (int64_t base = 0; base < group; base += 4 * step)
        for (int64_t i = base; i < base + step; ++i) {
          const float a = g[i], b = g[i + step], c = g[i + 2 * step], d = g[i + 3 * step];
          g[i] = a + b + c - d;
          g[i + step] = a + b - c + d;
          g[i + 2 * step] = a - b + c + d;
          g[i + 3 * step] = -a + b + c + d;
        }
    for (int64_t i = 0; i < group; ++i) g[i] *= scale;
  }
}

// Where the scale of row r, group c stands among those of a matrix with `groups` a row: tiles of 128 rows by 4 groups, in each the
// rows 32 apart beside each other (the layout that matrix units read).
int64_t tiled_scale(int64_t r, int64_t c, int64_t groups) {
  const int64_t tile = r / 128 * ((groups + 3) / 4) + c / 4;
  return tile * 512 + r % 32 * 16 + r % 128 / 32 * 4 + c % 4;
}

void read_nvfp4(const Stored& t, int64_t first, int64_t n, float* out) {
  const int64_t in = t.row_values(), groups = in / kNvfp4Group;
  const auto* codes = static_cast<const uint8_t*>(t.bytes.data);
  const auto* scales = static_cast<const uint8_t*>(t.scale.data);
  for (int64_t r = first; r < first + n; ++r)
    for (int64_t c = 0; c < groups; ++c) {
      const float scale = f8_e4m3_to_float(scales[tiled_scale(r, c, groups)]) * t.scale2;
      for (int64_t i = 0; i < kNvfp4Group; ++i) {
        const uint8_t byte = codes[(r * in + c * kNvfp4Group + i) / 2];
        const auto code = static_cast<uint8_t>(i % 2 ? byte & 15 : byte >> 4);   // the first of a pair stands high
        *out++ = element_value(BlockFormat::mxfp4_e2m1, code) * scale;
      }
    }
}

void read_scaled(const Stored& t, int64_t first, int64_t n, float* out) {
  const int64_t in = t.row_values(), each = dtype_bytes(t.bytes.dtype);
  to_float32({static_cast<const char*>(t.bytes.data) + first * in * each, t.bytes.dtype, {n, in}}, out);
  const int64_t scales = t.scale.count(), width = dtype_bytes(t.scale.dtype);
  for (int64_t r = 0; r < n; ++r) {
    float s;
    to_float32({static_cast<const char*>(t.scale.data) + (scales == 1 ? 0 : first + r) * width, t.scale.dtype, {1}}, &s);
    for (int64_t i = 0; i < in; ++i) out[r * in + i] *= s;
    if (t.rotation) turn(out + r * in, in, t.rotation);
  }
}

// Values [first, first + n) of the tensor. Rows of a folded tensor need not begin with a block.
void read_gguf(const Stored& t, int64_t first, int64_t n, float* out) {
  const int64_t block = gguf_block_values(t.type), from = first / block, until = (first + n + block - 1) / block;
  const char* codes = static_cast<const char*>(t.bytes.data) + from * gguf_block_bytes(t.type);
  if (first % block == 0 && n % block == 0) return gguf_decode(t.type, codes, n, out);
  std::vector<float> whole(static_cast<size_t>((until - from) * block));
  gguf_decode(t.type, codes, (until - from) * block, whole.data());
  std::copy_n(whole.begin() + (first - from * block), n, out);
}

void check_finite(const Stored& t, const std::string& file) {
  for (float v : to_float32(t.scale))
    if (!std::isfinite(v)) fail(ErrorKind::model, "{}: tensor {}: its scale is {}, wanted a finite number", file, t.name, v);
  if (!std::isfinite(t.scale2)) fail(ErrorKind::model, "{}: tensor {}: its second scale is {}, wanted a finite number", file, t.name, t.scale2);
}

// What a graph editor says of one layer: {"format": "int8_tensorwise", "convrot": true, "convrot_groupsize": 256}.
struct Quantised {
  std::string format;
  int64_t rotation = 0;
};

Quantised parse_quantised(const Json& json, const std::string& origin) {
  JsonView j(json, origin);
  Quantised q{j.text("format"), 0};
  if (j.boolean("convrot", false)) q.rotation = j.integer("convrot_groupsize", 4, kMaxRotation);
  for (int64_t g = q.rotation; g > 1; g /= 4)
    if (g % 4) fail(ErrorKind::model, "{}: convrot_groupsize is {}, wanted a power of 4", origin, q.rotation);
  if (q.format != "float8_e4m3fn" && q.format != "float8_e5m2" && q.format != "int8_tensorwise" && q.format != "nvfp4")
    fail(ErrorKind::model, "{}: unknown format \"{}\"; read are float8_e4m3fn, float8_e5m2, int8_tensorwise and nvfp4", origin, q.format);
  return q;
}

void apply(Stored& t, const Quantised& q, const View* scale, const View* scale2, const std::string& file) {
  auto refuse = [&](const std::string& found) { fail(ErrorKind::model, "{}: tensor {} is {}: {}", file, t.name, q.format, found); };
  if (!scale) refuse("its weight_scale is missing");
  if (t.shape.size() != 2) refuse(fmt::format("its shape is {}, wanted a matrix", to_string(t.shape)));
  t.scale = *scale;
  if (q.format == "nvfp4") {
    if (t.bytes.dtype != DType::u8) refuse(fmt::format("its type is {}, wanted U8", dtype_name(t.bytes.dtype)));
    t.shape[1] *= 2;
    const int64_t groups = t.shape[1] / kNvfp4Group;
    const int64_t wanted = (t.shape[0] + 127) / 128 * ((groups + 3) / 4) * 512;
    if (t.shape[1] % kNvfp4Group || scale->dtype != DType::f8_e4m3 || scale->count() != wanted)
      refuse(fmt::format("its scales are {} {}, wanted F8_E4M3 and {} of them", dtype_name(scale->dtype), to_string(scale->shape), wanted));
    if (!scale2 || scale2->count() != 1) refuse("its weight_scale_2 is missing or no single number");
    t.scale2 = to_float32(*scale2)[0];
    t.coding = Stored::Coding::nvfp4;
  } else {
    if (scale->count() != 1 && scale->count() != t.shape[0])
      refuse(fmt::format("its weight_scale has shape {}, wanted one value or {}", to_string(scale->shape), t.shape[0]));
    const DType wanted = q.format == "int8_tensorwise" ? DType::i8 : q.format == "float8_e5m2" ? DType::f8_e5m2 : DType::f8_e4m3;
    if (t.bytes.dtype != wanted) refuse(fmt::format("its type is {}, wanted {}", dtype_name(t.bytes.dtype), dtype_name(wanted)));
    if (q.rotation && t.shape[1] % q.rotation) refuse(fmt::format("its {} inputs are no multiple of convrot_groupsize {}", t.shape[1], q.rotation));
    t.rotation = q.rotation;
    t.coding = Stored::Coding::scaled;
  }
  check_finite(t, file);
}

// A class in the config beside the files that only the released folders of original names have.
bool released_config(const fs::path& folder) {
  std::error_code e;
  const fs::path path = folder / "config.json";
  if (!fs::exists(path, e)) return false;
  const Json json = read_json(path.string());
  return json.is_object() && json.value("_class_name", Json()) == Json("MiniMaxH3DiTModel");
}

}  // namespace

std::string Stored::coding_name() const {
  switch (coding) {
    case Coding::plain: return std::string(dtype_name(bytes.dtype));
    case Coding::scaled: return fmt::format("{} {}", dtype_name(bytes.dtype), rotation ? "rotated" : "scaled");
    case Coding::nvfp4: return "NVFP4";
    case Coding::gguf: return std::string(gguf_type_name(type));
  }
  return "";
}

void read_rows(const Stored& t, int64_t first, int64_t n, float* out) {
  const int64_t in = t.row_values();
  switch (t.coding) {
    case Stored::Coding::plain:
      return to_float32({static_cast<const char*>(t.bytes.data) + first * in * dtype_bytes(t.bytes.dtype), t.bytes.dtype, {n, in}}, out);
    case Stored::Coding::scaled: return read_scaled(t, first, n, out);
    case Stored::Coding::nvfp4: return read_nvfp4(t, first, n, out);
    case Stored::Coding::gguf: return read_gguf(t, first * in, n * in, out);
  }
}

void WeightFiles::add(Stored t) {
  std::string_view prefix;
  if (starts_with_any(t.name, prefix)) t.name.erase(0, prefix.size());
  if (!index_.emplace(t.name, tensors_.size()).second) fail(ErrorKind::model, "{}: tensor {} stands twice, with and without a prefix", origin_, t.name);
  tensors_.push_back(std::move(t));
}

// Joins X.weight with X.weight_scale, .weight_scale_2, .input_scale (of activations, which stay exact here) and .comfy_quant.
void WeightFiles::attach_scales() {
  constexpr std::string_view kParts[] = {".weight_scale", ".weight_scale_2", ".input_scale", ".comfy_quant", ".scale_weight", ".scale_input"};
  std::map<std::string, std::map<std::string_view, View>> layers;
  std::vector<Stored> kept;
  for (Stored& t : tensors_) {
    const auto part = std::find_if(std::begin(kParts), std::end(kParts), [&](std::string_view p) { return t.name.ends_with(p); });
    if (part != std::end(kParts)) layers[t.name.substr(0, t.name.size() - part->size())][*part] = t.bytes;
    else if (t.name != "scaled_fp8") kept.push_back(std::move(t));   // an empty marker
  }
  tensors_ = std::move(kept);
  index_.clear();
  for (size_t i = 0; i < tensors_.size(); ++i) index_[tensors_[i].name] = i;
  for (auto& [layer, format] : formats_) layers[layer];
  for (auto& [layer, parts] : layers) {
    auto it = index_.find(layer + ".weight");
    if (it == index_.end()) fail(ErrorKind::model, "{}: scales of {}.weight, but no such tensor", origin_, layer);
    Stored& t = tensors_[it->second];
    auto part = [&p = parts](std::string_view name) { return p.count(name) ? &p[name] : nullptr; };
    Quantised q;
    if (const View* text = part(".comfy_quant")) {
      const std::string origin = *t.file + ": tensor " + layer + ".comfy_quant";
      if (text->dtype != DType::u8 || text->bytes() > 4096) fail(ErrorKind::model, "{}: wanted JSON in at most 4096 U8", origin);
      q = parse_quantised(parse_json({static_cast<const char*>(text->data), static_cast<size_t>(text->bytes())}, origin), origin);
    } else if (formats_.count(layer)) {
      const std::string origin = *t.file + ": _quantization_metadata of " + layer;
      q = parse_quantised(parse_json(formats_[layer], origin), origin);
    } else {
      q.format = t.bytes.dtype == DType::i8 ? "int8_tensorwise" : t.bytes.dtype == DType::f8_e5m2 ? "float8_e5m2" : "float8_e4m3fn";
    }
    const View* scale = part(".weight_scale") ? part(".weight_scale") : part(".scale_weight");
    apply(t, q, scale, part(".weight_scale_2"), *t.file);
  }
}

WeightFiles::WeightFiles(SafetensorsSet files) : origin_(files.origin()), set_(std::move(files)) {
  bool marked = false;
  for (const SafetensorsFile& f : set_->files()) {
    for (const NamedView& v : f.tensors()) {
      std::string_view prefix;
      marked |= v.name.ends_with(".comfy_quant") || v.name == "adaln_t_table" || starts_with_any(v.name, prefix);
      Stored t;
      t.name = v.name, t.shape = v.view.shape, t.bytes = v.view, t.file = &f.path();
      add(std::move(t));
    }
    if (auto it = f.metadata().find("_quantization_metadata"); it != f.metadata().end()) {
      const std::string origin = f.path() + ": _quantization_metadata";
      const Json json = parse_json(it->second, origin);
      for (const auto& [layer, q] : JsonView(json, origin).child("layers").json().items()) {
        std::string_view prefix;
        formats_[starts_with_any(layer, prefix) ? layer.substr(prefix.size()) : layer] = q.dump();
      }
      marked = true;
    }
  }
  attach_scales();
  const fs::path path(origin_);
  fused_by_head_ = !marked && (path.extension() == ".json" || released_config(path.parent_path()));
}

WeightFiles::WeightFiles(GgufFile file) : origin_(file.path()), gguf_(std::move(file)) {
  const GgufHeader& h = gguf_->header();
  for (const GgufTensor& g : h.tensors) {
    Stored t;
    t.name = g.name, t.shape = g.shape, t.coding = Stored::Coding::gguf, t.type = g.type, t.file = &gguf_->path();
    t.bytes = {g.data, DType::u8, {g.bytes}};
    // Rows that are no whole blocks were folded: the true shape is in the metadata.
    if (auto it = h.integer_lists.find("comfy.gguf.orig_shape." + g.name); it != h.integer_lists.end()) {
      int64_t count = 1;
      for (int64_t d : it->second)
        if (d < 1 || __builtin_mul_overflow(count, d, &count)) fail(ErrorKind::model, "{}: tensor {}: its orig_shape holds {}", origin_, g.name, d);
      if (count != element_count(g.shape))
        fail(ErrorKind::model, "{}: tensor {} has shape {}, its orig_shape {} other values", origin_, g.name, to_string(g.shape), to_string(it->second));
      t.shape = it->second;
    }
    if (g.type == GgufType::f32 || g.type == GgufType::f16 || g.type == GgufType::bf16) {
      t.coding = Stored::Coding::plain;
      t.bytes = {g.data, g.type == GgufType::f32 ? DType::f32 : g.type == GgufType::f16 ? DType::f16 : DType::bf16, t.shape};
    }
    add(std::move(t));
  }
}

const Stored* WeightFiles::find(const std::string& name) const {
  auto it = index_.find(name);
  return it == index_.end() ? nullptr : &tensors_[it->second];
}

const Stored* Staging::find(const Stored& of) const {
  for (const auto& [from, here] : tensors_)
    if (from == &of) return &here;
  return nullptr;
}

// The file in whose mapping `bytes` stand.
const MappedFile& WeightFiles::holder(std::span<const std::byte> bytes) const {
  if (gguf_) return gguf_->mapped();
  for (const SafetensorsFile& f : set_->files()) {
    const std::span<const std::byte> all = f.mapped().bytes();
    if (bytes.data() >= all.data() && bytes.data() < all.data() + all.size()) return f.mapped();
  }
  fail(ErrorKind::internal, "{}: bytes of a tensor stand in none of its files", origin_);
}

void WeightFiles::read(std::span<const Stored* const> tensors, Staging& out, bool forget, const std::atomic<bool>& stop) const {
  auto room = [](const View& v) { return (bytes_of(v).size() + 63) / 64 * 64; };
  size_t total = 0;
  for (const Stored* t : tensors) total += room(t->bytes) + room(t->scale);
  out.tensors_.clear();
  if (out.buffer_.size() < total) out.buffer_ = {}, out.buffer_ = Buffer(total);
  std::byte* to = out.buffer_.as<std::byte>();
  for (const Stored* t : tensors) {
    Stored here = *t;
    for (View* v : {&here.bytes, &here.scale}) {
      const std::span<const std::byte> bytes = bytes_of(*v);
      if (bytes.empty()) continue;
      try {
        holder(bytes).read(bytes, to, forget, stop);
      } catch (const Error& e) {
        fail(e.kind, "{} (tensor {})", e.what(), t->name);
      }
      v->data = to, to += room(*v);
    }
    out.tensors_.emplace_back(t, std::move(here));
  }
}

void WeightFiles::release_pages(const Stored& t) const {
  if (const auto bytes = bytes_of(t.bytes); !bytes.empty()) holder(bytes).release_pages(bytes);
}

void WeightFiles::release_pages() const {
  for (const Stored& t : tensors_) release_pages(t);
}

int64_t WeightFiles::total_bytes() const {
  if (set_) return set_->total_bytes();
  int64_t n = 0;
  for (const GgufTensor& t : gguf_->header().tensors) n += t.bytes;
  return n;
}

std::vector<SafetensorsSet::FileHash> WeightFiles::sha256() const { return set_ ? set_->sha256() : std::vector<SafetensorsSet::FileHash>{}; }

WeightFiles open_checkpoint(const std::string& path) {
  std::error_code e;
  if (path.ends_with(".gguf")) return WeightFiles(GgufFile(path));
  if (fs::is_directory(path, e)) {
    std::vector<std::string> found;
    bool others = false;
    for (fs::directory_iterator it(path, e), end; !e && it != end; it.increment(e)) {
      const std::string name = it->path().filename().string();
      if (name.ends_with(".gguf")) found.push_back(it->path().string());
      others |= name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json");
    }
    if (found.size() == 1 && !others) return WeightFiles(GgufFile(found[0]));
    if (!found.empty()) fail(ErrorKind::model, "{}: found {} beside other weights, wanted one checkpoint; remove the other", path, found[0]);
  }
  return open_weights(path);
}

}  // namespace zt

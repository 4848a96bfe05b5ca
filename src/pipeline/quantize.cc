#include "pipeline/quantize.h"

#include <array>
#include <cmath>

#include "formats/gguf_write.h"
#include "formats/safetensors_write.h"
#include "pipeline/rewrite.h"
#include "tensor/block_format.h"

namespace zt {

namespace {

constexpr BlockFormat kFp8 = BlockFormat::mxfp8_e4m3;
constexpr std::string_view kFp8Note = R"({"format": "float8_e4m3fn"})";

// Sums of what the file will say against what the source says.
struct Difference {
  double error = 0, norm = 0, top = 0;
  void add(const std::vector<float>& want, const std::vector<float>& got) {
    for (size_t i = 0; i < want.size(); ++i) {
      const double d = static_cast<double>(got[i]) - want[i];
      error += d * d, norm += static_cast<double>(want[i]) * want[i], top = std::max(top, std::abs(d));
    }
  }
  void store(QuantizedTensor& q, const std::string& type) const {
    if (!std::isfinite(top)) fail(ErrorKind::request, "tensor {} holds values that {} cannot; choose BF16 or another --type", q.name, type);
    q.relative_l2 = norm > 0 ? std::sqrt(error / norm) : std::sqrt(error), q.max_abs = top;
  }
};

void finish_tensor(const RewriteSource& s, const SpelledTensor& t, const Difference& difference, QuantizedTensor q, QuantizeReport& report,
                   const std::function<void(const QuantizedTensor&)>& done) {
  difference.store(q, q.type);
  t.release_pages(s.files);
  done(q);
  report.tensors.push_back(std::move(q));
}

GgufType plain_type(DType d) { return d == DType::bf16 ? GgufType::bf16 : d == DType::f16 ? GgufType::f16 : GgufType::f32; }

// Why a tensor keeps its type; "" if it does not.
std::string kept_because(const SpelledTensor& t, int64_t block) {
  if (t.use == TensorSpec::Use::island) return "computed in float32";
  if (t.use != TensorSpec::Use::matrix) return "vector, norm or table";
  if (t.shape.size() != 2) return "no matrix";
  return element_count(t.shape) % block ? fmt::format("{} values are no whole blocks", element_count(t.shape)) : "";
}

void write_gguf(const RewriteSource& s, GgufType type, const std::string& path, QuantizeReport& report, const std::atomic<bool>& cancel,
                const std::function<void(const QuantizedTensor&)>& done) {
  std::vector<GgufPlanned> planned;
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const SpelledTensor& t : s.tensors) {
    const bool coded = kept_because(t, gguf_block_values(type)).empty();
    Shape shape = t.shape;
    const int64_t block = coded ? gguf_block_values(type) : 1;
    if (shape.size() > 4) shape = {t.rows(), t.row_values()};                                        // the format's limit
    else if (!shape.empty() && shape.back() % block) shape = {element_count(t.shape) / block, block};   // rows folded into whole blocks
    if (shape != t.shape) shapes["comfy.gguf.orig_shape." + t.name] = t.shape;
    planned.push_back({t.name, coded ? type : plain_type(t.dtype), shape});
  }
  const bool text = report.component == "text_encoder";
  GgufWriter writer(path, planned, {{"general.architecture", text ? "qwen3vl" : "wan"}}, shapes);   // the names that readers of these files look for
  for (size_t i = 0; i < s.tensors.size(); ++i) {
    const SpelledTensor& t = s.tensors[i];
    const GgufPlanned& p = planned[i];
    QuantizedTensor q{t.name, t.shape, std::string(dtype_name(t.dtype)), std::string(gguf_type_name(p.type)), kept_because(t, gguf_block_values(type)), 0, 0, p.bytes()};
    Difference difference;
    std::vector<char> codes;
    std::vector<float> back;
    std::vector<float> next;      // values of a block that a part of the rows began
    for_each_part(t, cancel, [&](const std::vector<float>& part) {
      const int64_t block = gguf_block_values(p.type);
      std::vector<float> x = std::move(next);
      x.insert(x.end(), part.begin(), part.end());
      const auto n = static_cast<int64_t>(x.size()) / block * block;
      next.assign(x.begin() + n, x.end());
      x.resize(static_cast<size_t>(n));
      codes.resize(static_cast<size_t>(n / block * gguf_block_bytes(p.type)));
      back.resize(x.size());
      gguf_encode(p.type, x.data(), n, codes.data());
      gguf_decode(p.type, codes.data(), n, back.data());
      difference.add(x, back);
      writer.write(codes.data(), codes.size());
    });
    finish_tensor(s, t, difference, std::move(q), report, done);
  }
  writer.commit();
}

// The places of a quantised tensor in the file: its codes, their scale, and what names the format.
struct Fp8Places { size_t codes, scale = 0, note = 0; };

void write_fp8(const RewriteSource& s, const std::string& path, QuantizeReport& report, const std::atomic<bool>& cancel,
               const std::function<void(const QuantizedTensor&)>& done) {
  const std::string prefix = report.component == "text_encoder" ? "" : kSingleFilePrefix;
  std::vector<NamedView> planned;
  std::vector<Fp8Places> places;
  for (const SpelledTensor& t : s.tensors) {
    const bool coded = kept_because(t, 1).empty();
    places.push_back({planned.size()});
    planned.push_back({prefix + t.name, {nullptr, coded ? DType::f8_e4m3 : t.dtype, t.shape}});
    if (!coded) continue;
    const std::string layer = prefix + t.name.substr(0, t.name.size() - std::string_view(".weight").size());
    places.back().scale = planned.size();
    planned.push_back({layer + ".weight_scale", {nullptr, DType::f32, {}}});
    places.back().note = planned.size();
    planned.push_back({layer + ".comfy_quant", {nullptr, DType::u8, {static_cast<int64_t>(kFp8Note.size())}}});
  }
  std::array<float, 256> values;
  for (size_t c = 0; c < values.size(); ++c) values[c] = element_value(kFp8, static_cast<uint8_t>(c));
  SafetensorsWriter writer(path, planned);
  for (size_t i = 0; i < s.tensors.size(); ++i) {
    const SpelledTensor& t = s.tensors[i];
    const DType dtype = planned[places[i].codes].view.dtype;
    const bool coded = dtype == DType::f8_e4m3;
    QuantizedTensor q{t.name, t.shape, std::string(dtype_name(t.dtype)), std::string(dtype_name(dtype)), kept_because(t, 1), 0, 0, planned[places[i].codes].view.bytes()};
    float scale = 1;
    if (coded) {
      float top = 0;
      for_each_part(t, cancel, [&top](const std::vector<float>& x) {
        for (float v : x) top = std::max(top, std::abs(v));
      });
      scale = top > 0 ? top / max_element(kFp8) : 1;
      writer.begin(places[i].scale), writer.write(&scale, sizeof scale);
      writer.begin(places[i].note), writer.write(kFp8Note.data(), kFp8Note.size());
    }
    Difference difference;
    std::vector<char> codes;
    std::vector<float> back;
    writer.begin(places[i].codes);
    for_each_part(t, cancel, [&](const std::vector<float>& x) {
      codes.resize(x.size() * static_cast<size_t>(dtype_bytes(dtype)));
      back.resize(x.size());
      if (coded) {
        for (size_t k = 0; k < x.size(); ++k) {
          const uint8_t code = element_code(kFp8, x[k] / scale);
          codes[k] = static_cast<char>(code), back[k] = values[code] * scale;
        }
      } else {
        gguf_encode(plain_type(dtype), x.data(), static_cast<int64_t>(x.size()), codes.data());
        back = x;
      }
      difference.add(x, back);
      writer.write(codes.data(), codes.size());
    });
    finish_tensor(s, t, difference, std::move(q), report, done);
  }
  writer.commit();
}

}  // namespace

std::vector<std::string> quantize_types() { return {"F32", "F16", "BF16", "Q8_0", "Q6_K", "Q5_K", "Q5_1", "Q5_0", "Q4_K", "Q4_1", "Q4_0", "fp8"}; }

QuantizeReport quantize_component(const std::string& model, const std::string& component, const std::string& type, const std::string& out,
                                  const std::atomic<bool>& cancel, const std::function<void(const QuantizedTensor&)>& done) {
  QuantizeReport report;
  report.component = component;
  const auto source = open_rewrite(model, component, Spelling::stacked);
  report.left_out = source->left_out;
  report.bytes_before = source->files.total_bytes();
  GgufType gguf{};
  if (type == "fp8") {
    report.file = component + "-fp8_scaled.safetensors";
    write_fp8(*source, out + "/" + report.file, report, cancel, done);
  } else if (gguf_writable(type, gguf)) {
    report.file = fmt::format("{}-{}.gguf", component, type);
    write_gguf(*source, gguf, out + "/" + report.file, report, cancel, done);
  } else {
    fail(ErrorKind::request, "--type {}: found no such type, wanted one of {}", type, fmt::join(quantize_types(), ", "));
  }
  for (const QuantizedTensor& t : report.tensors) report.bytes += t.bytes;
  return report;
}

}  // namespace zt

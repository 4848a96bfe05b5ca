#include "pipeline/convert.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "formats/gguf_write.h"
#include "formats/safetensors_write.h"
#include "models/minimax_h3/dit.h"
#include "pipeline/rewrite.h"

namespace zt {

namespace {

constexpr const char* kRope = "rope.inv_freq";
constexpr const char* kShard = "model-00001-of-00001.safetensors";

void write_text(const std::string& path, const std::string& text) {
  OutputFile f(path);
  f.write(text.data(), text.size());
  f.commit();
}

GgufType encoder(DType d) { return d == DType::bf16 ? GgufType::bf16 : d == DType::f16 ? GgufType::f16 : GgufType::f32; }

void write_tensors(const RewriteSource& s, const std::string& prefix, const std::vector<float>& rope, const std::string& type, const std::string& path,
                   ConvertReport& report, std::vector<NamedView>& planned, const std::atomic<bool>& cancel) {
  for (const SpelledTensor& t : s.tensors) {
    const DType dtype = type == "F32" ? DType::f32 : type == "BF16" && t.use != TensorSpec::Use::foreign ? DType::bf16 : t.dtype;
    planned.push_back({prefix + t.name, {nullptr, dtype, t.shape}});
    report.widened += std::any_of(t.runs.begin(), t.runs.end(), [](const SpelledTensor::Run& r) { return r.from.stored->coding != Stored::Coding::plain; });
  }
  if (!rope.empty()) planned.push_back({prefix + kRope, {nullptr, DType::f32, {static_cast<int64_t>(rope.size())}}});
  SafetensorsWriter writer(path, planned, {{"format", "pt"}});   // what the loaders of other programs ask for
  std::vector<char> bytes;
  for (size_t i = 0; i < s.tensors.size(); ++i) {
    const DType dtype = planned[i].view.dtype;
    writer.begin(i);
    for_each_part(s.tensors[i], cancel, [&](const std::vector<float>& x) {
      bytes.resize(x.size() * static_cast<size_t>(dtype_bytes(dtype)));
      gguf_encode(encoder(dtype), x.data(), static_cast<int64_t>(x.size()), bytes.data());
      writer.write(bytes.data(), bytes.size());
    });
    s.tensors[i].release_pages(s.files);
  }
  if (!rope.empty()) writer.begin(s.tensors.size()), writer.write(rope.data(), rope.size() * sizeof(float));
  writer.commit();
  report.tensors = static_cast<int64_t>(planned.size());
  for (const NamedView& v : planned) report.bytes += v.view.bytes();
}

}  // namespace

ConvertReport convert_component(const std::string& model, const std::string& component, Layout layout, const std::string& type, const std::string& out,
                                const std::atomic<bool>& cancel) {
  const std::string folder = model + "/" + component;
  const Spelling spelling = layout == Layout::diffusers ? Spelling::ours : layout == Layout::original ? Spelling::by_head : Spelling::stacked;
  const auto source = open_rewrite(model, component, spelling);
  const h3::DitConfig config = h3::read_dit_config(folder, source->files);
  const std::string layout_name = kLayouts[static_cast<size_t>(layout)];
  if (config.has_curve() && layout != Layout::single)
    fail(ErrorKind::request, "{}: its AdaLN reads a table over time, which layout {} does not have; --layout single does", folder, layout_name);
  ConvertReport report;
  report.component = component;
  report.file = layout == Layout::diffusers ? "diffusion_pytorch_model.safetensors" : layout == Layout::original ? kShard : component + ".safetensors";
  const bool has_rope = source->files.find(kRope) != nullptr;
  const std::vector<float> rope = layout == Layout::diffusers || has_rope ? std::vector<float>() : h3::rope_frequencies(config);
  std::vector<NamedView> planned;
  write_tensors(*source, layout == Layout::single ? kSingleFilePrefix : "", rope, type, out + "/" + report.file, report, planned, cancel);
  if (layout == Layout::original) save_index(out + "/model.safetensors.index.json", kShard, planned);

  // The config follows the weights: the released class beside a single file would be read as released shards.
  const std::string path = out + "/config.json";
  const bool diffusers = h3::stated_spelling(folder) == h3::DitSpelling::diffusers;
  std::error_code e;
  if (layout == Layout::original || !diffusers) std::filesystem::remove(path, e);
  if (layout == Layout::original) write_text(path, h3::dit_config_text(config, h3::DitSpelling::released));
  else if (layout == Layout::diffusers && !diffusers) write_text(path, h3::dit_config_text(config, h3::DitSpelling::diffusers));
  if (!(h3::read_dit_config(out, open_checkpoint(out)) == config))
    fail(ErrorKind::request, "{}: its config differs from the released model's where layout {} has no word for it; keep the diffusers layout, or --layout single", folder,
         layout_name);
  return report;
}

}  // namespace zt

#include "pipeline/rewrite.h"

#include <cmath>

#include "models/minimax_h3/dit.h"
#include "models/minimax_h3/model_index.h"
#include "models/qwen3_vl/config.h"

namespace zt {

namespace {
constexpr int64_t kPart = 1 << 20;         // values in memory, or one row
}

std::unique_ptr<RewriteSource> open_rewrite(const std::string& model, const std::string& component, Spelling spelling) {
  const std::string folder = model + "/" + component;
  const h3::ModelIndex index = h3::read_model_index(model);
  auto s = std::make_unique<RewriteSource>(RewriteSource{open_checkpoint(folder), {}, {}});
  const bool text = component == "text_encoder";
  s->specs = text ? qwen3_vl::tensor_specs(qwen3_vl::read_config(folder + "/config.json"), index.config.text_encoder_layer)
                  : h3::dit_tensor_specs(h3::read_dit_config(folder, s->files));
  const Binding binding = bind_tensors(s->files, s->specs);
  check_binding(binding, s->specs, folder);
  for (SpelledTensor& t : spell(s->specs, binding, text ? Spelling::ours : spelling))
    if (t.use == TensorSpec::Use::dead) ++s->left_out;
    else s->tensors.push_back(std::move(t));
  return s;
}

void for_each_part(const SpelledTensor& t, const std::atomic<bool>& cancel, const std::function<void(const std::vector<float>&)>& f) {
  const int64_t width = t.row_values(), some = std::max<int64_t>(1, kPart / std::max<int64_t>(1, width));
  std::vector<float> x;
  for (int64_t r = 0; r < t.rows() && width; r += some) {
    if (cancel) throw Cancelled();
    const int64_t n = std::min(some, t.rows() - r);
    x.resize(static_cast<size_t>(n * width));
    t.read(r, n, x.data());
    for (float v : x)
      if (!std::isfinite(v)) fail(ErrorKind::model, "{}: tensor {} holds {}, wanted finite numbers", *t.runs[0].from.stored->file, t.name, v);
    f(x);
  }
}

}  // namespace zt

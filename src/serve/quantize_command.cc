// zoetrope quantize: a model folder with smaller weights.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iostream>

#include "base/json.h"
#include "models/minimax_h3/model_index.h"
#include "pipeline/quantize.h"
#include "serve/commands.h"
#include "serve/job.h"
#include "serve/model_folder.h"

namespace zt {

namespace {

struct QuantizeOptions {
  std::string model, output, type;
  std::vector<std::string> components;
  bool json = false;
};

Json to_json(const QuantizeReport& r) {
  Json tensors = Json::array();
  for (const QuantizedTensor& t : r.tensors) {
    Json j{{"name", t.name}, {"shape", t.shape}, {"source", t.source}, {"type", t.type}, {"relative_l2", t.relative_l2}, {"max_abs", t.max_abs}, {"bytes", t.bytes}};
    if (!t.kept.empty()) j["kept"] = t.kept;
    tensors.push_back(j);
  }
  return {{"component", r.component}, {"file", r.component + "/" + r.file}, {"bytes_before", r.bytes_before},
          {"bytes", r.bytes},         {"unused_left_out", r.left_out},      {"tensors", tensors}};
}

std::vector<std::string> chosen(const QuantizeOptions& o, const std::string& model) {
  std::vector<std::string> out;
  for (const std::string& c : o.components.empty() ? std::vector<std::string>{"transformer", "transformer_ref"} : o.components) {
    if (std::find(kQuantizable.begin(), kQuantizable.end(), c) == kQuantizable.end())
      fail(ErrorKind::request, "--component {}: wanted {}", c, fmt::join(kQuantizable, ", "));
    std::error_code e;
    const bool there = std::filesystem::is_directory(model + "/" + c, e);
    if (!there && !o.components.empty()) fail(ErrorKind::request, "--component {}: {} has no such folder", c, model);
    if (there && std::find(out.begin(), out.end(), c) == out.end()) out.push_back(c);
  }
  return out;
}

int run(const QuantizeOptions& o) {
  const std::vector<std::string> types = quantize_types();
  if (std::find(types.begin(), types.end(), o.type) == types.end())
    fail(ErrorKind::request, "--type {}: found no such type, wanted one of {}", o.type, fmt::join(types, ", "));
  const std::string model = resolve_model_folder(o.model);
  h3::read_model_index(model);                     // what is no model is refused before anything is made
  const std::vector<std::string> components = chosen(o, model);
  const std::atomic<bool>& interrupted = catch_interrupts();
  NewModelFolder folder(model, o.output);
  folder.copy_rest({components.begin(), components.end()}, interrupted);
  Json reports = Json::array();
  for (const std::string& c : components) {
    if (!o.json) std::fputs(fmt::format("{}\n{:<52} {:>16} {:>9} {:>11} {:>11}\n", c, "tensor", "shape", "type", "relative L2", "max abs").c_str(), stdout);
    const QuantizeReport r = quantize_component(model, c, o.type, folder.component(c), interrupted, [&o](const QuantizedTensor& t) {
      if (o.json) return;
      std::fputs(fmt::format("{:<52} {:>16} {:>9} {:>11.3e} {:>11.3e}{}{}\n", t.name, to_string(t.shape), t.type, t.relative_l2, t.max_abs,
                             t.kept.empty() ? "" : "  kept: ", t.kept).c_str(), stdout);
    });
    if (!o.json)
      std::fputs(fmt::format("{}: {} bytes, {} before{}\n\n", r.file, r.bytes, r.bytes_before,
                             r.left_out ? fmt::format("; {} tensors that no clip reads are left out", r.left_out) : "").c_str(), stdout);
    reports.push_back(to_json(r));
  }
  folder.commit();
  const Json report{{"model", model}, {"output", o.output}, {"type", o.type}, {"components", reports}};
  if (o.json) std::cout << report.dump(1, ' ', false, Json::error_handler_t::replace) << "\n";
  return 0;
}

}  // namespace

Command quantize_command(CLI::App& root) {
  auto o = std::make_shared<QuantizeOptions>();
  CLI::App* app = root.add_subcommand("quantize", "Write a model folder with smaller weights, and what that costs tensor by tensor");
  app->add_option("model", o->model, "model folder (default: the h3-nano that comes with the program)")->type_name("DIR");
  app->add_option("--output,-o", o->output, "model folder to make")->required()->type_name("DIR");
  app->add_option("--type", o->type, fmt::format("of the matrices: {}", fmt::join(quantize_types(), ", ")))->required()->type_name("TYPE");
  app->add_option("--component", o->components, "transformer, transformer_ref or text_encoder; repeatable (default: the transformers)")
      ->type_name("NAME")->allow_extra_args(false)->take_all();
  app->add_flag("--json", o->json, "print one JSON document in place of the table");
  return {app, [o] { return report_errors([&o] { return run(*o); }); }};
}

}  // namespace zt

// zoetrope convert: a model folder with its transformers in another spelling.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iostream>

#include "base/json.h"
#include "models/minimax_h3/model_index.h"
#include "pipeline/convert.h"
#include "serve/commands.h"
#include "serve/job.h"
#include "serve/model_folder.h"

namespace zt {

namespace {

struct ConvertOptions {
  std::string model, output, layout, type;
  bool json = false;
};

int run(const ConvertOptions& o) {
  const auto layout = std::find(kLayouts.begin(), kLayouts.end(), o.layout);
  if (layout == kLayouts.end()) fail(ErrorKind::request, "--layout {}: found no such layout, wanted one of {}", o.layout, fmt::join(kLayouts, ", "));
  if (!o.type.empty() && o.type != "F32" && o.type != "BF16") fail(ErrorKind::request, "--type {}: found no such type, wanted F32 or BF16", o.type);
  const std::string model = resolve_model_folder(o.model);
  const h3::ModelIndex index = h3::read_model_index(model);
  std::set<std::string> components;
  if (index.has_transformer) components.insert("transformer");
  if (index.has_transformer_ref) components.insert("transformer_ref");
  const std::atomic<bool>& interrupted = catch_interrupts();
  NewModelFolder folder(model, o.output);
  folder.copy_rest(components, interrupted);
  Json reports = Json::array();
  for (const std::string& c : components) {
    const ConvertReport r = convert_component(model, c, static_cast<Layout>(layout - kLayouts.begin()), o.type, folder.component(c), interrupted);
    reports.push_back({{"component", c}, {"file", c + "/" + r.file}, {"tensors", r.tensors}, {"bytes", r.bytes}, {"widened", r.widened}});
    if (!o.json)
      std::fputs(fmt::format("{}/{}: {} tensors, {} bytes{}\n", c, r.file, r.tensors, r.bytes,
                             r.widened ? fmt::format("; {} were quantised and are F32 or BF16 now", r.widened) : "").c_str(), stdout);
  }
  folder.commit();
  const Json report{{"model", model}, {"output", o.output}, {"layout", o.layout}, {"components", reports}};
  if (o.json) std::cout << report.dump(1, ' ', false, Json::error_handler_t::replace) << "\n";
  return 0;
}

}  // namespace

Command convert_command(CLI::App& root) {
  auto o = std::make_shared<ConvertOptions>();
  CLI::App* app = root.add_subcommand("convert", "Write a model folder with its transformers in another spelling");
  app->add_option("model", o->model, "model folder (default: the h3-nano that comes with the program)")->type_name("DIR");
  app->add_option("--output,-o", o->output, "model folder to make")->required()->type_name("DIR");
  app->add_option("--layout", o->layout, "diffusers, original (released shards) or single (the graph editors' file)")->required()->type_name("LAYOUT");
  app->add_option("--type", o->type, "F32 or BF16 for every tensor (default: as it is)")->type_name("TYPE");
  app->add_flag("--json", o->json, "print one JSON document");
  return {app, [o] { return report_errors([&o] { return run(*o); }); }};
}

}  // namespace zt

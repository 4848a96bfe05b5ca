// zoetrope jobs: a look into a store and a hand on it, without a server.
#include <filesystem>
#include <iostream>

#include "base/error.h"
#include "serve/commands.h"
#include "serve/options.h"
#include "serve/store/job_store.h"

namespace zt {

namespace {

struct JobsArguments {
  std::string action, what, store, data, owner;
  int priority = kInteractivePriority, limit = 1000;
};

Json to_json(const Job& j) {
  const auto parsed = [](const std::string& text) { return text.empty() ? Json() : Json::parse(text, nullptr, false); };
  return {{"id", j.id},
          {"status", status_name(j.status)},
          {"owner", j.owner},
          {"priority", j.priority},
          {"created_ms", j.created_ms},
          {"started_ms", j.started_ms},
          {"ended_ms", j.ended_ms},
          {"stage", j.stage},
          {"percent", j.percent},
          {"worker", j.worker},
          {"attempt", j.attempt},
          {"checkpoint_step", j.checkpoint_step},
          {"error_code", j.error_code},
          {"error_message", j.error_message},
          {"error_param", j.error_param},
          {"options", parsed(j.options)},
          {"result", parsed(j.result)}};
}

int print(const Json& json) {
  std::cout << json.dump(1, ' ', false, Json::error_handler_t::replace) << "\n";
  return 0;
}

int print(const std::optional<Job>& job, const JobsArguments& a) {
  if (!job) fail(ErrorKind::request, "job \"{}\": there is none in this store", a.what);
  return print(to_json(*job));
}

int list(JobStore& store, const JobsArguments& a) {
  ListQuery query;
  query.limit = a.limit;
  query.ascending = true;
  if (!a.owner.empty()) query.owner = a.owner;
  Json all = Json::array();
  for (Page page{{}, true}; page.has_more;) {
    page = store.list(query);
    for (const Job& j : page.jobs) all.push_back(to_json(j));
    if (!page.jobs.empty()) query.after = page.jobs.back().id;
  }
  return print(all);
}

int add(JobStore& store, const JobsArguments& a) {
  Json options;
  try {
    options = parse_json(a.what, "jobs add");
    GenerateOptions checked;
    fill_from_json(options, checked);
  } catch (const Error& e) {
    throw Error(ErrorKind::request, e.what());
  }
  NewJob job;
  job.options = options.dump();
  job.request = "{}";
  job.owner = a.owner;
  job.priority = a.priority;
  return print(store.create(job).job, a);
}

int check(JobStore& store) {
  const auto wrong = store.check();
  for (const std::string& w : wrong) std::cout << w << "\n";
  if (wrong.empty()) std::cout << "the store is sound\n";
  return wrong.empty() ? 0 : exit_code(ErrorKind::resource);
}

int run(const JobsArguments& a) {
  if (a.store.empty() && a.data.empty()) fail(ErrorKind::request, "jobs: give --data DIR or --store URL");
  const auto store = open_store(a.store.empty() ? "sqlite:" + a.data + "/jobs.db" : a.store);
  if (a.action == "list") return list(*store, a);
  if (a.action == "check") return check(*store);
  if (a.what.empty()) fail(ErrorKind::request, "jobs {}: wanted {} after it", a.action, a.action == "add" ? "the options as JSON" : "an id");
  if (a.action == "add") return add(*store, a);
  if (a.action == "show") return print(store->get(a.what), a);
  if (a.action == "cancel") return print(store->request_cancel(a.what), a);
  const auto gone = store->erase(a.what);
  std::error_code ec;
  if (gone && !a.data.empty()) std::filesystem::remove_all(a.data + "/" + job_folder(gone->id), ec);
  return print(gone, a);
}

}  // namespace

Command jobs_command(CLI::App& root) {
  auto a = std::make_shared<JobsArguments>();
  CLI::App* app = root.add_subcommand("jobs", "List, show, add, cancel, delete jobs of a store, or check the store; prints JSON");
  app->add_option("action", a->action, "list, show, add, cancel, delete or check")
      ->required()
      ->check(CLI::IsMember({"list", "show", "add", "cancel", "delete", "check"}));
  app->add_option("what", a->what, "the job's id; for add, its options as JSON with the keys of `generate`")->type_name("ID|JSON");
  app->add_option("--data", a->data, "data folder of the server")->type_name("DIR");
  app->add_option("--store", a->store, "sqlite:PATH (default: sqlite:DIR/jobs.db) or postgresql://USER@HOST/DATABASE")->type_name("URL");
  app->add_option("--owner", a->owner, "add: whose job it is; list: only his")->type_name("KEY");
  app->add_option("--priority", a->priority, "add: higher is first (default 10; batch is 0)")->type_name("N");
  return {app, [a] { return report_errors([&] { return run(*a); }); }};
}

}  // namespace zt

// zoetrope: a prompt becomes a video with sound.
#include "optimizer/doctor.h"
#include "optimizer/optimize.h"
#include "optimizer/plan_command.h"
#include "serve/commands.h"
#include "serve/job.h"

namespace {

zt::Command plan_command(CLI::App& root) {
  auto o = std::make_shared<zt::PlanCommandOptions>();
  CLI::App* app = root.add_subcommand("plan", "Predict stage times, memory and communication on this machine or another");
  app->add_option("model", o->model, "model folder; configs alone will do (default: h3-nano)")->type_name("DIR");
  app->add_option("--hardware", o->hardware, "profile by name or path (default: this machine, measured in some seconds)")->type_name("FILE");
  app->add_option("--stack", o->stack, "of the profile: library or tuned on a GPU (default tuned), a compute type on a CPU (default: the plan's)")->type_name("NAME");
  app->add_option("--plan", o->plan, "on a CPU: exact, fast or a plan file (default fast)")->type_name("PLAN");
  app->add_option("--ranks", o->ranks, "GPUs or machines that share the clip, 1 to 8 (default 1)")->type_name("N");
  app->add_option("--size", o->size, "pixels (default: the model's canvas at 16:9)")->type_name("WxH");
  app->add_option("--frames", o->frames, "aligned up to 17 n + 5 (default 124)")->type_name("N");
  app->add_option("--evaluations", o->evaluations, "of the denoiser (default 49, the reference's)")->type_name("N");
  app->add_option("--text-rows", o->text_rows, "tokens of the prompt (default 64)")->type_name("N");
  app->add_option("--threads", o->threads, "of the measurement (default: the cores this process may use)")->type_name("N");
  app->add_flag("--json", o->json, "print one JSON document");
  return {app, [o] {
            return zt::report_errors([&] {
              o->model = zt::resolve_model_folder(o->model);
              return zt::run_plan_command(*o);
            });
          }};
}

zt::Command optimize_command(CLI::App& root) {
  auto o = std::make_shared<zt::OptimizeOptions>();
  CLI::App* app = root.add_subcommand("optimize", "Search a plan by measuring on this machine, and write it");
  app->add_option("model", o->model, "model folder (default: h3-nano)")->type_name("DIR");
  app->add_option("--output,-o", o->output, "plan file to write (default plan.json)")->type_name("FILE");
  app->add_option("--report", o->report, "page to write: plot, gains, stills")->type_name("FILE");
  app->add_option("--name", o->name, "name of the plan (default: the file's)")->type_name("NAME");
  app->add_option("--quality", o->quality, "largest error against plan exact: relative L2 of latents, frames and sound (default 0.05)")->type_name("Q");
  app->add_option("--seconds-per-second", o->seconds_per_second, "instead: as exact as this speed allows")->type_name("R");
  app->add_option("--frames", o->frames, "length of the clips that are compared (default 39)")->type_name("N");
  app->add_option("--evaluations", o->evaluations, "of the reference (default 49)")->type_name("N");
  app->add_option("--prompts", o->prompts_file, "held-out prompts, one a line (default: six of h3-nano's world)")->type_name("FILE");
  app->add_option("--count", o->prompts, "how many of the prompts (default 3)")->type_name("N");
  app->add_option("--rounds", o->rounds, "timed rounds of each option (default 2)")->type_name("N");
  app->add_option("--threads", o->threads, "worker threads (default: the cores this process may use)")->type_name("N");
  app->add_option("--skip", o->skip,
                  "passes to leave out: adaln_tables, overlap, denoiser, attention, video_decoder, text_encoder, reuse, evaluations")->type_name("NAMES");
  app->add_option("--encoder-preset", o->encoder_preset, "x264's preset that the plan asks for (not searched)")->type_name("NAME");
  app->add_option("--sound-coder", o->sound_coder, "AAC's search that the plan asks for, twoloop or fast (not searched)")->type_name("NAME");
  app->add_flag("--cpu-time", o->cpu_time, "compare processor time, not the clock (with --threads 1; for a busy machine)");
  app->add_flag("--json", o->json, "print the plan");
  app->add_flag("--quiet,-q", o->quiet, "no progress");
  return {app, [o] {
            return zt::report_errors([&] {
              o->model = zt::resolve_model_folder(o->model);
              return zt::run_optimize_command(*o);
            });
          }};
}

zt::Command doctor_command(CLI::App& root) {
  auto o = std::make_shared<zt::DoctorOptions>();
  CLI::App* app = root.add_subcommand("doctor", "Say what a model is, whether it is whole, and what it will take on this machine");
  app->add_option("model", o->model, "model folder (default: h3-nano)")->type_name("DIR");
  app->add_option("--size", o->size, "pixels of the clip (default: the model's canvas at 16:9)")->type_name("WxH");
  app->add_option("--frames", o->frames, "of the clip, aligned up to 17 n + 5 (default 124)")->type_name("N");
  app->add_option("--threads", o->threads, "worker threads (default: the cores this process may use)")->type_name("N");
  app->add_option("--memory", o->memory_mib, "MiB that may be used (default: nine tenths of the machine's); 0: no limit")->type_name("MIB");
  app->add_flag("--verify", o->verify, "read every tensor: shape, type, NaN, scale, SHA-256 where an index states one");
  app->add_flag("--json", o->json, "print one JSON document");
  return {app, [o] {
            return zt::report_errors([&] {
              o->model = zt::resolve_model_folder(o->model);
              return zt::run_doctor_command(*o);
            });
          }};
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"zoetrope: a prompt becomes a video with sound"};
  app.set_version_flag("--version", std::string("zoetrope ") + zt::kVersion);
  app.require_subcommand(1);
  const zt::Command commands[] = {zt::generate_command(app), zt::inspect_command(app), doctor_command(app), plan_command(app), optimize_command(app),
                                  zt::serve_command(app), zt::live_command(app), zt::worker_command(app), zt::jobs_command(app), zt::key_command(app),
                                  zt::decode_medium_command(app),
                                  zt::compare_command(app), zt::quantize_command(app),
                                  zt::convert_command(app)};
  try {
    app.parse(zt::command_line(argc, argv));
  } catch (const CLI::ParseError& e) {
    const int code = app.exit(e);
    return code == 0 ? 0 : 2;
  }
  for (const zt::Command& c : commands)
    if (*c.app) return c.run();
  return 2;
}

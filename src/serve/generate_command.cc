// zoetrope generate: options, progress, the table at the end.
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <iostream>

#include "serve/commands.h"
#include "serve/job.h"

namespace zt {

namespace {

using Clock = std::chrono::steady_clock;

std::atomic<bool> g_interrupted{false};   // set by a signal, which has no argument to travel by

void on_signal(int) { g_interrupted = true; }

// One line a stage: a bar with an ETA on a terminal, plain lines elsewhere. Everything on stderr.
class Progress {
 public:
  explicit Progress(bool quiet) : quiet_(quiet), terminal_(isatty(STDERR_FILENO) != 0) {}
  ~Progress() { end_line(); }

  void update(Stage stage, int64_t done, int64_t total) {
    if (quiet_) return;
    const auto now = Clock::now();
    if (stage != stage_ || !started_) {
      end_line();
      stage_ = stage, started_ = true, start_ = now;
      if (!terminal_) std::fprintf(stderr, "%s...\n", stage_name(stage));
    }
    if (!terminal_) return;
    const double elapsed = std::chrono::duration<double>(now - start_).count();
    constexpr int kWidth = 30;
    const int filled = total > 0 ? static_cast<int>(done * kWidth / total) : 0;
    std::string eta = done > 0 && done < total ? fmt::format("  ETA {:.0f} s", elapsed * static_cast<double>(total - done) / static_cast<double>(done)) : "";
    std::string line = fmt::format("{:<13} [{}{}] {}/{}  {:.1f} s{}", stage_name(stage), std::string(static_cast<size_t>(filled), '#'),
                                   std::string(static_cast<size_t>(kWidth - filled), '.'), done, total, elapsed, eta);
    std::fprintf(stderr, "\r%s\033[K", line.c_str());
    std::fflush(stderr);
    open_line_ = true;
  }

 private:
  void end_line() {
    if (open_line_) std::fputc('\n', stderr);
    open_line_ = false;
  }
  bool quiet_, terminal_, started_ = false, open_line_ = false;
  Stage stage_ = Stage::load;
  Clock::time_point start_;
};

void print_table(const JobReport& r, std::FILE* out) {
  const ClipInfo& c = r.result.clip;
  const double seconds = static_cast<double>(c.num_frames) / c.fps;
  std::string text = fmt::format("{:<14} {:>6} {:>10} {:>10} {:>7}\n", "stage", "runs", "seconds", "a run", "share");
  for (const StageTime& s : r.result.stages)
    text += fmt::format("{:<14} {:>6} {:>10.3f} {:>10.4f} {:>6.1f}%\n", stage_name(s.stage), s.runs, s.seconds,
                        s.seconds / static_cast<double>(std::max<int64_t>(1, s.runs)), 100 * s.seconds / r.total_seconds);
  text += fmt::format("{:<14} {:>6} {:>10.3f}\n", "total", "", r.total_seconds);
  text += fmt::format("{}: {}x{}, {} frames, {:.2f} s; {} steps = {} evaluations, seed {}, plan {}, {} on {} threads\n", r.output, c.width, c.height,
                      c.num_frames, seconds, r.request.grid_points, r.result.evaluations, r.request.seed, r.plan.name, r.isa, r.threads);
  text += fmt::format("{:.2f} s of work for each second of clip; peak memory {:.0f} MiB ({:.0f} MiB of activations)\n", r.total_seconds / seconds,
                      static_cast<double>(r.peak_rss_bytes) / 1048576, static_cast<double>(r.result.peak_activation_bytes) / 1048576);
  std::fputs(text.c_str(), out);
}

// CLI11 2.1 lets strtoull wrap negative numbers and saturate large ones.
std::string whole_number(const std::string& text) {
  uint64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? "" : fmt::format("is {}; wanted a whole number from 0 to 2^64 - 1", text);
}

void bind_options(CLI::App* app, GenerateOptions& o) {
  for (const OptionSpec& spec : generate_options()) {
    std::visit(
        [&](auto member) {
          if constexpr (std::is_same_v<decltype(member), bool GenerateOptions::*>) {
            app->add_flag(spec.flags, o.*member, spec.help);
          } else {
            CLI::Option* option = app->add_option(spec.flags, o.*member, spec.help)->type_name(spec.value);
            if constexpr (std::is_same_v<decltype(member), std::vector<std::string> GenerateOptions::*>)
              option->allow_extra_args(false)->take_all();
            else
              option->take_last();
            if constexpr (std::is_same_v<decltype(member), std::optional<uint64_t> GenerateOptions::*>)
              option->check(whole_number);
          }
        },
        spec.target);
  }
}

int run_generate(const GenerateOptions& o) {
  const std::atomic<bool>& interrupted = catch_interrupts();
  JobReport report;
  {
    Progress progress(o.quiet);
    Hooks hooks;
    hooks.cancel = &interrupted;
    hooks.progress = [&](Stage s, int64_t done, int64_t total) { progress.update(s, done, total); };
    report = run_job(o, resolve_model_folder(o.model), hooks);
  }
  if (o.json) std::cout << report_json(report).dump(1, ' ', false, Json::error_handler_t::replace) << "\n";
  if (!o.quiet) print_table(report, o.json ? stderr : stdout);
  for (const std::string& w : report.result.warnings) std::fputs(("zoetrope: warning: " + w + "\n").c_str(), stderr);
  return 0;
}

}  // namespace

std::vector<std::string> command_line(int argc, char** argv) {
  std::vector<std::string> out;
  for (int i = 1; i < argc; ++i) {
    std::string a = argv[i];
    const bool empty_value = a.size() > 3 && a.starts_with("--") && a.find('=') == a.size() - 1;
    out.push_back(empty_value ? a.substr(0, a.size() - 1) : a);
    if (empty_value) out.emplace_back();
  }
  std::reverse(out.begin(), out.end());
  return out;
}

const std::atomic<bool>& catch_interrupts() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  return g_interrupted;
}

int report_errors(const std::function<int()>& body) {
  try {
    return body();
  } catch (const Error& e) {
    std::fprintf(stderr, "zoetrope: %s\n", e.what());
    return exit_code(e.kind);
  } catch (const Cancelled&) {
    std::fprintf(stderr, "zoetrope: stopped; no file was written\n");
    return 130;
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "zoetrope: out of memory; ask for a smaller or shorter clip\n");
    return exit_code(ErrorKind::resource);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "zoetrope: internal error: %s\n", e.what());
    return exit_code(ErrorKind::internal);
  }
}

Command generate_command(CLI::App& root) {
  auto options = std::make_shared<GenerateOptions>();
  CLI::App* app = root.add_subcommand("generate", "Make a video with sound from a prompt");
  bind_options(app, *options);
  return {app, [options] { return report_errors([&] { return run_generate(*options); }); }};
}

}  // namespace zt

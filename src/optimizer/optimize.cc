#include "optimizer/optimize.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>

#include "models/minimax_h3/layout.h"

namespace zt {

namespace {

// Combinations that h3-nano was not trained on, in its world; any model can be given its own by --prompts.
const char* const kPrompts[] = {"a small green ring orbits slowly on a grey background", "a large red star spins fast on a navy background",
                                "a medium blue square slides right on a black background", "a small yellow triangle bounces on a white background",
                                "a large purple circle grows slowly on a grey background", "a medium orange star rises on a navy background"};

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v.empty() ? 0 : v[v.size() / 2];
}

std::vector<std::string> read_prompts(const OptimizeOptions& o) {
  std::vector<std::string> out;
  if (o.prompts_file.empty()) {
    out.assign(std::begin(kPrompts), std::end(kPrompts));
  } else {
    std::ifstream in(o.prompts_file);
    if (!in) fail(ErrorKind::request, "--prompts {}: cannot be read; give a text file with one prompt a line", o.prompts_file);
    for (std::string line; std::getline(in, line);)
      if (!line.empty()) out.push_back(line);
    if (out.empty()) fail(ErrorKind::request, "--prompts {}: holds no prompt; give one a line", o.prompts_file);
  }
  if (o.prompts < 1 || o.prompts > static_cast<int64_t>(out.size())) fail(ErrorKind::request, "--count is {}; wanted 1 to {} prompts", o.prompts, out.size());
  out.resize(static_cast<size_t>(o.prompts));
  return out;
}

constexpr int kSweeps = 3;
// Of what is left of the error budget, what a pass may spend in the first sweep: the last of them, fewer evaluations, gains most for its error, and a format
// that takes the whole budget for a tenth of the time would leave it nothing. Later sweeps may spend what is left over.
constexpr double kFirstShare = 0.25;
constexpr double kClockNoise = 1.05;   // of two medians of one plan, measured on a busy machine

class Search {
 public:
  explicit Search(const OptimizeOptions& o) : o_(o), dims_(read_model_dims(o.model)), threads_(o.threads ? static_cast<int>(o.threads) : default_thread_count()) {}
  OptimizeResult run();

 private:
  Engine& engine(const Plan& plan);
  Request request(const std::string& prompt, const Plan& plan, const h3::ModelIndex& index) const;
  double predicted(const Plan& plan);
  Prediction prediction(const Plan& plan);
  std::vector<double> time(const std::vector<const Plan*>& plans);
  void judge(Trial& t);
  bool pass(const PassSpec& spec, int turn, double budget);
  void sweep(double budget);
  void reference();
  void close_up(OptimizeResult& r);
  void say(const std::string& line) const {
    if (!o_.quiet) std::fputs((line + "\n").c_str(), stderr);
  }
  bool skipped(const std::string& name) const { return ("," + o_.skip + ",").find("," + name + ",") != std::string::npos; }

  OptimizeOptions o_;
  ModelDims dims_;
  int threads_;
  ClipShape clip_;
  Hardware hardware_;
  Plan current_;
  Distance error_;   // of that plan
  std::map<std::string, std::unique_ptr<Engine>> engines_;   // by the formats of their weights; few at a time
  std::vector<ClipOutput> exact_;                            // of each prompt
  std::vector<Trial> trials_;
  std::vector<std::string> prompts_;
};

Engine& Search::engine(const Plan& plan) {
  Plan p = plan;
  p.measured = nullptr, p.name = "";
  const std::string key = plan_to_json(p).dump();
  auto it = engines_.find(key);
  if (it != engines_.end()) return *it->second;
  if (engines_.size() >= 3) engines_.clear();   // weights of three plans at most; reloading is quick beside the runs
  return *(engines_[key] = std::make_unique<Engine>(o_.model, plan, threads_));
}

Request Search::request(const std::string& prompt, const Plan& plan, const h3::ModelIndex& index) const {
  Request r;
  r.prompt = prompt;
  r.config = index.config;
  r.config.min_duration_s = 0;
  r.num_frames = o_.frames;
  r.grid_points = (plan.evaluations ? plan.evaluations : o_.evaluations) + 1;
  r.seed = 11;
  return r;
}

Prediction Search::prediction(const Plan& plan) {
  std::set<Compute> missing;
  for (Compute k : {plan.text_encoder, plan.denoiser, plan.video_decoder, plan.audio_codec})
    if (!hardware_.rates.count(std::string(compute_name(k)))) missing.insert(k);
  if (!missing.empty()) {
    Hardware more = measure_hardware(dims_, clip_, threads_, missing);
    more.rates.merge(hardware_.rates);
    more.peaks_tflops.merge(hardware_.peaks_tflops);
    hardware_ = more;
  }
  ClipShape c = clip_;
  c.evaluations = plan.evaluations ? plan.evaluations : o_.evaluations;
  return predict(dims_, c, hardware_, options_of(plan));
}
double Search::predicted(const Plan& plan) { return prediction(plan).generation_seconds; }

// A processor's share of the wall time, for the stages of a run under --cpu-time, is taken as the same over the run.
// Seconds of one clip for each plan: the least of the rounds, which interleave the plans. The first run of each is a warm-up.
std::vector<double> Search::time(const std::vector<const Plan*>& plans) {
  std::vector<double> best(plans.size(), 1e30);
  for (int64_t round = 0; round <= o_.rounds; ++round)
    for (size_t i = 0; i < plans.size(); ++i) {
      Engine& e = engine(*plans[i]);
      const ClipOutput out = make_output(e, request(prompts_[0], *plans[i], e.index()), false);
      if (round) best[i] = std::min(best[i], o_.cpu_time ? out.cpu_seconds : out.seconds);
    }
  return best;
}

// Error against exact, over the prompts.
void Search::judge(Trial& t) {
  Engine& e = engine(t.plan);
  t.same_bytes = true;
  const double n = static_cast<double>(prompts_.size());
  for (size_t i = 0; i < prompts_.size(); ++i) {
    const ClipOutput out = make_output(e, request(prompts_[i], t.plan, e.index()), true);
    const Distance d = distance(exact_[i], out);
    t.error.latents += d.latents / n, t.error.audio_latents += d.audio_latents / n, t.error.frames += d.frames / n;
    t.error.psnr += d.psnr / n, t.error.sound += d.sound / n;
    t.worst = std::max(t.worst, largest(d));
    t.same_bytes = t.same_bytes && out.frames == exact_[i].frames && out.sound == exact_[i].sound;
  }
  t.measured = true;
}

void Search::reference() {
  current_ = exact_plan();
  current_.adaln_tables = skipped("adaln_tables"), current_.overlap = skipped("overlap");   // what is left out stays as in exact
  Engine& e = engine(current_);
  for (const std::string& p : prompts_) exact_.push_back(make_output(e, request(p, current_, e.index()), true));
  Trial t;
  t.pass = "reference", t.option = fmt::format("exact, {} evaluations", o_.evaluations), t.plan = current_;
  t.predicted = predicted(current_);
  t.before = t.after = time({&current_})[0];
  t.error.psnr = 99, t.measured = t.same_bytes = t.accepted = true;
  trials_.push_back(t);
}

// Whether the pass changed the plan.
bool Search::pass(const PassSpec& spec, int turn, double budget) {
  if (skipped(spec.name)) return false;
  const double now = predicted(current_);
  const bool last = &spec == &optimizer_passes().back();
  const double allowed = turn > 1 || last ? budget : largest(error_) + kFirstShare * (budget - largest(error_));
  std::vector<Trial> tried;
  for (auto& [option, plan] : spec.options(current_, o_.evaluations)) {
    Trial t;
    t.pass = spec.name, t.option = option, t.sweep = turn, t.plan = plan, t.predicted = predicted(plan);
    if (t.predicted > 1.25 * now) {   // not worth a run, whatever the error of the prediction
      t.note = "foreseen to be slower";
      trials_.push_back(t);
      continue;
    }
    judge(t);
    if (spec.same_bytes && !t.same_bytes) t.note = "claims the same bytes and has others: refused";
    else if (largest(t.error) > budget) t.note = "beyond the budget";
    else if (largest(t.error) > allowed) t.note = "beyond its share of the budget in the first sweep";
    if (!t.note.empty()) {
      trials_.push_back(t);
      continue;
    }
    const std::vector<double> s = time({&current_, &t.plan});
    t.before = s[0], t.after = s[1];
    tried.push_back(t);
  }
  // All of them were timed beside the same plan: the least of its times is what it takes on this machine when nothing else does anything.
  double least = 1e30;
  for (const Trial& t : tried) least = std::min(least, t.before);
  for (Trial& t : tried) t.before = least;
  auto share = [](const Trial& t) { return t.after / t.before; };
  auto best = std::min_element(tried.begin(), tried.end(), [&](const Trial& a, const Trial& b) { return share(a) < share(b); });
  const double limit = best == tried.end() ? 0 : kClockNoise * share(*best);   // what the clock cannot tell apart is told apart by the error
  for (auto t = tried.begin(); t != tried.end(); ++t)
    if (share(*t) <= limit && total(t->error) < total(best->error)) best = t;
  // A pass that changes no byte is kept unless it costs plainly; the others have to gain, and more than the clock's noise where they cost exactness.
  const bool gained = best != tried.end() && share(*best) < (spec.same_bytes ? 1.2 : worse(best->error, error_) ? 1 / kClockNoise : 0.98);
  if (gained) {
    best->accepted = true;
    current_ = best->plan, error_ = best->error;
    say(fmt::format("{}: {} {:.2f}x, error {:.3g}", spec.name, best->option, best->before / best->after, largest(best->error)));
  } else if (turn == 1) {
    say(fmt::format("{}: nothing gained", spec.name));
  }
  trials_.insert(trials_.end(), tried.begin(), tried.end());
  return gained;
}

// The passes in turn, then once more for as long as one changes something: what a format gains shows only when its stage is no longer
// a small part of the clip. Passes that claim the same bytes have nothing to gain from that.
void Search::sweep(double budget) {
  for (int turn = 1; turn <= kSweeps; ++turn) {
    if (turn > 1) say("once more, from the plan so far");
    bool changed = false;
    for (const PassSpec& spec : optimizer_passes())
      if (turn == 1 || !spec.same_bytes) changed = pass(spec, turn, budget) || changed;
    if (!changed) break;
  }
}

// Measures the plan found once more, whole.
void Search::close_up(OptimizeResult& r) {
  Engine& e = engine(current_);
  Trial final;
  final.plan = current_;
  judge(final);
  r.error = final.error, r.worst = final.worst;
  std::map<std::string, std::vector<double>> stages;
  std::vector<double> seconds;
  for (int64_t i = 0; i <= o_.rounds; ++i) {
    const ClipOutput out = make_output(e, request(prompts_[0], current_, e.index()), false);
    if (i == 0) continue;
    seconds.push_back(o_.cpu_time ? out.cpu_seconds : out.seconds);
    for (const StageTime& s : out.result.stages)
      if (s.stage != Stage::load && s.stage != Stage::encode) stages[stage_name(s.stage)].push_back(s.seconds * (o_.cpu_time ? out.cpu_seconds / out.seconds : 1));
  }
  r.seconds = median(seconds);
  for (auto& [name, v] : stages) r.stages.emplace_back(name, median(v));
  r.predicted = prediction(current_);
  for (size_t i = 0; i < std::min<size_t>(prompts_.size(), 4); ++i) {
    r.stills.emplace_back();
    r.stills.back().push_back(exact_[i]);
    r.stills.back().push_back(make_output(e, request(prompts_[i], current_, e.index()), false));
  }
  r.clip_seconds = static_cast<double>(r.stills[0][0].info.num_frames) / h3::kFps;
}

OptimizeResult Search::run() {
  prompts_ = read_prompts(o_);
  const h3::ModelIndex index = h3::read_model_index(o_.model);
  const h3::Canvas canvas = h3::resolve_canvas(16, 9, {index.canvas_multiple(), index.config.canvas_short_edge, index.config.canvas_max_pixels});
  clip_.width = canvas.width, clip_.height = canvas.height, clip_.frames = o_.frames, clip_.evaluations = o_.evaluations, clip_.text_rows = 16;
  clip_ = resolve_clip(dims_, clip_);
  hardware_ = measure_hardware(dims_, clip_, threads_, {Compute::f32});
  reference();
  // Under a time budget the error budget grows until the plan is fast enough; what was gained before is kept.
  std::vector<double> budgets = o_.seconds_per_second > 0 ? std::vector<double>{0.01, 0.03, 0.1, 0.2, 0.4, 0.8} : std::vector<double>{o_.quality};
  for (double budget : budgets) {
    if (budgets.size() > 1) say(fmt::format("error budget {:g}", budget));
    sweep(budget);
    if (o_.seconds_per_second > 0 && time({&current_})[0] <= o_.seconds_per_second * static_cast<double>(clip_.frames) / h3::kFps) break;
  }
  OptimizeResult r;
  close_up(r);
  current_.name = o_.name;
  if (!o_.encoder_preset.empty()) current_.encoder_preset = o_.encoder_preset;
  if (!o_.sound_coder.empty()) current_.sound_coder = o_.sound_coder;
  r.plan = current_, r.trials = trials_, r.prompts = prompts_, r.hardware = hardware_;
  return r;
}

}  // namespace

OptimizeResult optimize(const OptimizeOptions& options) { return Search(options).run(); }

}  // namespace zt

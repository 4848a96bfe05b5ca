#pragma once
// zoetrope optimize: finds the fastest plan within an error budget, or the most exact one within a time budget, by measuring.
//
// Named passes, one after another, each try their options on the plan so far: the cost model drops options that it foresees to be slower,
// the rest are run on held-out prompts, timed in turns with the plan so far, and held against plan exact. A pass keeps the fastest option
// whose error stays in the budget; those that claim the same bytes are checked for exactly that. What each pass gained is recorded. The passes
// are gone through again, three times at most, while one still changes the plan.
#include <string>
#include <vector>

#include "optimizer/predict.h"
#include "optimizer/quality.h"

namespace zt {

struct OptimizeOptions {
  std::string model, output = "plan.json", report, name, prompts_file, size;
  double quality = 0.05;             // largest mean relative L2 of latents, picture and sound each, against plan exact
  double seconds_per_second = 0;     // > 0: the least error that is as fast as this
  int64_t frames = 39;               // of the clips that are compared
  int64_t evaluations = 49;          // of the reference
  int64_t threads = 0;
  int64_t prompts = 3;               // how many of the held-out prompts
  int64_t rounds = 2;                // timed rounds of each option
  std::string skip;                  // names of passes to leave out, comma-separated
  std::string encoder_preset, sound_coder;   // given through to the plan; they are not searched
  bool cpu_time = false;             // processor time in place of the clock; true of one thread only
  bool json = false, quiet = false;
};

// One try of a pass.
struct Trial {
  std::string pass, option;
  int sweep = 0;                                 // 1: the passes' first turn
  Plan plan;
  double predicted = 0, before = 0, after = 0;   // seconds of the clips; before: the plan so far, measured in turns
  Distance error;                                // mean over the prompts; psnr too
  double worst = 0;                              // largest error of any prompt, latents
  bool measured = false, same_bytes = false, accepted = false;
  std::string note;
};

struct OptimizeResult {
  Plan plan;
  std::vector<Trial> trials;                     // the first is the reference itself
  std::vector<std::string> prompts;
  Prediction predicted;                          // of the plan found
  std::vector<std::pair<std::string, double>> stages;   // measured seconds of each, medians, one clip
  double seconds = 0, clip_seconds = 0;          // of one clip, generation without MP4; length
  Distance error;
  double worst = 0;
  Hardware hardware;
  std::vector<std::vector<ClipOutput>> stills;   // of each prompt: exact's clip and the plan's
};

// What a pass may change: its options, from the plan so far. Shown here for the tests and the docs.
struct PassSpec {
  const char* name;
  const char* what;
  bool same_bytes;                               // claims to leave every byte as it is
  std::vector<std::pair<std::string, Plan>> (*options)(const Plan& current, int64_t reference_evaluations);
};
const std::vector<PassSpec>& optimizer_passes();

OptimizeResult optimize(const OptimizeOptions& options);
// Searches, writes the plan file and, where asked, the report; prints a table. Errors: request, model.
int run_optimize_command(const OptimizeOptions& options);

Json result_to_json(const OptimizeOptions& options, const OptimizeResult& result);   // what plan.json holds
std::string result_html(const OptimizeOptions& options, const OptimizeResult& result);

}  // namespace zt

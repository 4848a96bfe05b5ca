#pragma once
// zoetrope plan: what a clip would cost on this machine or another.
#include <string>

#include "optimizer/predict.h"

namespace zt {

struct PlanCommandOptions {
  std::string model, hardware, stack, plan = "fast", size;
  int64_t ranks = 1, frames = 124, evaluations = 49, threads = 0, text_rows = 64;
  bool json = false;
};

// Width and height of a clip from WIDTHxHEIGHT; empty: the canvas that the model's index (or the release) gives a 16:9 clip.
// Errors (kind request): another form, a size out of range.
void set_size(const std::string& model_folder, const std::string& size, const ModelDims& model, ClipShape& clip);

// Errors (kind request): `value` of that option is out of range.
void check_range(const char* option, int64_t value, int64_t low, int64_t high);

// Prints the prediction on standard output. Errors: request, model.
int run_plan_command(const PlanCommandOptions& options);

}  // namespace zt

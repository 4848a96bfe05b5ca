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

// Prints the prediction on standard output. Errors: request, model.
int run_plan_command(const PlanCommandOptions& options);

}  // namespace zt

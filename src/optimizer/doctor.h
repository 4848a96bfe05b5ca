#pragma once
// zoetrope doctor: what a model folder is, whether it is whole, what will be slow here, and what a clip will take under each plan.
#include <string>
#include <vector>

#include "optimizer/predict.h"
#include "pipeline/memory.h"

namespace zt {

struct DoctorOptions {
  std::string model, size;           // WIDTHxHEIGHT; empty: the model's canvas at 16:9
  int64_t frames = 124, threads = 0; // threads 0: the cores this process may use
  int64_t memory_mib = -1;           // that may be used, as of `generate`; -1: nine tenths of the machine's, 0: no limit
  bool verify = false, json = false;
};

// What the clip will take under one plan: exact, fast, and those that come with the model.
struct Forecast {
  Plan plan;
  int64_t evaluations = 0;           // the plan's own, or the reference's 49; those that its reuse leaves out are counted
  Prediction predicted;
  double seconds_per_second = 0;     // of the clip
  MemoryUse memory;                  // weights and what a clip needs beside them; of weights that are not there, no block is streamed
  double error = -1;                 // the largest that the plan's optimizer measured; < 0: the plan states none
};

struct Finding {
  enum class Kind { problem, lacking, slow } kind;   // a problem: the model does not run until it is mended
  std::string text;                  // what, and what to do
};
const char* finding_name(Finding::Kind kind);

struct Diagnosis {
  ModelReport model;                 // no components: the folder could not be opened as a model
  bool dims_known = false;           // what follows is filled: the configs, at least, could be read
  ClipShape clip;
  Hardware hardware;
  int64_t usable_bytes = 0;          // the limit; 0: none
  std::vector<Forecast> plans;       // fastest first
  std::string advised;               // the fastest that fits; empty: none does
  std::vector<Finding> findings;
  bool sound() const;                // no problem among the findings
};

// Errors (kind request): a size or length that the model cannot have. What is wrong with the model itself is a finding.
Diagnosis diagnose(const DoctorOptions& options);

// Findings of speed and memory alone, from forecasts (fastest first) and rates: kept apart so that a test can hold them.
std::vector<Finding> judge(const std::vector<Forecast>& plans, const Hardware& hardware, int64_t usable_bytes);

// Prints the diagnosis. Returns 0 for a sound model, the code of kind model otherwise.
int run_doctor_command(const DoctorOptions& options);

}  // namespace zt

#pragma once
// A machine as the cost model sees it: what it reaches on each kind of work. Profiles are data files (hardware/*.json), or measured here.
#include <map>
#include <set>
#include <string>

#include "base/json.h"
#include "kernels/compute.h"
#include "optimizer/work.h"

namespace zt {

// What one rank (a GPU, or a CPU machine) reaches, in TFLOP/s.
struct Rates {
  double gemm = 0, attention = 0, conv = 0, filter = 0;
  double weight_bytes = 2;                   // of a parameter, as kept
  double activation_bytes = 2;               // of an activation, as element-wise passes move it
};

struct Hardware {
  std::string name, source;                  // source: where the figures come from
  std::string kind = "cpu";                  // "cpu" or "gpu"
  int threads = 0;                           // of a CPU, as measured
  std::map<std::string, double> peaks_tflops;   // by type; stated, not used in predictions
  double memory_bytes = 0, memory_bytes_s = 0;
  double elements_bytes_s = 0;               // of element-wise passes (norms, rotary, SwiGLU); 0: the memory's rate
  double link_bytes_s = 0, link_latency_s = 0;  // of one rank to the others, one direction; 0: ranks are impossible
  double host_bytes_s = 0;                   // weights that do not fit stream in at this rate
  double launch_s = 0;                       // cost of one sequential layer
  double encode_pixels_s = 0;                // H.264, colour and sound included
  // By "stage/stack", or by "stack" for all stages. CPU stacks are the compute types (f32, bf16); a GPU has library and tuned.
  std::map<std::string, Rates> rates;
  double element_rate() const { return elements_bytes_s > 0 ? elements_bytes_s : memory_bytes_s; }
  // Errors (kind request): no such stack; says which there are.
  const Rates& rate(const std::string& stage, const std::string& stack) const;
};

// A profile by path, or by name in the folder of profiles (hardware/ beside the program or in the source tree).
// Errors (kind request): no such file, an unknown key, a figure out of range.
Hardware read_hardware(const std::string& name_or_path);
Json hardware_to_json(const Hardware& hardware);

// This machine: our kernels of these kinds at the shapes of `model` and `clip`, the memory that may be used, its bandwidth; about a second for each kind.
Hardware measure_hardware(const ModelDims& model, const ClipShape& clip, int threads, const std::set<Compute>& kinds);

}  // namespace zt

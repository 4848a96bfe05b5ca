#pragma once
// What a model folder holds, by component, and whether every tensor is sound.
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "models/minimax_h3/model_index.h"
#include "nn/plan.h"

namespace zt {

// Parameters that are read, of a component or a part of it.
struct PartReport {
  int64_t vectors = 0, matrices = 0, bf16_matrices = 0;      // the last: of matrices that the file holds as bf16
  int64_t largest = 0;                                       // of a matrix
  int64_t file_bytes = 0;                                    // of tensors on disk; of a component all, also those that are not read
};

struct ComponentReport : PartReport {
  std::string name;                                          // folder name
  std::vector<std::pair<std::string, std::string>> dims;     // config values worth seeing
  size_t files = 0, tensors = 0;
  int64_t parameters = 0;                                    // of the table; those never read are in dead_parameters too
  int64_t dead_parameters = 0;
  std::map<std::string, int64_t> dtypes;                     // tensors of each type
  int64_t hidden_size = 0, blocks = 0;                       // of a transformer
  PartReport block, block_adaln;                             // its first block, all are alike: without its modulation matrix, and that
  std::vector<std::string> problems;                         // empty: sound
};

struct ModelReport {
  h3::ModelIndex index;
  std::vector<ComponentReport> components;
  int64_t tensors_checked = 0;                               // 0 unless verified
  bool sound() const;
};

// Reads configs and tensor headers; with `verify` also every value (NaN, infinity, scale) and the SHA-256 that an index states.
// Components that cannot be opened or whose tensors do not fit the config are reported as problems, not thrown.
// Errors (kind model): not a model folder at all.
ModelReport inspect_model(const std::string& folder, bool verify);

// Bytes of the weights of a component or a part, prepared for products of this kind on the machine's instruction set: without bf16 units all are float32.
int64_t prepared_bytes(const PartReport& part, Compute compute);
// The kind of product that a plan gives the component of this folder name.
Compute compute_of(const Plan& plan, const std::string& component);

// Bytes beside the weights that a clip needs at its fullest: about 17 rows of the hidden width in float32 live at once in a block of the
// denoiser; the video decoder works on a chunk of 17 frames. The server prices requests by it, doctor forecasts with it.
int64_t working_bytes(int64_t rows, int64_t hidden_size, int64_t width, int64_t height);

// Memory that this process may use: the machine's, or its control group's limit.
int64_t machine_bytes();

}  // namespace zt

#pragma once
// What of a model stays in memory under a limit: all of it, or all but some blocks of the transformer, which are then read from disk in every
// evaluation (models/minimax_h3/dit.h). `inspect` and `doctor` show it, the engine obeys it, the server prices requests by it.
#include "pipeline/inspect.h"
#include "pipeline/request.h"

namespace zt {

struct Geometry;

constexpr int64_t kProcessBytes = 48 << 20;   // the program, its libraries and the MP4 encoders of a small clip

// Bytes of a model under a plan, of one of its transformers at a time.
struct MemoryNeeds {
  int64_t hidden = 0;                // of the transformer
  int64_t blocks = 0;
  int64_t fixed = 0;                 // what stays in any case: the other components, the transformer's parts outside its blocks
  int64_t block = 0, adaln = 0;      // one block prepared: without its modulation matrix, and that
  int64_t file_block = 0, file_adaln = 0;   // the same on disk
  int64_t edited = 0;                // an adapter's widest tensor in float32
  int64_t all_blocks() const { return blocks * (block + adaln); }
};
// "transformer" or "transformer_ref", the component that makes clips of this task.
const char* transformer_of(Task task);

// `transformer`: transformer or transformer_ref; of a model without it, zeros for its parts.
MemoryNeeds memory_needs(const ModelReport& report, const Plan& plan, const std::string& transformer);

struct MemoryUse {
  int64_t resident_blocks = 0, blocks = 0;
  int64_t bytes = 0;                 // weights that stay, buffers of those that do not, `working`
  int64_t streamed_bytes = 0;        // read from disk in each evaluation
  bool fits = true;                  // in the limit
  const char* mode = "resident";     // resident, mixed or streamed
  std::string instead;               // a built-in plan under which all would stay, the most exact; empty if none would or all does
  int64_t instead_bytes = 0;         // in memory then
};
// As many resident blocks as fit beside `working` bytes; limit 0: all.
MemoryUse fit_memory(const MemoryNeeds& needs, int64_t working, bool adapters, int64_t limit);
// The same for a model under a plan; where not all stays, `instead` says what would help.
MemoryUse fit_memory(const ModelReport& report, const Plan& plan, const std::string& transformer, int64_t working, bool adapters, int64_t limit);
// The same for what a request needs beside the weights.
MemoryUse fit_request(const ModelReport& report, const Plan& plan, const std::string& transformer, const Request& request, const Geometry& geometry, int64_t limit);

// What a user is told of a transformer that does not stay whole; empty for one that does.
std::string memory_text(const MemoryUse& use);

// Rows of the denoiser's sequence, about: the prompt is not tokenised for it.
int64_t request_rows(const Request& request, const Geometry& geometry, const h3::ModelIndex& index);

// The limit where none is given: nine tenths of what this process may use.
int64_t usable_bytes();

}  // namespace zt

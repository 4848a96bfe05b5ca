#pragma once
// The options of a generation, declared once: this table feeds the command line, the metadata of a clip, its remaking, the docs,
// and later the HTTP schema.
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/json.h"

namespace zt {

struct GenerateOptions {
  std::string model, prompt, prompt_file, task, first_frame, last_frame, size, aspect, plan = "exact", config, noise, trace, again;
  std::string output = "clip.mp4";
  std::vector<std::string> references;
  std::optional<int64_t> short_edge, frames, steps, evaluations, threads;
  std::optional<uint64_t> seed;
  std::optional<double> seconds;
  bool json = false, quiet = false;
};

using OptionTarget = std::variant<std::string GenerateOptions::*, std::vector<std::string> GenerateOptions::*,
                                  std::optional<int64_t> GenerateOptions::*, std::optional<uint64_t> GenerateOptions::*,
                                  std::optional<double> GenerateOptions::*, bool GenerateOptions::*>;

struct OptionSpec {
  const char* flags;        // command line spelling, "--output,-o"
  const char* key;          // JSON spelling, "output"
  const char* value;        // what stands for the value in help, "" for a switch
  const char* help;
  OptionTarget target;
  bool describes_clip;      // part of what the clip is (kept in its metadata), not of how it was asked for
};

const std::vector<OptionSpec>& generate_options();

// What of `options` was given and describes the clip, under the JSON keys; and the reverse, filling only what is not yet given.
// Errors (kind request): a value of the wrong type.
Json options_to_json(const GenerateOptions& options);
void fill_from_json(const Json& json, GenerateOptions& options);

// The table as Markdown, for docs/cli.md.
std::string options_markdown();

}  // namespace zt

#pragma once
// The options of a generation, declared once: this table feeds the command line, the metadata of a clip, its remaking, the docs,
// the fields of HTTP requests and their OpenAPI document.
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/json.h"

namespace zt {

struct GenerateOptions {
  std::string model, prompt, prompt_file, task, first_frame, last_frame, extend, size, aspect, plan = "exact", config, noise, latents, trace, profile, again;
  std::string output = "clip.mp4";
  std::vector<std::string> references, lora;
  std::optional<int64_t> short_edge, frames, steps, evaluations, threads, memory;
  std::optional<uint64_t> seed;
  std::optional<double> seconds;
  bool long_video = false, json = false, quiet = false;
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
  double low = 0, high = 0; // of a number, both included; 0, 0: any
};

const std::vector<OptionSpec>& generate_options();

// What of `options` was given and describes the clip, under the JSON keys; and the reverse, filling only what is not yet given.
// Errors (kind request): a value of the wrong type.
Json options_to_json(const GenerateOptions& options);
void fill_from_json(const Json& json, GenerateOptions& options);

// Errors (kind request): a number outside its limits; the message names the option as the command line spells it.
void check_limits(const GenerateOptions& options);
// "--first-frame" of "--first-frame"; "--output" of "--output,-o".
std::string long_flag(const OptionSpec& spec);

// "192x128" -> {192, 128}; at most five digits each. None: it is no size.
std::optional<std::pair<int64_t, int64_t>> parse_size(const std::string& text);

// The table as Markdown, for docs/cli.md.
std::string options_markdown();

}  // namespace zt

// What the optimizer found, as the plan file, as a page, and as a table.
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "optimizer/optimize.h"

namespace zt {

namespace {

Json to_json(const Distance& d) {
  return {{"latents", d.latents}, {"audio_latents", d.audio_latents}, {"frames", d.frames}, {"psnr", d.psnr}, {"sound", d.sound}};
}

// All that changes what is found: who runs it again finds the same choices, but for the clock's noise.
std::string command_of(const OptimizeOptions& o) {
  std::string s = fmt::format("zoetrope optimize {} --frames {} --evaluations {} --count {} --rounds {}", std::filesystem::path(o.model).filename().string(), o.frames,
                              o.evaluations, o.prompts, o.rounds);
  s += o.seconds_per_second > 0 ? fmt::format(" --seconds-per-second {:g}", o.seconds_per_second) : fmt::format(" --quality {:g}", o.quality);
  if (o.threads) s += fmt::format(" --threads {}", o.threads);
  if (o.cpu_time) s += " --cpu-time";
  const std::pair<const char*, const std::string*> texts[] = {{"name", &o.name}, {"size", &o.size}, {"prompts", &o.prompts_file}, {"skip", &o.skip},
                                                               {"encoder-preset", &o.encoder_preset}, {"sound-coder", &o.sound_coder}};
  for (auto& [option, value] : texts)
    if (!value->empty()) s += fmt::format(" --{} {}", option, *value);
  return s;
}

std::string base64(const std::string& in) {
  static const char* const kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (size_t i = 0; i < in.size(); i += 3) {
    uint32_t v = 0;
    for (size_t k = 0; k < 3; ++k) v = v << 8 | (i + k < in.size() ? static_cast<uint8_t>(in[i + k]) : 0);
    for (size_t k = 0; k < 4; ++k) out += i + k <= in.size() ? kDigits[v >> (18 - 6 * k) & 63] : '=';
  }
  return out;
}

void little_endian(std::string& out, uint32_t v, int bytes) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(v >> (8 * i) & 255);
}

// `count` stills side by side as a BMP: what every browser shows and no library is needed for.
std::string strip(const ClipOutput& c, int64_t count) {
  const int64_t w = c.info.width, h = c.info.height, n = std::min(count, c.info.num_frames), row = (3 * w * n + 3) / 4 * 4;
  std::string out = "BM";
  little_endian(out, static_cast<uint32_t>(54 + row * h), 4), little_endian(out, 0, 4), little_endian(out, 54, 4);
  little_endian(out, 40, 4), little_endian(out, static_cast<uint32_t>(w * n), 4), little_endian(out, static_cast<uint32_t>(h), 4);
  little_endian(out, 1, 2), little_endian(out, 24, 2);
  for (int i = 0; i < 6; ++i) little_endian(out, 0, 4);
  for (int64_t y = h; y-- > 0;) {
    std::string line;
    for (int64_t k = 0; k < n; ++k) {
      const int64_t f = n > 1 ? k * (c.info.num_frames - 1) / (n - 1) : 0;
      const uint8_t* p = c.frames.data() + (f * h + y) * w * 3;
      for (int64_t x = 0; x < w; ++x) line += {static_cast<char>(p[3 * x + 2]), static_cast<char>(p[3 * x + 1]), static_cast<char>(p[3 * x])};
    }
    line.resize(static_cast<size_t>(row));
    out += line;
  }
  return out;
}

std::string escaped(const std::string& s) {
  std::string out;
  for (char c : s) out += c == '<' ? "&lt;" : c == '&' ? "&amp;" : c == '"' ? "&quot;" : std::string(1, c);
  return out;
}


// Seconds of the clip against error, one point a measured trial; the accepted ones are joined.
std::string pareto(const OptimizeResult& r) {
  double most_s = 0, most_e = 1e-6;
  for (const Trial& t : r.trials)
    if (t.measured && t.after > 0) most_s = std::max(most_s, t.after), most_e = std::max(most_e, largest(t.error));
  auto x = [&](double s) { return 60 + 620 * s / most_s; };
  auto y = [&](double e) { return 280 - 250 * e / most_e; };
  std::string out = "<svg viewBox='0 0 720 320' role='img' aria-label='seconds against error'><line x1='60' y1='280' x2='690' y2='280'/>"
                    "<line x1='60' y1='20' x2='60' y2='280'/>";
  std::string path;
  for (const Trial& t : r.trials) {
    if (!t.measured || t.after <= 0) continue;
    out += fmt::format("<circle cx='{:.1f}' cy='{:.1f}' r='4' class='{}'><title>{} {}: {:.3f} s, error {:.3g}</title></circle>", x(t.after), y(largest(t.error)),
                       t.accepted ? "kept" : "tried", escaped(t.pass), escaped(t.option), t.after, largest(t.error));
    if (t.accepted) path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", x(t.after), y(largest(t.error)));
  }
  out += fmt::format("<path d='{}'/><text x='690' y='305' text-anchor='end'>seconds of a clip, to {:.2f}</text>"
                     "<text x='64' y='16'>error of the latents (relative L2), to {:.3g}</text></svg>",
                     path, most_s, most_e);
  return out;
}

std::string stage_rows(const OptimizeResult& r) {
  std::string out;
  for (const StagePrediction& s : r.predicted.stages)
    for (auto& [name, seconds] : r.stages)
      if (name == s.stage) out += fmt::format("<tr><td>{}<td>{:.4f}<td>{:.4f}<td>{:.2f}</tr>", name, s.seconds, seconds, s.seconds / seconds);
  return out;
}

}  // namespace

Json result_to_json(const OptimizeOptions& o, const OptimizeResult& r) {
  Json trials = Json::array(), stages = Json::array();
  for (const Trial& t : r.trials) {
    Json j{{"pass", t.pass}, {"option", t.option}, {"sweep", t.sweep}, {"predicted_seconds", t.predicted}, {"accepted", t.accepted}};
    if (t.measured) j["error"] = to_json(t.error), j["worst"] = t.worst, j["same_bytes"] = t.same_bytes;
    if (t.after > 0) j["seconds_before"] = t.before, j["seconds_after"] = t.after, j["gain"] = t.before / t.after;
    if (!t.note.empty()) j["note"] = t.note;
    trials.push_back(j);
  }
  for (const StagePrediction& s : r.predicted.stages)
    for (auto& [name, seconds] : r.stages)
      if (name == s.stage) stages.push_back({{"stage", name}, {"predicted_seconds", s.seconds}, {"measured_seconds", seconds}});
  Json error = to_json(r.error);
  error["worst"] = r.worst;
  Plan plan = r.plan;
  plan.measured = {{"against", fmt::format("plan exact, {} evaluations", o.evaluations)},
                   {"error", error},
                   {"prompts", r.prompts},
                   {"seed", 11},
                   {"frames", o.frames},
                   {"seconds", r.seconds},
                   {"clock", o.cpu_time ? "processor time" : "wall"},
                   {"seconds_per_second", r.seconds / r.clip_seconds},
                   {"speedup", r.trials[0].after / r.seconds},
                   {"stages", stages},
                   {"choices", trials},
                   {"hardware", hardware_to_json(r.hardware)},
                   {"model", std::filesystem::path(o.model).filename().string()},
                   {"command", command_of(o)}};
  return plan_to_json(plan);
}

std::string result_html(const OptimizeOptions& o, const OptimizeResult& r) {
  std::string out = fmt::format(
      "<!doctype html><meta charset='utf-8'><title>Plan {0}</title><style>body{{font:15px sans-serif;max-width:1000px;margin:2em auto;color:#222}}"
      "table{{border-collapse:collapse}}"
      "td,th{{padding:3px 10px;text-align:left;border-bottom:1px solid #ddd}}svg{{width:720px}}line,path{{stroke:#888;fill:none}}.kept{{fill:#06c}}.tried{{fill:#ccc}}"
      "img{{width:100%}}</style><h1>Plan {0}</h1><p>{1}<br>on {2}. One clip of {3:.2f} s takes {4:.3f} s{14} without MP4 ({5:.3f} s for each second), "
      "{6:.1f} times as fast as plan "
      "exact at {7} evaluations. Error against it over {8} held-out prompts, relative L2: latents {9:.3g} (worst {10:.3g}), "
      "sound latents {11:.3g}, frames {12:.3g} ({13:.1f} dB).</p>",
      escaped(r.plan.name), escaped(command_of(o)), escaped(r.hardware.name), r.clip_seconds, r.seconds, r.seconds / r.clip_seconds,
      r.trials[0].after / r.seconds, o.evaluations, r.prompts.size(), r.error.latents, r.worst, r.error.audio_latents, r.error.frames, r.error.psnr,
      o.cpu_time ? " of one processor" : "");
  out += "<h2>What was tried</h2>" + pareto(r);
  out += "<h2>What each pass gained and cost</h2><table><tr><th>sweep<th>pass<th>option<th>foreseen, s<th>before, s<th>after, s<th>gain<th>error<th>dB<th></tr>";
  for (const Trial& t : r.trials)
    out += fmt::format("<tr><td>{}<td>{}<td>{}<td>{:.3f}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}</tr>", t.sweep, escaped(t.pass), escaped(t.option), t.predicted,
                       t.after > 0 ? fmt::format("{:.3f}", t.before) : "", t.after > 0 ? fmt::format("{:.3f}", t.after) : "",
                       t.after > 0 ? fmt::format("{:.2f}x", t.before / t.after) : "", t.measured ? fmt::format("{:.3g}", largest(t.error)) : "",
                       t.measured ? fmt::format("{:.1f}", t.error.psnr) : "", t.accepted ? "<b>kept</b>" : escaped(t.note));
  out += "</table><p>Passes that change bytes by design: all but " ;
  std::string same;
  for (const PassSpec& p : optimizer_passes())
    if (p.same_bytes) same += (same.empty() ? "" : " and ") + std::string(p.name);
  out += same + ", which are checked for equal bytes.</p><h2>Stages, one clip</h2><table><tr><th>stage<th>predicted, s<th>measured, s<th>ratio</tr>"
         + stage_rows(r) + "</table><h2>Clips</h2>";
  for (size_t i = 0; i < r.stills.size(); ++i) {
    out += fmt::format("<p>{}: exact above, the plan below</p>", escaped(r.prompts[i]));
    for (const ClipOutput& c : r.stills[i]) out += "<img alt='stills' src='data:image/bmp;base64," + base64(strip(c, 5)) + "'>";
  }
  return out + "\n";
}

int run_optimize_command(const OptimizeOptions& given) {
  OptimizeOptions o = given;
  auto range = [](const char* option, double v, double low, double high) {
    if (!(v >= low && v <= high)) fail(ErrorKind::request, "{} is {:g}; wanted {:g} to {:g}", option, v, low, high);
  };
  range("--quality", o.quality, 0, 10), range("--seconds-per-second", o.seconds_per_second, 0, 1e9);
  range("--frames", static_cast<double>(o.frames), 5, 10000), range("--evaluations", static_cast<double>(o.evaluations), 2, 1000);
  range("--rounds", static_cast<double>(o.rounds), 1, 100), range("--threads", static_cast<double>(o.threads), 0, 256);
  const std::filesystem::path path(o.output);
  std::error_code ec;
  if (std::filesystem::is_directory(path, ec) || (!path.parent_path().empty() && !std::filesystem::is_directory(path.parent_path(), ec)))
    fail(ErrorKind::request, "-o {}: wanted a file in a folder that exists", o.output);
  if (o.name.empty()) o.name = path.stem().string();
  if (o.cpu_time && o.threads != 1) fail(ErrorKind::request, "--cpu-time wants --threads 1: the processor time of waiting threads is no time of the clip");
  const OptimizeResult r = optimize(o);
  auto write = [](const std::string& file, const std::string& text) {
    std::ofstream out(file, std::ios::binary);
    out << text;
    if (!out.flush()) fail(ErrorKind::request, "{}: cannot be written; give another place", file);
  };
  const Json plan = result_to_json(o, r);
  write(o.output, plan.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
  if (!o.report.empty()) write(o.report, result_html(o, r));
  if (o.json) {
    std::fputs((plan.dump(1, ' ', false, Json::error_handler_t::replace) + "\n").c_str(), stdout);
  } else {
    std::fputs(fmt::format("plan {}: {:.3f} s for each second of clip, {:.1f} times exact at {} evaluations; "
                           "error of latents {:.3g} (worst {:.3g}), frames {:.1f} dB -> {}\n", r.plan.name,
                           r.seconds / r.clip_seconds, r.trials[0].after / r.seconds, o.evaluations, r.error.latents, r.worst, r.error.psnr, o.output)
                   .c_str(),
               stdout);
  }
  return 0;
}

}  // namespace zt

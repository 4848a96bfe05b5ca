// zoetrope compare: two clips as one HTML file with contact sheets, differences over time and figures. The file needs nothing beside it.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>

#include "base/error.h"
#include "base/json.h"
#include "media/decode.h"
#include "media/webp.h"
#include "serve/commands.h"

namespace zt {

namespace {

constexpr double kMaxSeconds = 120;      // of each clip that is compared
constexpr int kColumns = 8, kTileSide = 240;
constexpr double kFloorDb = -90;         // silence, in the plot

struct Arguments {
  std::string a, b, output = "report.html";
};

struct Series {
  std::string name, colour;
  std::vector<double> values;            // one a frame
};

std::string escape(const std::string& text) {
  std::string out;
  for (char c : text) {
    if (c == '<') out += "&lt;";
    else if (c == '>') out += "&gt;";
    else if (c == '&') out += "&amp;";
    else if (c == '"') out += "&quot;";
    else out += c;
  }
  return out;
}

std::string base64(const std::vector<uint8_t>& bytes) {
  constexpr const char* kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t n = std::min<size_t>(3, bytes.size() - i);
    uint32_t v = 0;
    for (size_t k = 0; k < 3; ++k) v = v << 8 | (k < n ? bytes[i + k] : 0);
    for (size_t k = 0; k < 4; ++k) out += k <= n ? kLetters[v >> (18 - 6 * k) & 63] : '=';
  }
  return out;
}

// Mean squared error of two pictures of one size, 0 to 255 squared.
double mean_square(const Picture& a, const Picture& b) {
  int64_t sum = 0;
  for (size_t i = 0; i < a.rgb.size(); ++i) {
    const int d = int{a.rgb[i]} - int{b.rgb[i]};
    sum += d * d;
  }
  return static_cast<double>(sum) / static_cast<double>(a.rgb.size());
}

double psnr(double mean_square) { return mean_square > 0 ? 10 * std::log10(255.0 * 255.0 / mean_square) : std::numeric_limits<double>::infinity(); }

double brightness(const Picture& p) {
  int64_t sum = 0;
  for (uint8_t v : p.rgb) sum += v;
  return static_cast<double>(sum) / static_cast<double>(p.rgb.size());
}

// Level of the sound under frame t in dB of full scale, both sides together.
double level(const Clip& clip, size_t t) {
  if (!clip.sound || clip.sound->samples() == 0) return kFloorDb;
  const double rate = clip.sound->sample_rate / clip.fps;
  const int64_t from = std::llround(static_cast<double>(t) * rate), to = std::min<int64_t>(std::llround(static_cast<double>(t + 1) * rate), clip.sound->samples());
  double sum = 0;
  for (const auto& channel : clip.sound->channels)
    for (int64_t i = from; i < to; ++i) sum += double{channel[static_cast<size_t>(i)]} * channel[static_cast<size_t>(i)];
  const double count = static_cast<double>(std::max<int64_t>(to - from, 1)) * static_cast<double>(clip.sound->channels.size());
  return std::max(kFloorDb, 10 * std::log10(sum / count + 1e-12));
}

// Lines over time; what is infinite (equal pictures) lies at the top.
std::string plot(const std::string& title, const std::string& unit, const std::vector<Series>& lines, double fps) {
  constexpr double kWidth = 900, kHeight = 180, kLeft = 50, kBottom = 24;
  double low = std::numeric_limits<double>::infinity(), high = -low;
  size_t count = 1;
  for (const Series& s : lines)
    for (double v : s.values)
      if (std::isfinite(v)) low = std::min(low, v), high = std::max(high, v);
  for (const Series& s : lines) count = std::max(count, s.values.size());
  if (!(low <= high)) low = 0, high = 1;
  if (high - low < 1) high += 0.5, low -= 0.5;
  const auto y = [&](double v) { return 8 + (kHeight - 8) * (1 - (std::min(std::isfinite(v) ? v : high, high) - low) / (high - low)); };
  const auto x = [&](size_t t) { return kLeft + (kWidth - kLeft - 8) * static_cast<double>(t) / static_cast<double>(std::max<size_t>(count - 1, 1)); };
  std::string out = fmt::format("<figure><figcaption>{} ({})", escape(title), escape(unit));
  for (const Series& s : lines) out += fmt::format(" <b style=\"color:{}\">{}</b>", s.colour, escape(s.name));
  out += fmt::format("</figcaption><svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">", kWidth, kHeight + kBottom, escape(title));
  for (int i = 0; i <= 4; ++i) {
    const double v = low + (high - low) * i / 4;
    out += fmt::format("<path class=\"grid\" d=\"M{} {:.1f}H{}\"/><text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{:.3g}</text>", kLeft, y(v), kWidth - 8,
                       kLeft - 6, y(v) + 4, v);
  }
  for (size_t t = 0; t < count; t += static_cast<size_t>(std::max(1.0, std::round(fps))))
    out += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{:g} s</text>", x(t), kHeight + 18, std::round(static_cast<double>(t) / fps));
  for (const Series& s : lines) {
    std::string points;
    for (size_t t = 0; t < s.values.size(); ++t) points += fmt::format("{:.1f},{:.1f} ", x(t), y(s.values[t]));
    out += fmt::format("<polyline style=\"stroke:{}\" points=\"{}\"/>", s.colour, points);
  }
  return out + "</svg></figure>\n";
}

std::string sheet(const std::string& name, size_t frames, const std::function<Picture(size_t)>& frame) {
  ContactSheet tiles(static_cast<int64_t>(frames), kColumns, 1, kTileSide);
  for (size_t t = 0; t < frames; ++t) {
    const Picture p = frame(t);
    tiles.add(p.rgb.data(), p.width, p.height);
  }
  return fmt::format("<figure><figcaption>{}</figcaption><img alt=\"{}\" src=\"data:image/webp;base64,{}\"></figure>\n", escape(name), escape(name),
                     base64(encode_webp(tiles.sheet())));
}

// Four times what differs, around grey.
Picture difference(const Picture& a, const Picture& b) {
  Picture out{a.width, a.height, std::vector<uint8_t>(a.rgb.size())};
  for (size_t i = 0; i < out.rgb.size(); ++i) out.rgb[i] = static_cast<uint8_t>(std::clamp(128 + 4 * (int{a.rgb[i]} - int{b.rgb[i]}), 0, 255));
  return out;
}

std::string origin(const std::string& path) {   // what the clip says about its making
  const Json j = Json::parse(read_metadata(path), nullptr, false);
  return j.is_object() ? "<pre>" + escape(j.dump(2, ' ', false, Json::error_handler_t::replace)) + "</pre>" : "<p>made by another program</p>";
}

constexpr const char* kStyle =
    ":root{color-scheme:light dark;font:15px/1.5 system-ui,sans-serif}body{max-width:64rem;margin:1rem auto;padding:0 1rem}"
    "img,svg{width:100%;display:block}figure{margin:1rem 0}figcaption{font-weight:600}polyline{fill:none;stroke-width:1.5}"
    ".grid{stroke:#8886}text{font-size:11px;fill:currentColor}table{border-collapse:collapse}td,th{padding:.2rem 1rem .2rem 0;text-align:left}"
    "pre{overflow:auto;font-size:12px;border:1px solid #8886;padding:.5rem}.two{display:grid;grid-template-columns:1fr 1fr;gap:1rem}.two>*{min-width:0}";

struct Figures {
  Series psnr{"PSNR", "#3b5bdb", {}};
  Series light_a{"A", "#3b5bdb", {}}, light_b{"B", "#e8590c", {}}, level_a{"A", "#3b5bdb", {}}, level_b{"B", "#e8590c", {}};
  double mean_square = 0, worst = std::numeric_limits<double>::infinity();
  size_t worst_frame = 0, equal = 0;
};

Figures measure(const Clip& a, const Clip& b, size_t frames) {
  Figures f;
  for (size_t t = 0; t < frames; ++t) {
    const double error = mean_square(a.frames[t], b.frames[t]), quality = psnr(error);
    f.mean_square += error / static_cast<double>(frames);
    f.equal += error == 0;
    if (quality < f.worst) f.worst = quality, f.worst_frame = t;
    f.psnr.values.push_back(quality);
    f.light_a.values.push_back(brightness(a.frames[t])), f.light_b.values.push_back(brightness(b.frames[t]));
    f.level_a.values.push_back(level(a, t)), f.level_b.values.push_back(level(b, t));
  }
  return f;
}

std::string decibels(double v) { return std::isfinite(v) ? fmt::format("{:.2f} dB", v) : "equal"; }

std::string report(const Arguments& args, const Clip& a, const Clip& b, size_t frames, const Figures& f) {
  const std::string name_a = std::filesystem::path(args.a).filename().string(), name_b = std::filesystem::path(args.b).filename().string();
  std::string out = fmt::format("<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">"
                                "<title>{} and {}</title><style>{}</style><body><h1>Two clips compared</h1>\n",
                                escape(name_a), escape(name_b), kStyle);
  out += fmt::format("<table><tr><th></th><th>A: {}</th><th>B: {}</th></tr><tr><td>frames</td><td>{}</td><td>{}</td></tr>"
                     "<tr><td>size</td><td>{}x{}</td><td>{}x{}</td></tr></table>\n",
                     escape(name_a), escape(name_b), a.frames.size(), b.frames.size(), a.frames[0].width, a.frames[0].height, b.frames[0].width, b.frames[0].height);
  out += fmt::format("<p>Over the first {} frames: PSNR of the whole {}, of the worst frame {} ({} at {:.2f} s), {} frames equal.</p>\n", frames,
                     decibels(psnr(f.mean_square)), decibels(f.worst), f.worst_frame, static_cast<double>(f.worst_frame) / a.fps, f.equal);
  out += sheet("A", frames, [&](size_t t) { return a.frames[t]; }) + sheet("B", frames, [&](size_t t) { return b.frames[t]; });
  out += sheet("A - B, four times, around grey", frames, [&](size_t t) { return difference(a.frames[t], b.frames[t]); });
  out += plot("PSNR of B against A", "dB, equal frames at the top", {f.psnr}, a.fps);
  out += plot("Mean brightness", "0 to 255", {f.light_a, f.light_b}, a.fps);
  if (a.sound || b.sound) out += plot("Level of the sound", "dB of full scale", {f.level_a, f.level_b}, a.fps);
  out += "<h2>How they were made</h2><div class=\"two\"><div><h3>A</h3>" + origin(args.a) + "</div><div><h3>B</h3>" + origin(args.b);
  return out + "</div></div></body></html>\n";
}

int run(const Arguments& args) {
  MediaLimits limits;
  limits.max_seconds = kMaxSeconds;
  const Clip a = load_clip(args.a, limits), b = load_clip(args.b, limits);
  if (a.frames.empty() || b.frames.empty()) fail(ErrorKind::request, "compare: {} has no frame", a.frames.empty() ? args.a : args.b);
  const Picture &p = a.frames[0], &q = b.frames[0];
  if (p.width != q.width || p.height != q.height)
    fail(ErrorKind::request, "compare: {} is {}x{}, {} is {}x{}; wanted one size. Make both with the same --size", args.a, p.width, p.height, args.b, q.width,
         q.height);
  const size_t frames = std::min(a.frames.size(), b.frames.size());
  const Figures figures = measure(a, b, frames);
  std::ofstream file(args.output, std::ios::binary);
  file << report(args, a, b, frames, figures);
  file.close();
  if (!file) fail(ErrorKind::request, "--output {}: cannot be written", args.output);
  std::printf("%zu frames, PSNR %s, worst frame %s, %zu equal: %s\n", frames, decibels(psnr(figures.mean_square)).c_str(), decibels(figures.worst).c_str(),
              figures.equal, args.output.c_str());
  return 0;
}

}  // namespace

Command compare_command(CLI::App& root) {
  auto args = std::make_shared<Arguments>();
  CLI::App* app = root.add_subcommand("compare", "Hold two clips against each other: one HTML file of contact sheets, plots and figures");
  app->add_option("a", args->a, "the first clip, the reference")->required()->type_name("CLIP");
  app->add_option("b", args->b, "the second clip, of the same size")->required()->type_name("CLIP");
  app->add_option("--output,-o", args->output, "HTML file to write (default report.html)")->type_name("FILE");
  return {app, [args] { return report_errors([&] { return run(*args); }); }};
}

}  // namespace zt

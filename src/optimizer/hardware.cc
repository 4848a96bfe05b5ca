#include "optimizer/hardware.h"

#include <algorithm>
#include <filesystem>

namespace fs = std::filesystem;

namespace zt {

namespace {

constexpr double kMost = 1e18;

Rates read_rates(const JsonView& j) {
  Rates r;
  for (auto& [key, value] : j.json().items())
    if (key != "gemm" && key != "attention" && key != "conv" && key != "filter" && key != "weight_bytes" && key != "activation_bytes" && key != "note")
      fail(ErrorKind::request, "{}: unknown key \"{}\"; known are gemm, attention, conv, filter (TFLOP/s), weight_bytes, activation_bytes, note", j.origin(), key);
  r.gemm = j.number("gemm", 1e-6, kMost), r.attention = j.number("attention", 1e-6, kMost);
  r.conv = j.number("conv", 1e-6, kMost), r.filter = j.number("filter", 1e-6, kMost);
  r.weight_bytes = j.number("weight_bytes", 0.25, 8, 2), r.activation_bytes = j.number("activation_bytes", 0.25, 8, 2);
  return r;
}

std::string find_profile(const std::string& name) {
  std::error_code ec;
  if (fs::exists(name, ec) && !fs::is_directory(name, ec)) return name;
  const fs::path program = fs::read_symlink("/proc/self/exe", ec).parent_path();
  const fs::path folders[] = {program / "../hardware", program / "../share/zoetrope/hardware", fs::path("hardware")};
  std::string known;
  for (const fs::path& folder : folders) {
    if (!fs::is_directory(folder, ec)) continue;
    if (fs::exists(folder / (name + ".json"), ec)) return (folder / (name + ".json")).string();
    std::vector<std::string> names;
    for (const auto& f : fs::directory_iterator(folder, ec))
      if (f.path().extension() == ".json") names.push_back(f.path().stem().string());
    std::sort(names.begin(), names.end());
    if (known.empty()) known = fmt::format("{}", fmt::join(names, ", "));
  }
  fail(ErrorKind::request, "--hardware {}: no such file or profile; known are {}", name, known.empty() ? "none" : known);
}

}  // namespace

const Rates& Hardware::rate(const std::string& stage, const std::string& stack) const {
  if (auto it = rates.find(stage + "/" + stack); it != rates.end()) return it->second;
  if (auto it = rates.find(stack); it != rates.end()) return it->second;
  std::string known;
  for (auto& [key, r] : rates) known += (known.empty() ? "" : ", ") + key;
  fail(ErrorKind::request, "{}: has no stack \"{}\"; known are {}", name, stack, known);
}

Hardware read_hardware(const std::string& name) {
  const std::string path = find_profile(name);
  Hardware h;
  try {
    const Json json = read_json(path, 1 << 20);
    const JsonView j(json, path);
    static const char* const kKeys[] = {"name", "source", "kind", "threads", "peaks_tflops", "memory_gb", "memory_gb_s", "elements_gb_s", "link_gb_s", "link_latency_us",
                                        "host_gb_s", "launch_us", "encode_mpixels_s", "rates_tflops"};
    for (auto& [key, value] : json.items())
      if (std::none_of(std::begin(kKeys), std::end(kKeys), [&](const char* k) { return key == k; }))
        fail(ErrorKind::request, "{}: unknown key \"{}\"; known are {}", path, key, fmt::join(kKeys, ", "));
    h.name = j.text("name"), h.source = j.text("source"), h.kind = j.text("kind");
    if (h.kind != "cpu" && h.kind != "gpu") fail(ErrorKind::request, "{}: kind is \"{}\", wanted \"cpu\" or \"gpu\"", path, h.kind);
    h.threads = static_cast<int>(j.integer("threads", 0, 4096, 0));
    const JsonView peaks = j.child("peaks_tflops");
    for (auto& [key, value] : peaks.json().items()) h.peaks_tflops[key] = peaks.number(key, 0, kMost);
    h.memory_bytes = j.number("memory_gb", 0, 1e9) * 1e9, h.memory_bytes_s = j.number("memory_gb_s", 1e-3, 1e9) * 1e9;
    h.elements_bytes_s = j.number("elements_gb_s", 0, 1e9, 0) * 1e9;
    h.link_bytes_s = j.number("link_gb_s", 0, 1e9, 0) * 1e9, h.link_latency_s = j.number("link_latency_us", 0, 1e6, 0) * 1e-6;
    h.host_bytes_s = j.number("host_gb_s", 0, 1e9, 0) * 1e9, h.launch_s = j.number("launch_us", 0, 1e6, 0) * 1e-6;
    h.encode_pixels_s = j.number("encode_mpixels_s", 0, 1e9, 0) * 1e6;
    const JsonView rates = j.child("rates_tflops");
    for (auto& [key, value] : rates.json().items()) h.rates[key] = read_rates(rates.child(key));
    if (h.rates.empty()) fail(ErrorKind::request, "{}: \"rates_tflops\" is empty; wanted at least one stack", path);
  } catch (const Error& e) {
    throw Error(ErrorKind::request, e.what());
  }
  return h;
}

Json hardware_to_json(const Hardware& h) {
  Json rates = Json::object();
  for (auto& [key, r] : h.rates)
    rates[key] = {{"gemm", r.gemm}, {"attention", r.attention}, {"conv", r.conv}, {"filter", r.filter}, {"weight_bytes", r.weight_bytes},
                  {"activation_bytes", r.activation_bytes}};
  return {{"name", h.name},
          {"source", h.source},
          {"kind", h.kind},
          {"threads", h.threads},
          {"peaks_tflops", h.peaks_tflops},
          {"memory_gb", h.memory_bytes / 1e9},
          {"memory_gb_s", h.memory_bytes_s / 1e9},
          {"elements_gb_s", h.elements_bytes_s / 1e9},
          {"link_gb_s", h.link_bytes_s / 1e9},
          {"link_latency_us", h.link_latency_s * 1e6},
          {"host_gb_s", h.host_bytes_s / 1e9},
          {"launch_us", h.launch_s * 1e6},
          {"encode_mpixels_s", h.encode_pixels_s / 1e6},
          {"rates_tflops", rates}};
}

}  // namespace zt

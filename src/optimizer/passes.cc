// The passes of the optimizer, in the order they run: what changes no byte first, then what changes most for the least error.
#include "optimizer/optimize.h"

namespace zt {

namespace {

using Options = std::vector<std::pair<std::string, Plan>>;

std::vector<Compute> all_kinds() {
  std::vector<Compute> out;
  std::string names = compute_names();
  for (size_t at = 0; at < names.size();) {
    size_t end = names.find(", ", at);
    if (end == std::string::npos) end = names.size();
    Compute kind{};
    if (compute_from_name(names.substr(at, end - at), kind)) out.push_back(kind);
    at = end + 2;
  }
  return out;
}

template <class F>
Options vary(const Plan& current, F&& change) {
  Plan p = current;
  change(p);
  return {{"on", p}};
}

Options kinds(const Plan& current, Compute Plan::*field) {
  Options out;
  for (Compute k : all_kinds()) {
    if (k == current.*field) continue;
    Plan p = current;
    p.*field = k;
    out.emplace_back(compute_name(k), p);
  }
  return out;
}

Options tables(const Plan& p, int64_t) { return vary(p, [](Plan& q) { q.adaln_tables = true; }); }
Options overlap(const Plan& p, int64_t) { return vary(p, [](Plan& q) { q.overlap = true; }); }
Options text(const Plan& p, int64_t) { return kinds(p, &Plan::text_encoder); }
Options denoiser(const Plan& p, int64_t) { return kinds(p, &Plan::denoiser); }
Options attention(const Plan& current, int64_t) {
  Options out;
  for (double mass : {0.99, 0.97, 0.95, 0.9, 0.8}) {
    if (mass >= current.attention_mass) continue;
    Plan p = current;
    p.attention_mass = mass;
    out.emplace_back(fmt::format("mass {:g}", mass), p);
  }
  return out;
}
Options video(const Plan& p, int64_t) { return kinds(p, &Plan::video_decoder); }

Options evaluations(const Plan& current, int64_t reference) {
  Options out;
  for (int64_t n : {36, 24, 16, 12, 8, 6, 4, 3, 2}) {
    if (n >= reference || (current.evaluations && n >= current.evaluations)) continue;
    Plan p = current;
    p.evaluations = n;
    out.emplace_back(std::to_string(n), p);
  }
  return out;
}

Options reuse(const Plan& current, int64_t) {
  Options out;
  for (double budget : {0.02, 0.05, 0.1, 0.2})
    for (int64_t most : {1, 3}) {
      Plan p = current;
      p.reuse = {budget, budget, most};
      out.emplace_back(fmt::format("{:g}, {} in a row", budget, most), p);
    }
  return out;
}

}  // namespace

const std::vector<PassSpec>& optimizer_passes() {
  static const std::vector<PassSpec> passes = {
      {"adaln_tables", "modulations of each noise level computed once and kept", true, tables},
      {"overlap", "encoding beside decoding (this search encodes nothing, so it sees no gain)", true, overlap},
      {"denoiser", "number format of the transformer's products", false, denoiser},
      {"attention", "blocks of keys left out of the transformer's attention, by content", false, attention},
      {"video_decoder", "number format of the video decoder's products", false, video},
      {"text_encoder", "number format of the text encoder's products", false, text},
      {"reuse", "velocities taken again where they change little", false, reuse},
      {"evaluations", "fewer evaluations of the transformer", false, evaluations},
  };
  return passes;
}

}  // namespace zt

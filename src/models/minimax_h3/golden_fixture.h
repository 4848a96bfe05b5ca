#pragma once
// For the tests of this folder: the golden cases, a place to compute, and the relative L2 distance.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "formats/safetensors.h"
#include "nn/ctx.h"

namespace zt::h3 {

inline std::string golden_path(const std::string& rest, const std::string& golden_case = "a") {
  return std::string(ZT_SOURCE_DIR) + "/tests/golden/" + golden_case + "/" + rest;
}

struct Golden {
  explicit Golden(const std::string& golden_case = "a") : file(golden_path("golden.safetensors", golden_case)) {}
  SafetensorsFile file;
  // What stands before `suffix` in the names that end with it: the runs of the case.
  std::vector<std::string> runs(const std::string& suffix) const {
    std::vector<std::string> found;
    for (const NamedView& t : file.tensors())
      if (t.name.ends_with(suffix) && !t.name.starts_with("unit.")) found.push_back(t.name.substr(0, t.name.size() - suffix.size()));
    EXPECT_GE(found.size(), 4u);
    return found;
  }
  const View& view(const std::string& name) const {
    const View* v = file.find(name);
    if (!v) fail(ErrorKind::internal, "golden.safetensors has no {}", name);
    return *v;
  }
  std::vector<float> floats(const std::string& name) const { return to_float32(view(name)); }
  // Without the leading batch axis of 1, times `scale`.
  Tensor tensor(const std::string& name, bool batched, float scale = 1) const {
    const View& v = view(name);
    Tensor t(batched ? Shape(v.shape.begin() + 1, v.shape.end()) : v.shape);
    to_float32(v, t.data());
    for (int64_t i = 0; i < t.count(); ++i) t.data()[i] *= scale;
    return t;
  }
};

struct Bench {
  explicit Bench(int thread_count = 2) : threads(thread_count) {}
  Threads threads;
  Arena arena;
  std::atomic<bool> cancel{false};
  Exec exec{threads, select_ops(), arena, &cancel};
  Ctx ctx{exec, {}};
};

inline double relative_l2(const std::vector<float>& found, const std::vector<float>& wanted) {
  EXPECT_EQ(found.size(), wanted.size());
  double error = 0, norm = 0;
  for (size_t i = 0; i < std::min(found.size(), wanted.size()); ++i) {
    const double d = static_cast<double>(found[i]) - wanted[i];
    error += d * d, norm += static_cast<double>(wanted[i]) * wanted[i];
  }
  return std::sqrt(error / norm);
}

inline std::vector<float> to_vector(const Tensor& t) { return {t.data(), t.data() + t.count()}; }

}  // namespace zt::h3

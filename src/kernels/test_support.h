#pragma once
// What the tests of this room share: every table of this machine, seeded values and a bound for sums in float32.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "kernels/exec.h"
#include "kernels/ops.h"

namespace zt::test {

constexpr double kEps32 = 0x1p-24;   // unit roundoff of float32

inline std::vector<float> normal(int64_t n, uint64_t seed, float scale = 1) {
  std::mt19937_64 g(seed);
  std::normal_distribution<float> d(0, scale);
  std::vector<float> v(static_cast<size_t>(n));
  for (float& x : v) x = d(g);
  return v;
}

// Runs body(exec) on every table with 1, 2, 3 and 5 threads.
template <class Body>
void on_every_table(Body&& body, std::initializer_list<int> counts = {1, 2, 3, 5}) {
  for (const char* name : available_ops()) {
    for (int count : counts) {
      SCOPED_TRACE(std::string(name) + " with " + std::to_string(count) + " threads");
      Threads threads(count);
      Arena scratch;
      body(Exec{threads, ops_by_name(name), scratch});
    }
  }
}

}  // namespace zt::test

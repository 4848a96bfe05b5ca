#include "base/behind.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <vector>

namespace zt {
namespace {

TEST(Behind, KeepsTheOrderBesideAndNot) {
  for (bool beside : {false, true}) {
    std::vector<int> seen;
    Behind b(beside);
    for (int i = 0; i < 100; ++i) b.push([&seen, i] { seen.push_back(i); });
    b.finish();
    ASSERT_EQ(seen.size(), 100u);
    for (int i = 0; i < 100; ++i) EXPECT_EQ(seen[static_cast<size_t>(i)], i);
  }
}

TEST(Behind, WhatAJobThrowsComesBackAndNothingRunsAfterIt) {
  int after = 0;
  Behind b(true);
  EXPECT_THROW(
      {
        b.push([] { throw std::runtime_error("full disk"); });
        for (int i = 0; i < 100; ++i) b.push([&] { ++after; });
        b.finish();
      },
      std::runtime_error);
  b.finish();   // told once
  EXPECT_LE(after, 100);
}

TEST(Behind, DroppedWhenItsOwnerGoes) {
  std::atomic<bool> go{false};
  int ran = 0;
  {
    Behind b(true);
    b.push([&] { while (!go) std::this_thread::yield(); });
    b.push([&] { ++ran; });
    go = true;
  }
  EXPECT_LE(ran, 1);
}

}  // namespace
}  // namespace zt

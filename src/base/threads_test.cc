#include "base/threads.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <numeric>
#include <vector>

#include "base/error.h"

namespace zt {
namespace {

TEST(Threads, EveryIndexOnceInRangesOfAtMostTheGrain) {
  for (int count : {1, 2, 3, 8}) {
    Threads pool(count);
    EXPECT_EQ(pool.count(), count);
    for (int64_t n : {0, 1, 2, 7, 64, 1000})
      for (int64_t grain : {-1, 1, 3, 64, 5000}) {
        std::vector<int> hits(static_cast<size_t>(n), 0);
        std::atomic<int> bad{0};
        pool.parallel_for(n, grain, [&](int64_t i, int64_t j, int worker) {
          if (worker < 0 || worker >= count || j <= i || j - i > std::max<int64_t>(grain, 1)) ++bad;
          for (; i < j; ++i) ++hits[static_cast<size_t>(i)];   // ranges are disjoint, so this is no race
        });
        EXPECT_EQ(bad, 0);
        EXPECT_EQ(hits, std::vector<int>(static_cast<size_t>(n), 1)) << count << " threads, " << n << " by " << grain;
      }
  }
}

TEST(Threads, ManyShortLoopsInARow) {
  Threads pool(4);
  std::vector<int64_t> values(97, 0);
  for (int round = 0; round < 3000; ++round)
    pool.parallel_for(97, 5, [&](int64_t i, int64_t j, int) {
      for (; i < j; ++i) values[static_cast<size_t>(i)] += i;
    });
  for (int64_t i = 0; i < 97; ++i) EXPECT_EQ(values[static_cast<size_t>(i)], 3000 * i);
}

TEST(Threads, SleepersWakeUp) {
  Threads pool(3);
  for (int round = 0; round < 20; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(3));   // long enough for workers to stop spinning
    std::atomic<int64_t> sum{0};
    pool.parallel_for(100, 1, [&](int64_t i, int64_t, int) { sum += i; });
    EXPECT_EQ(sum, 4950);
  }
}

TEST(Threads, NestedCallsRunInlineAsTheSameWorker) {
  Threads pool(4);
  std::vector<std::vector<int64_t>> scratch(4, std::vector<int64_t>(1, 0));   // one for each worker: a race if a nested call took another's
  std::atomic<int> foreign{0};
  pool.parallel_for(64, 1, [&](int64_t, int64_t, int outer) {
    auto self = std::this_thread::get_id();
    pool.parallel_for(50, 7, [&](int64_t i, int64_t j, int inner) {
      if (inner != outer || std::this_thread::get_id() != self || j - i > 7) ++foreign;
      for (; i < j; ++i) scratch[static_cast<size_t>(inner)][0] += i;
    });
  });
  EXPECT_EQ(foreign, 0);
  int64_t sum = 0;
  for (auto& s : scratch) sum += s[0];
  EXPECT_EQ(sum, 64 * 1225);
  std::atomic<int> again{0};   // afterwards the pool works as before
  pool.parallel_for(64, 1, [&](int64_t, int64_t, int) { ++again; });
  EXPECT_EQ(again, 64);
}

TEST(Threads, AnotherPoolInsideABodyRunsInline) {
  Threads outer(2), inner(3);
  std::atomic<int64_t> sum{0};
  std::atomic<int> bad{0};
  outer.parallel_for(1, 1, [&](int64_t, int64_t, int) {   // one range: only one thread owns `inner`
    inner.parallel_for(10, 1, [&](int64_t i, int64_t, int worker) { bad += worker < 0 || worker >= 3, sum += i; });
  });
  EXPECT_EQ(sum, 45);
  EXPECT_EQ(bad, 0);
}

TEST(Threads, PoolsComeAndGo) {
  for (int i = 0; i < 50; ++i) {
    Threads pool(1 + i % 5);
    std::atomic<int> n{0};
    if (i % 2) pool.parallel_for(9, 1, [&](int64_t, int64_t, int) { ++n; });
    EXPECT_EQ(n, i % 2 ? 9 : 0);
  }
}

TEST(Threads, CountComesFromTheEnvironment) {
  EXPECT_GE(available_cores(), 1);
  setenv("ZT_THREADS", "5", 1);
  EXPECT_EQ(default_thread_count(), 5);
  setenv("ZT_THREADS", "", 1);
  EXPECT_EQ(default_thread_count(), available_cores());
  for (const char* bad : {"0", "-1", "257", "two", "3x", "99999999999999999999"}) {
    setenv("ZT_THREADS", bad, 1);
    try {
      default_thread_count();
      ADD_FAILURE() << bad;
    } catch (const Error& e) {
      EXPECT_EQ(e.kind, ErrorKind::request);
      EXPECT_NE(std::string(e.what()).find(bad), std::string::npos);
    }
  }
  unsetenv("ZT_THREADS");
  EXPECT_EQ(default_thread_count(), available_cores());
}

}  // namespace
}  // namespace zt

#include "base/arena.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "base/error.h"

namespace zt {
namespace {

TEST(Arena, BlocksAreAlignedAndApart) {
  Arena arena;
  std::vector<std::pair<char*, size_t>> all;
  for (size_t bytes : {size_t{0}, size_t{1}, size_t{63}, size_t{64}, size_t{65}, size_t{5} << 20, size_t{9} << 20, size_t{3}, size_t{20} << 20}) {
    char* p = static_cast<char*>(arena.allocate(bytes));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % Arena::kAlign, 0u);
    std::memset(p, static_cast<int>(all.size() + 1), bytes);
    all.emplace_back(p, bytes);
  }
  for (size_t k = 0; k < all.size(); ++k)
    for (size_t i = 0; i < all[k].second; i += 997) ASSERT_EQ(all[k].first[i], static_cast<char>(k + 1));
}

TEST(Arena, AScopeGivesItsMemoryBackAndASecondStepTakesNoMore) {
  Arena arena;
  void* first = nullptr;
  size_t reserved = 0;
  for (int step = 0; step < 3; ++step) {
    Arena::Scope scope(arena);
    float* a = arena.take<float>(1000);
    {
      Arena::Scope inner(arena);
      arena.take<double>(4 << 20);
      arena.take<char>(1);
    }
    float* b = arena.take<float>(1000);
    EXPECT_GE(b, a + 1000);
    if (step == 0) first = a, reserved = arena.reserved_bytes();
    EXPECT_EQ(a, first);
    EXPECT_EQ(arena.reserved_bytes(), reserved);
  }
  // Peak: a (4032 rounded), and the inner scope.
  EXPECT_EQ(arena.peak_bytes(), 4032u + (size_t{32} << 20) + 64);
  arena.release();
  EXPECT_EQ(arena.reserved_bytes(), 0u);
  EXPECT_NE(arena.allocate(10), nullptr);
}

TEST(Arena, GrowsByBlocksWhereTheSystemGivesNoWideRange) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer's own address space is over any limit";
#endif
  const pid_t child = fork();
  if (child == 0) {
    const rlimit limit{size_t{2} << 30, size_t{2} << 30};   // the wide range is larger
    if (setrlimit(RLIMIT_AS, &limit) != 0) _exit(2);
    Arena arena;
    for (int i = 0; i < 40; ++i) std::memset(arena.allocate(1 << 20), i, 1 << 20);
    bool refused = false;
    try {
      arena.allocate(size_t{3} << 30);
    } catch (const Error& e) {
      refused = e.kind == ErrorKind::resource;
    }
    _exit(refused && arena.reserved_bytes() < (size_t{1} << 30) ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST(Arena, ImpossibleSizesAreErrors) {
  Arena arena;
  EXPECT_THROW(arena.take<float>(-1), Error);
  EXPECT_THROW(arena.allocate(SIZE_MAX - 5), Error);
}

}  // namespace
}  // namespace zt

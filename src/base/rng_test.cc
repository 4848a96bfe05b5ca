// torch.randn of the golden fixture, bit for bit.
#include "base/rng.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/mapped_file.h"

namespace zt {
namespace {

TEST(TorchGenerator, EqualsTorchBitForBit) {
  MappedFile file(ZT_SOURCE_DIR "/tests/golden/a/golden.safetensors");   // 8 bytes of header length, the header, the data
  const char* bytes = reinterpret_cast<const char*>(file.bytes().data());
  uint64_t length = 0;
  std::memcpy(&length, bytes, 8);
  Json header = parse_json({bytes + 8, length}, file.path());
  int cases = 0;
  for (auto& [name, entry] : header.items()) {
    unsigned long long seed = 0;
    int n = 0;
    if (std::sscanf(name.c_str(), "unit.randn.seed%llu.n%d", &seed, &n) != 2) continue;
    std::vector<float> expected(static_cast<size_t>(n)), found(static_cast<size_t>(n));
    std::memcpy(expected.data(), bytes + 8 + length + entry["data_offsets"][0].get<size_t>(), expected.size() * 4);
    TorchGenerator(seed).randn(found);
    EXPECT_EQ(std::memcmp(expected.data(), found.data(), expected.size() * 4), 0) << name;
    ++cases;
  }
  EXPECT_GE(cases, 6);
}

TEST(TorchGenerator, DrawsContinueAndOnlyTheLowBitsOfASeedCount) {
  std::vector<float> whole(32), a(16), b(16);
  TorchGenerator one(5), two(5), wide(5 + (uint64_t{1} << 32));
  one.randn(whole);
  two.randn(a);
  two.randn(b);
  EXPECT_TRUE(std::equal(a.begin(), a.end(), whole.begin()));
  EXPECT_TRUE(std::equal(b.begin(), b.end(), whole.begin() + 16));
  wide.randn(a);
  EXPECT_TRUE(std::equal(a.begin(), a.end(), whole.begin()));
  // Below 16 values the pairs are kept across calls.
  std::vector<float> small(6), c(3), d(3);
  TorchGenerator(9).randn(small);
  TorchGenerator three(9);
  three.randn(c);
  three.randn(d);
  EXPECT_TRUE(std::equal(c.begin(), c.end(), small.begin()));
  EXPECT_TRUE(std::equal(d.begin(), d.end(), small.begin() + 3));
}

}  // namespace
}  // namespace zt

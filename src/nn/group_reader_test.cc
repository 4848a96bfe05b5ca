#include "nn/group_reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "base/test_support.h"

namespace fs = std::filesystem;

namespace zt {
namespace {

constexpr int64_t kGroups = 4, kValues = 40000;

class GroupReaderTest : public testing::Test {
 protected:
  void SetUp() override {
    std::vector<std::vector<float>> kept;
    std::vector<NamedView> views;
    TensorSpecs specs;
    for (int64_t g = 0; g < kGroups; ++g)
      for (const char* part : {"a", "b"}) {
        kept.emplace_back(static_cast<size_t>(kValues), value(g, part));
        const std::string name = fmt::format("{}.{}", g, part);
        views.push_back({name, {kept.back().data(), DType::f32, {kValues}}});
        specs.push_back({name, {kValues}, TensorSpec::Use::vector});
      }
    save_safetensors(path_, views);
    weights_ = std::make_unique<Weights>(open_checkpoint(path_), specs, "x");
  }
  static float value(int64_t g, const std::string& part) { return static_cast<float>(10 * g + (part == "b")); }

  std::vector<GroupReader::Group> groups() const {
    std::vector<GroupReader::Group> out;
    for (int64_t g = 0; g < kGroups; ++g) out.push_back(weights_->stored([g](const std::string& name) { return name.starts_with(std::to_string(g)); }));
    return out;
  }
  void expect_group(const Staging& s, int64_t g) {
    weights_->use(&s);
    for (const char* part : {"a", "b"}) EXPECT_EQ(weights_->vector(fmt::format("{}.{}", g, part)), std::vector<float>(static_cast<size_t>(kValues), value(g, part))) << g;
    weights_->use(nullptr);
  }

  const TestFolder folder_;
  const std::string path_ = folder_.file("x.safetensors");
  std::unique_ptr<Weights> weights_;
};

TEST_F(GroupReaderTest, AnyOrderInTwoBuffers) {
  for (bool forget : {false, true}) {
    GroupReader reader(*weights_, groups(), forget);
    std::vector<const Staging*> seen;
    for (size_t i : {0, 1, 2, 3, 0, 1, 3, 3, 0, 2, 1})
      for (size_t next : {(i + 1) % 4, GroupReader::kNone, i, (i + 2) % 4}) {
        const Staging& s = reader.acquire(i, next, nullptr);
        expect_group(s, static_cast<int64_t>(i));
        if (std::find(seen.begin(), seen.end(), &s) == seen.end()) seen.push_back(&s);
      }
    EXPECT_EQ(seen.size(), 2u);
    EXPECT_EQ(seen[0]->bytes(), static_cast<size_t>(2 * kValues * 4));
  }
  expect_group(Staging(), 1);   // nothing staged: from the file
}

// Read ahead or waited for, the error is that of the group, and what still stands in the file is read.
TEST_F(GroupReaderTest, FileCutShort) {
  GroupReader reader(*weights_, groups(), true);
  fs::resize_file(path_, fs::file_size(path_) - 4 * kValues * sizeof(float));   // to the end of group 1
  int refused = 0;
  for (int round = 0; round < 2; ++round)
    for (size_t i = 0; i < kGroups; ++i) {
      try {
        expect_group(reader.acquire(i, (i + 1) % kGroups, nullptr), static_cast<int64_t>(i));
      } catch (const Error& e) {
        expect_words(e.what(), {path_.c_str(), "cut short", i == 2 ? "(tensor 2.a)" : "(tensor 3.a)"});
        ++refused;
      }
    }
  EXPECT_EQ(refused, 4);
}

TEST_F(GroupReaderTest, WaitingEndsWithTheWish) {
  GroupReader reader(*weights_, groups(), true);
  const std::atomic<bool> cancel{true};
  EXPECT_THROW(reader.acquire(0, 1, &cancel), Cancelled);
  expect_group(reader.acquire(0, 1, nullptr), 0);
  reader.acquire(1, 2, nullptr);
}   // ends while it reads ahead

}  // namespace
}  // namespace zt

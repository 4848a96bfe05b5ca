// Every spelling read through the table gives the tensors that the table's own names gave.
#include "nn/spelling.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <numeric>

#include "base/test_support.h"

namespace fs = std::filesystem;

namespace zt {
namespace {

using Rows = TensorSource::Rows;

TensorSpecs table() {
  TensorSpecs out;
  for (int64_t part = 0; part < 3; ++part)
    out.push_back({std::string("attn.") + "qkv"[part], {6, 4}, TensorSpec::Use::matrix, {{"qkv", Rows::fused, part, 3}}});
  out.push_back({"ff", {8, 2}, TensorSpec::Use::matrix, {{"fc1", Rows::halves_swapped}}});
  out.push_back({"norm", {5}, TensorSpec::Use::vector, {{"n"}}});
  out.push_back({"alone", {1}, TensorSpec::Use::vector});
  out.push_back({"rope", {3}, TensorSpec::Use::foreign});
  return out;
}

class SpellingTest : public testing::Test {
 protected:
  void SetUp() override {
    std::vector<float> values(200);
    std::iota(values.begin(), values.end(), 0.0f);
    std::vector<NamedView> tensors;
    size_t at = 0;
    for (const TensorSpec& s : table())
      if (s.use != TensorSpec::Use::foreign) {
        tensors.push_back({s.name, {values.data() + at, DType::f32, s.shape}});
        at += static_cast<size_t>(element_count(s.shape));
      }
    save_safetensors(path("ours"), tensors);
  }
  std::string path(const std::string& name) const { return folder_.file(name + ".safetensors"); }

  // Reads `from`, writes it in another spelling a row at a time.
  void rewrite(const std::string& from, Spelling spelling, const std::string& to) {
    const WeightFiles files = open_checkpoint(path(from));
    const TensorSpecs specs = table();
    const Binding binding = bind_tensors(files, specs);
    check_binding(binding, specs, from);
    std::vector<std::vector<float>> values;
    std::vector<NamedView> tensors;
    for (const SpelledTensor& t : spell(specs, binding, spelling)) {
      values.emplace_back(static_cast<size_t>(element_count(t.shape)));
      for (int64_t r = 0; r < t.rows(); ++r) t.read(r, 1, values.back().data() + r * t.row_values());
      std::vector<float> whole(values.back().size());
      t.read(0, t.rows(), whole.data());
      EXPECT_EQ(whole, values.back()) << t.name;
      tensors.push_back({t.name, {nullptr, DType::f32, t.shape}});
    }
    for (size_t i = 0; i < tensors.size(); ++i) tensors[i].view.data = values[i].data();
    save_safetensors(path(to), tensors);
  }
  std::vector<float> read(const std::string& name, const std::string& tensor) {
    const WeightFiles files = open_checkpoint(path(name));
    const Stored* t = files.find(tensor);
    EXPECT_NE(t, nullptr) << tensor;
    std::vector<float> out(t ? static_cast<size_t>(element_count(t->shape)) : 0);
    if (t) read_rows(*t, 0, t->rows(), out.data());
    return out;
  }

  const TestFolder folder_;
};

TEST_F(SpellingTest, ThereAndBack) {
  rewrite("ours", Spelling::stacked, "stacked");
  rewrite("stacked", Spelling::ours, "back");
  rewrite("stacked", Spelling::stacked, "again");
  for (const char* name : {"attn.q", "attn.k", "attn.v", "ff", "norm", "alone"}) EXPECT_EQ(read("back", name), read("ours", name)) << name;
  for (const char* name : {"qkv", "fc1", "n", "alone"}) EXPECT_EQ(read("again", name), read("stacked", name)) << name;
}

TEST_F(SpellingTest, OrdersOfRows) {
  rewrite("ours", Spelling::stacked, "stacked");
  rewrite("ours", Spelling::by_head, "heads");
  const std::vector<float> stacked = read("stacked", "qkv"), heads = read("heads", "qkv"), fc1 = read("stacked", "fc1");
  ASSERT_EQ(stacked.size(), 72u);
  for (size_t i = 0; i < 72; ++i) EXPECT_EQ(stacked[i], static_cast<float>(i));             // all q, all k, all v
  for (int head = 0; head < 3; ++head)                                                        // two rows of four of each
    for (int part = 0; part < 3; ++part) EXPECT_EQ(heads[static_cast<size_t>(head * 24 + part * 8)], static_cast<float>(part * 24 + head * 8));
  EXPECT_EQ(fc1[0], 72.0f + 8);                                                                // the second half first
  EXPECT_EQ(fc1[8], 72.0f);
}

}  // namespace
}  // namespace zt

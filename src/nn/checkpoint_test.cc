// What tests/checkpoints.py cannot ask under a sanitizer: damaged scales, and names that several spellings share.
#include "nn/checkpoint.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <random>

#include "base/test_support.h"
#include "nn/weights.h"

namespace fs = std::filesystem;

namespace zt {
namespace {

class CheckpointTest : public testing::Test {
 protected:
  std::string file() const { return folder_.file("x.safetensors"); }

  // Bytes that live as long as the test.
  const void* keep(std::vector<uint8_t> bytes) {
    kept_.push_back(std::make_unique<std::vector<uint8_t>>(std::move(bytes)));
    return kept_.back()->data();
  }
  NamedView text(const std::string& name, const std::string& s) {
    return {name, {keep({s.begin(), s.end()}), DType::u8, {static_cast<int64_t>(s.size())}}};
  }
  NamedView floats(const std::string& name, Shape shape, float v) {
    std::vector<float> values(static_cast<size_t>(element_count(shape)), v);
    const auto* p = reinterpret_cast<const uint8_t*>(values.data());
    return {name, {keep({p, p + values.size() * 4}), DType::f32, std::move(shape)}};
  }
  NamedView codes(const std::string& name, DType type, Shape shape) {
    std::vector<uint8_t> bytes(static_cast<size_t>(element_count(shape)));
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i * 7 % 112);
    return {name, {keep(std::move(bytes)), type, std::move(shape)}};
  }
  std::vector<NamedView> every_kind() {
    return {codes("a.weight", DType::f8_e4m3, {8, 32}), floats("a.weight_scale", {}, 0.5f),
            codes("b.weight", DType::i8, {8, 64}),      floats("b.weight_scale", {8, 1}, 0.25f),
            text("b.comfy_quant", R"({"format":"int8_tensorwise","convrot":true,"convrot_groupsize":16})"),
            codes("c.weight", DType::u8, {130, 24}),    codes("c.weight_scale", DType::f8_e4m3, {256, 4}),
            floats("c.weight_scale_2", {}, 2),          text("c.comfy_quant", R"({"format":"nvfp4"})"),
            floats("d.bias", {4}, 1)};
  }
  const TestFolder folder_;
  std::vector<std::unique_ptr<std::vector<uint8_t>>> kept_;
};

void read_all(const WeightFiles& c) {
  for (const Stored& t : c.tensors()) {
    std::vector<float> out(static_cast<size_t>(element_count(t.shape)));
    read_rows(t, 0, t.rows(), out.data());
    if (t.rows() > 2) read_rows(t, 1, 1, out.data());
  }
}

TEST_F(CheckpointTest, JoinsCodesAndScales) {
  save_safetensors(file(), every_kind());
  const WeightFiles c = open_checkpoint(folder_.path().string());
  ASSERT_EQ(c.tensors().size(), 4u);
  EXPECT_EQ(c.find("a.weight")->coding_name(), "F8_E4M3 scaled");
  EXPECT_EQ(c.find("b.weight")->coding_name(), "I8 rotated");
  EXPECT_EQ(c.find("c.weight")->shape, (Shape{130, 48}));
  EXPECT_EQ(c.find("a.weight_scale"), nullptr);
  std::vector<float> row(32);
  read_rows(*c.find("a.weight"), 0, 1, row.data());
  EXPECT_EQ(row[1], 0.5f * f8_e4m3_to_float(7));
  read_all(c);
}

TEST_F(CheckpointTest, DamageIsRefusedOrReadInBounds) {
  std::mt19937 random(5);
  int refused = 0;
  for (int i = 0; i < 400; ++i) {
    std::vector<NamedView> views = every_kind();
    NamedView& v = views[random() % views.size()];
    switch (random() % 5) {
      case 0: v.name = v.name.substr(0, 2) + (random() % 2 ? "weight_scale" : "comfy_quant"); break;
      case 1: v.view.dtype = v.view.dtype == DType::f32 ? DType::i32 : static_cast<DType>(5 + random() % 2 * 4); break;
      case 2: v.view.shape = {v.view.count()}; break;
      case 3:
        if (!v.view.shape.empty()) v.view.shape[random() % v.view.shape.size()] = static_cast<int64_t>(random() % 4);
        break;
      default: v = floats(v.name, {}, random() % 2 ? std::nanf("") : INFINITY);
    }
    if (v.view.bytes() > static_cast<int64_t>(kept_.back()->size()) && v.view.dtype == DType::f32) continue;
    try {
      save_safetensors(file(), views);
    } catch (const Error&) {
      continue;   // a name twice: no such file exists
    }
    try {
      read_all(open_checkpoint(file()));
    } catch (const Error& e) {
      EXPECT_EQ(static_cast<int>(e.kind), static_cast<int>(ErrorKind::model)) << e.what();
      ++refused;
    }
  }
  EXPECT_GT(refused, 100);
}

// Rows of q, k, v out of a fused tensor, in both orders, and swapped halves.
TEST_F(CheckpointTest, RowsComeInOurOrder) {
  std::vector<float> values(12 * 2);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i / 2);   // the row's number
  save_safetensors(file(), {{"qkv.weight", {values.data(), DType::f32, {12, 2}}}});
  const WeightFiles c = open_checkpoint(file());
  auto rows = [&](TensorSource::Rows order, int64_t part, int64_t n) {
    const BoundTensor b{c.find("qkv.weight"), {"", order, part, 2}};
    std::vector<float> out(static_cast<size_t>(2 * n)), first;
    b.read(0, n, out.data());
    for (int64_t i = 0; i < n; ++i) first.push_back(out[static_cast<size_t>(2 * i)]);
    return first;
  };
  using Rows = TensorSource::Rows;
  EXPECT_EQ(rows(Rows::fused, 1, 4), (std::vector<float>{4, 5, 6, 7}));
  EXPECT_EQ(rows(Rows::fused_by_head, 1, 4), (std::vector<float>{2, 3, 8, 9}));
  EXPECT_EQ(rows(Rows::halves_swapped, 0, 12), (std::vector<float>{6, 7, 8, 9, 10, 11, 0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(rows(Rows::norms, 0, 12)[3], std::sqrt(72.0f));   // row 6
}

}  // namespace
}  // namespace zt

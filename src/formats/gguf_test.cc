#include "formats/gguf.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <random>

#include "base/error.h"

namespace zt {
namespace {

// A GGUF file built value by value, as gguf-py writes it.
class Writer {
 public:
  template <class T>
  Writer& put(T v) {
    bytes_.append(reinterpret_cast<const char*>(&v), sizeof v);
    return *this;
  }
  Writer& text(const std::string& s) {
    put<uint64_t>(s.size());
    bytes_ += s;
    return *this;
  }
  Writer& header(uint64_t tensors, uint64_t pairs, uint32_t version = 3) {
    bytes_ += "GGUF";
    return put(version).put(tensors).put(pairs);
  }
  Writer& tensor(const std::string& name, std::vector<uint64_t> inner_first, GgufType type, uint64_t offset) {
    text(name).put<uint32_t>(static_cast<uint32_t>(inner_first.size()));
    for (uint64_t d : inner_first) put(d);
    return put(static_cast<uint32_t>(type)).put(offset);
  }
  std::string with_data(size_t n, size_t alignment = 32) {
    bytes_.resize((bytes_.size() + alignment - 1) / alignment * alignment);
    for (size_t i = 0; i < n; ++i) bytes_ += static_cast<char>(i * 37);
    return bytes_;
  }

 private:
  std::string bytes_;
};

GgufHeader parse(const std::string& s) { return parse_gguf(std::as_bytes(std::span(s.data(), s.size())), "x.gguf"); }

void refused(const std::string& bytes, const std::string& part) {
  try {
    parse(bytes);
    ADD_FAILURE() << "nothing was thrown, wanted: " << part;
  } catch (const Error& e) {
    EXPECT_EQ(static_cast<int>(e.kind), static_cast<int>(ErrorKind::model));
    EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what() << "\n  wanted: " << part;
    EXPECT_NE(std::string(e.what()).find("x.gguf"), std::string::npos) << e.what();
  }
}

std::string two_tensors() {
  Writer w;
  w.header(2, 3).text("general.architecture").put<uint32_t>(8).text("wan");
  w.text("orig").put<uint32_t>(9).put<uint32_t>(5).put<uint64_t>(2).put<int32_t>(7).put<int32_t>(9);
  w.text("names").put<uint32_t>(9).put<uint32_t>(8).put<uint64_t>(2).text("a").text("bc");
  w.tensor("first", {3, 2}, GgufType::f32, 0).tensor("second", {64}, GgufType::q8_0, 32);
  return w.with_data(32 + 68);
}

TEST(Gguf, ReadsTensorsAndMetadata) {
  const std::string bytes = two_tensors();
  const GgufHeader h = parse(bytes);
  ASSERT_EQ(h.tensors.size(), 2u);
  EXPECT_EQ(h.strings.at("general.architecture"), "wan");
  EXPECT_EQ(h.integer_lists.at("orig"), (std::vector<int64_t>{7, 9}));
  EXPECT_EQ(h.tensors[0].shape, (Shape{2, 3}));   // the file lists the innermost first
  EXPECT_EQ(h.tensors[1].bytes, 68);
  EXPECT_EQ(h.tensors[1].data - h.tensors[0].data, 32);
}

TEST(Gguf, RefusesWhatIsNoFileOfItsKind) {
  refused("", "not a GGUF file");
  refused(std::string("GGML") + std::string(40, '\0'), "not a GGUF file");
  refused(Writer().header(0, 0, 1).with_data(0), "version 1");
  refused(Writer().header(0, 0, 0x03000000).with_data(0), "big-endian");
  refused(Writer().header(uint64_t{1} << 40, 0).with_data(0), "claims");
  refused(Writer().header(0, 1).text("k").put<uint32_t>(13).with_data(0), "type 13");
  refused(Writer().header(0, 1).text("k").put<uint32_t>(9).put<uint32_t>(4).put<uint64_t>(uint64_t{1} << 62).with_data(0), "metadata k");
  refused(Writer().header(0, 1).put<uint64_t>(uint64_t{1} << 60).with_data(0), "a metadata key");
}

TEST(Gguf, RefusesTensorsByName) {
  auto one = [](std::vector<uint64_t> dims, GgufType type, uint64_t offset, size_t data) {
    return Writer().header(1, 0).tensor("w.weight", std::move(dims), type, offset).with_data(data);
  };
  refused(one({33}, GgufType::q8_0, 0, 64), "w.weight");                        // no whole blocks
  refused(one({32}, static_cast<GgufType>(99), 0, 64), "type 99");
  refused(one({32}, GgufType::f32, 0, 100), "w.weight");                        // cut short
  refused(one({32}, GgufType::f32, 8, 200), "multiple of 32");
  refused(one({32}, GgufType::f32, uint64_t{1} << 62, 200), "w.weight");
  refused(one({uint64_t{1} << 39, uint64_t{1} << 39}, GgufType::f32, 0, 64), "w.weight");
  refused(one({uint64_t{1} << 39, uint64_t{1} << 23}, GgufType::f32, 0, 64), "w.weight");
  refused(one({1, 1, 1, 1, 1}, GgufType::f32, 0, 64), "5 dimensions");
  refused(one({8}, GgufType::f32, 0, 64), "belong to no tensor");
  refused(Writer().header(2, 0).tensor("a", {8}, GgufType::f32, 0).tensor("a", {8}, GgufType::f32, 32).with_data(64), "stands twice");
  refused(Writer().header(2, 0).tensor("a", {16}, GgufType::f32, 0).tensor("b", {8}, GgufType::f32, 32).with_data(64), "inside tensor a");
  refused(Writer().header(2, 0).tensor("a", {8}, GgufType::f32, 0).tensor("b", {8}, GgufType::f32, 128).with_data(160), "tensor b");
}

// Bytes of a good file turned, dropped and doubled: refused as a model error, or every tensor lies inside and decodes.
TEST(Gguf, SurvivesMutations) {
  const std::string good = two_tensors();
  std::mt19937 random(11);
  int thrown = 0;
  for (int i = 0; i < 600; ++i) {
    std::string bytes = good;
    const size_t at = random() % bytes.size();
    if (i % 3 == 0) bytes.resize(at);
    else if (i % 3 == 1) bytes[at] = static_cast<char>(random());
    else bytes.insert(at, bytes.substr(at / 2, random() % 40));
    try {
      for (const GgufTensor& t : parse(bytes).tensors) {
        std::vector<float> out(static_cast<size_t>(element_count(t.shape)));
        gguf_decode(t.type, t.data, element_count(t.shape), out.data());
      }
    } catch (const Error& e) {
      EXPECT_EQ(static_cast<int>(e.kind), static_cast<int>(ErrorKind::model));
      ++thrown;
    }
  }
  EXPECT_GT(thrown, 350);
}

// One block of each layout by hand; tests/checkpoints.py holds all of them against the package gguf.
TEST(Gguf, DecodesBlocks) {
  std::vector<uint8_t> b(256, 0);
  const f16_t d = to_f16(0.5f), m = to_f16(-2.0f);
  std::vector<float> out(256);
  std::memcpy(b.data(), &d, 2);
  b[2] = 0xF0;   // value 0: code 0, value 16: code 15
  gguf_decode(GgufType::q4_0, b.data(), 32, out.data());
  EXPECT_EQ(out[0], -4.0f);
  EXPECT_EQ(out[16], 3.5f);
  b[2] = 0xFF;   // q8_0: code -1
  gguf_decode(GgufType::q8_0, b.data(), 32, out.data());
  EXPECT_EQ(out[0], -0.5f);
  std::memcpy(b.data() + 2, &m, 2);
  b[4] = 0x21;
  gguf_decode(GgufType::q4_1, b.data(), 32, out.data());
  EXPECT_EQ(out[0], 0.5f - 2.0f);
  EXPECT_EQ(out[16], 1.0f - 2.0f);
  std::fill(b.begin(), b.end(), uint8_t{0});
  std::memcpy(b.data() + 208, &d, 2);
  b[192] = 0xFE;   // q6_k: scale -2 of the first 16 values, all codes 0 - 32
  gguf_decode(GgufType::q6_k, b.data(), 256, out.data());
  EXPECT_EQ(out[0], 0.5f * -2 * -32);
  EXPECT_EQ(out[16], 0.0f);
}

}  // namespace
}  // namespace zt

#include "formats/safetensors.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>

#include "base/test_support.h"

namespace fs = std::filesystem;

namespace zt {
namespace {

// A folder of its own for every test.
class Safetensors : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_.file(name); }

  std::string put(const std::string& name, const std::string& bytes) {
    std::ofstream(path(name), std::ios::binary) << bytes;
    return path(name);
  }
  // Length, header and data put together as they are.
  static std::string raw(const std::string& header, const std::string& data, uint64_t length) {
    std::string s(8, '\0');
    for (int i = 0; i < 8; ++i) s[static_cast<size_t>(i)] = static_cast<char>(length >> (8 * i));
    return s + header + data;
  }
  static std::string raw(const std::string& header, const std::string& data) { return raw(header, data, header.size()); }

  static void expect_message(const std::function<void()>& f, const std::string& part, ErrorKind kind = ErrorKind::model) {
    try {
      f();
      ADD_FAILURE() << "nothing was thrown, wanted: " << part;
    } catch (const Error& e) {
      EXPECT_EQ(static_cast<int>(e.kind), static_cast<int>(kind)) << e.what();
      EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what() << "\n  wanted: " << part;
    }
  }
  void refused(const std::string& bytes, const std::string& part) {
    std::string p = put("bad.safetensors", bytes);
    expect_message([&] { SafetensorsFile f(p); }, part);
    expect_message([&] { SafetensorsFile f(p); }, "bad.safetensors");
    expect_message([&] { open_weights(p); }, part);
  }
  const TestFolder folder_;
};

const std::string kOne = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";

TEST_F(Safetensors, WritesAndReads) {
  std::vector<float> a = {1, 2, 3, 4, 5, 6};
  std::vector<uint8_t> b = {7, 8, 9};
  std::vector<double> c = {0.5};
  std::string p = path("x.safetensors");
  save_safetensors(p,
                   {{"b", {b.data(), DType::u8, {3}}},
                    {"a", {a.data(), DType::f32, {2, 3}}},
                    {"c", {c.data(), DType::f64, {}}},
                    {"none", {nullptr, DType::f32, {0, 4}}}},
                   {{"made by", "a \"test\""}});
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator{}), 1) << "a temporary file was left";
  SafetensorsFile f(p);
  ASSERT_EQ(f.tensors().size(), 4u);
  EXPECT_EQ(f.tensors()[0].name, "c");  // larger elements first
  EXPECT_EQ(f.tensors()[1].name, "a");
  EXPECT_EQ(f.tensors()[3].name, "b");
  EXPECT_EQ(f.metadata().at("made by"), "a \"test\"");
  EXPECT_EQ(f.total_bytes(), 24 + 3 + 8);
  EXPECT_EQ(f.find("z"), nullptr);
  ASSERT_NE(f.find("a"), nullptr);
  EXPECT_EQ(f.find("a")->shape, (Shape{2, 3}));
  EXPECT_EQ(to_float32(*f.find("a")), a);
  EXPECT_EQ(to_float32(*f.find("b")), (std::vector<float>{7, 8, 9}));
  EXPECT_EQ(to_float32(*f.find("c")), (std::vector<float>{0.5f}));
  EXPECT_EQ(f.find("none")->count(), 0);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(f.find("a")->data) % 8, 0u);
}

TEST_F(Safetensors, ReadsTheGoldenFile) {
  std::string root = std::string(ZT_SOURCE_DIR) + "/tests/golden/a/";
  SafetensorsFile f(root + "golden.safetensors");
  ASSERT_NE(f.find("t2va.geometry"), nullptr);
  EXPECT_EQ(to_float32(*f.find("t2va.geometry")), (std::vector<float>{64, 96, 22, 7, 4, 6, 37, 0, 0}));
  SafetensorsSet set = open_weights(root + "model/transformer");
  EXPECT_EQ(set.files().size(), 1u);
  EXPECT_NE(set.find("proj_in.weight"), nullptr);
  EXPECT_EQ(set.names().size(), set.size());
  EXPECT_EQ(set.file_of("proj_in.weight"), root + "model/transformer/diffusion_pytorch_model.safetensors");
  EXPECT_GT(open_weights(root + "model/text_encoder").size(), 100u);
}

TEST_F(Safetensors, KeepsTheOrderOfTheHeaderAndUnalignedStarts) {
  std::string header =
      R"({"z":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"F32","shape":[1],"data_offsets":[1,5]},)"
      R"("m":{"data_offsets":[5,7],"shape":[],"dtype":"BF16"}}  )";
  float one = 1;
  std::string data("\x05", 1);
  data.append(reinterpret_cast<const char*>(&one), 4).append("\x80\x3f", 2);
  SafetensorsFile f(put("o.safetensors", raw(header, data)));
  EXPECT_EQ(f.tensors()[0].name, "z");
  EXPECT_EQ(f.tensors()[1].name, "a");
  EXPECT_EQ(to_float32(*f.find("a"))[0], 1);
  EXPECT_EQ(to_float32(*f.find("m"))[0], 1);
}

TEST_F(Safetensors, RefusesBrokenFrames) {
  expect_message([&] { SafetensorsFile f(path("absent.safetensors")); }, "absent.safetensors");
  expect_message([&] { SafetensorsFile f(folder_.path().string()); }, "not a regular file");
  refused("", "found 0 bytes");
  refused("1234567", "found 7 bytes");
  refused(raw("", ""), "does not begin with {");
  refused(raw(kOne, std::string(8, 'x'), kOne.size() + 9), "claims 63 bytes, but the file has 62");
  refused(raw(kOne, std::string(8, 'x'), ~uint64_t{0}), "more than the 100000000 allowed");
  refused(raw(kOne, std::string(7, 'x')), "tensor a: ends at byte 8 of the data, but the file holds 7");
  refused(raw(kOne, ""), "truncated by 8 bytes");
  refused(raw(kOne, std::string(9, 'x')), "found 9 bytes of tensors, wanted 8");
  refused("version https://git-lfs.github.com/spec/v1\noid sha256:00\n", "Git LFS pointer");
  refused(std::string(64, '\xff'), "not a safetensors file");
}

TEST_F(Safetensors, RefusesBrokenJson) {
  const std::string data(8, 'x');
  auto header = [&](const std::string& h, const std::string& part) { refused(raw(h, data), part); };
  header(kOne.substr(0, kOne.size() - 1), "not valid JSON");
  header(kOne + "x", "not valid JSON");
  header("[" + kOne + "]", "does not begin with {");
  header(R"({"a":3})", "\"a\" is the number 3, wanted an object");
  header(R"({"a":null})", "\"a\" is null");
  header(R"({"a":[1]})", "\"a\" is a list");
  header(R"({"a":{}})", "tensor a: key \"dtype\" is missing");
  header(R"({"a":{"dtype":"F32","data_offsets":[0,8]}})", "key \"shape\" is missing");
  header(R"({"a":{"dtype":"F32","shape":[2]}})", "key \"data_offsets\" is missing");
  header(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0]}})", "data_offsets holds 1 numbers");
  header(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8,9]}})", "more than two");
  header(R"({"a":{"dtype":"F32","shape":[[2]],"data_offsets":[0,8]}})", "\"shape\" is or holds a list");
  header(R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", "the number -2");
  header(R"({"a":{"dtype":"F32","shape":[2.0],"data_offsets":[0,8]}})", "the number 2.0");
  header(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,-8]}})", "the number -8");
  header(R"({"a":{"dtype":"F32","shape":["2"],"data_offsets":[0,8]}})", "the string \"2\"");
  header(R"({"a":{"dtype":4,"shape":[2],"data_offsets":[0,8]}})", "wanted a dtype name");
  header(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"more":1}})", "wanted only dtype");
  header(R"({"a":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}})", "\"dtype\" stands twice");
  header(R"({"__metadata__":{"k":1},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", "wanted a string");
  header(R"({"__metadata__":{"k":{}}})", "is or holds an object");
  header("{\"a\xff\":{}}", "not valid JSON");
  header("{" + std::string(100000, '['), "not valid JSON");
  std::string deep = R"({"a":)";
  for (int i = 0; i < 100000; ++i) deep += R"({"a":)";
  header(deep, "");
}

TEST_F(Safetensors, RefusesLyingTensors) {
  auto two = [&](const std::string& a, const std::string& b, int bytes, const std::string& part) {
    refused(raw("{\"a\":" + a + ",\"b\":" + b + "}", std::string(static_cast<size_t>(bytes), 'x')), part);
  };
  auto t = [](const std::string& dtype, const std::string& shape, const std::string& offsets) {
    return "{\"dtype\":\"" + dtype + "\",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}";
  };
  const std::string first = t("F32", "[2]", "[0,8]");
  two(first, t("F32", "[2]", "[4,12]"), 12, "tensor b starts at byte 4 inside tensor a, which ends at 8");
  two(first, t("F32", "[2]", "[0,8]"), 8, "inside tensor");
  two(first, t("F32", "[2]", "[12,20]"), 20, "tensor b starts at byte 12, wanted 8: 4 bytes before it belong to no tensor");
  two(first, t("F32", "[2]", "[16,8]"), 16, "run backwards");
  two(first, t("F32", "[3]", "[8,16]"), 16, "hold 8 bytes, wanted 12 for F32 [3]");
  two(first, t("BF16", "[2]", "[8,16]"), 16, "hold 8 bytes, wanted 4 for BF16 [2]");
  two(first, t("F31", "[2]", "[8,16]"), 16, "tensor b: found dtype F31");
  two(first, t("F32", "[1099511627777]", "[8,16]"), 16, "dimension 1099511627777 is too large");
  two(first, t("F32", "[1099511627776,1099511627776]", "[8,16]"), 16, "more elements than fit");
  two(first, t("F32", "[4294967296,1073741824]", "[8,8]"), 8, "more elements than fit");
  two(first, t("F32", "[18446744073709551615]", "[8,16]"), 16, "the number 18446744073709551615");
  two(first, t("F32", "[1,1,1,1,1,1,1,1,2]", "[8,16]"), 16, "more than 8 dimensions");
  two(first, t("F32", "[2]", "[9223372036854775800,9223372036854775808]"), 16, "the number 9223372036854775808");
  refused(raw("{\"a\":" + first + ",\"a\":" + t("F32", "[2]", "[8,16]") + "}", std::string(16, 'x')), "\"a\" stands twice");
}

class Shards : public Safetensors {
 protected:
  // Two shards, three tensors, 6 floats.
  void write_shards() {
    save_safetensors(path("model-00001-of-00002.safetensors"), {{"a", {v_.data(), DType::f32, {2}}}, {"b", {v_.data(), DType::f32, {1}}}});
    save_safetensors(path("model-00002-of-00002.safetensors"), {{"c", {v_.data(), DType::f32, {3}}}});
  }
  void write_index(const std::string& map, const std::string& metadata = R"({"total_size":24})") {
    put("model.safetensors.index.json", "{\"metadata\":" + metadata + ",\"weight_map\":{" + map + "}}");
  }
  void refused_set(const std::string& part) {
    expect_message([&] { open_weights(folder_.path().string()); }, part);
  }
  std::vector<float> v_ = {1, 2, 3};
  const std::string map_ =
      R"("a":"model-00001-of-00002.safetensors","b":"model-00001-of-00002.safetensors","c":"model-00002-of-00002.safetensors")";
};

TEST_F(Shards, OpensFolderIndexAndShard) {
  write_shards();
  write_index(map_);
  for (std::string p : {folder_.path().string(), path("model.safetensors.index.json"), path("model-00002-of-00002.safetensors")}) {
    SafetensorsSet set = open_weights(p);
    EXPECT_EQ(set.names(), (std::vector<std::string>{"a", "b", "c"}));
    EXPECT_EQ(set.total_bytes(), 24);
    EXPECT_EQ(to_float32(*set.find("c")), v_);
    EXPECT_EQ(set.find("d"), nullptr);
    EXPECT_EQ(set.file_of("c"), path("model-00002-of-00002.safetensors"));
    EXPECT_EQ(set.origin(), path("model.safetensors.index.json"));
  }
  EXPECT_EQ(open_weights(folder_.path().string(), "model").size(), 3u);
  expect_message([&] { open_weights(folder_.path().string(), "other"); }, "a shard without its index");
  expect_message([&] { open_weights(folder_.path().string()).file_of("d"); }, "tensor d is missing");
}

TEST_F(Shards, RefusesWhatDoesNotFit) {
  expect_message([&] { open_weights(path("nothing")); }, "no such file or folder");
  refused_set("no weights: wanted diffusion_pytorch_model.safetensors or diffusion_pytorch_model.safetensors.index.json");
  write_shards();
  refused_set("model-00001-of-00002.safetensors: a shard without its index: model.safetensors.index.json is missing");
  expect_message([&] { open_weights(path("model-00002-of-00002.safetensors")); }, "a shard without its index");
  write_index(map_, R"({"total_size":25})");
  refused_set("found 24 bytes of tensors in the shards, wanted the total_size 25");
  write_index(map_, R"({"total_size":-1})");
  refused_set("\"total_size\" is -1");
  write_index(map_ + R"(,"d":"model-00002-of-00002.safetensors")");
  refused_set("tensor d should be in model-00002-of-00002.safetensors, but is not there");
  write_index(R"("a":"model-00001-of-00002.safetensors","c":"model-00002-of-00002.safetensors")");
  refused_set("tensor b of");
  write_index(R"("a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors","c":"model-00002-of-00002.safetensors")");
  refused_set("tensor b should be in model-00002-of-00002.safetensors, but is in");
  write_index(map_ + R"(,"d":"model-00003-of-00003.safetensors")");
  refused_set("model-00003-of-00003.safetensors is missing");
  write_index(R"("a":"../a.safetensors")");
  refused_set("wanted the plain name");
  write_index(R"("a":7)");
  refused_set("found the file name 7");
  write_index("");
  refused_set("names no tensor");
  put("model.safetensors.index.json", "{}");
  refused_set("\"weight_map\" is missing");
  put("model.safetensors.index.json", "{");
  refused_set("not valid JSON");
  write_index(map_);
  save_safetensors(path("model-00002-of-00002.safetensors"), {{"a", {v_.data(), DType::f32, {3}}}, {"c", {v_.data(), DType::f32, {3}}}});
  refused_set("tensor a is in");
  save_safetensors(path("model.safetensors"), {{"a", {v_.data(), DType::f32, {3}}}});
  refused_set("found both");
}

TEST_F(Shards, ChecksStatedHashes) {
  write_shards();
  write_index(map_);
  EXPECT_TRUE(open_weights(folder_.path().string()).sha256().empty());
  std::string one = sha256_file(path("model-00001-of-00002.safetensors"));
  put("model-00001-of-00002.safetensors.sha256", one + "  model-00001-of-00002.safetensors\n");
  write_index(map_, R"({"sha256":{"model-00002-of-00002.safetensors":")" + std::string(64, 'A') + "\"}}");
  auto hashes = open_weights(folder_.path().string()).sha256();
  ASSERT_EQ(hashes.size(), 2u);
  EXPECT_EQ(hashes[0].wanted, hashes[0].found);
  EXPECT_EQ(hashes[1].wanted, std::string(64, 'a'));
  EXPECT_EQ(hashes[1].found, sha256_file(path("model-00002-of-00002.safetensors")));
  put("model-00001-of-00002.safetensors.sha256", "no hash");
  expect_message([&] { open_weights(folder_.path().string()).sha256(); }, "64 hex digits");
}

TEST_F(Safetensors, HashesAsTheStandardSays) {
  EXPECT_EQ(sha256_file(put("abc", "abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_file(put("empty", "")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST_F(Safetensors, WriterLeavesNoHalfFile) {
  std::vector<float> a = {1, 2};
  NamedView v{"a", {a.data(), DType::f32, {2}}};
  expect_message([&] { save_safetensors(path("none/x.safetensors"), {v}); }, "none/x.safetensors: cannot write", ErrorKind::request);
  expect_message([&] { save_safetensors(path("x.safetensors"), {v, v}); }, "stands twice", ErrorKind::request);
  expect_message([&] { save_safetensors(folder_.path().string(), {v}); }, "cannot be replaced", ErrorKind::request);
  EXPECT_TRUE(fs::is_empty(folder_.path()));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator{}), 0);
}

}  // namespace
}  // namespace zt

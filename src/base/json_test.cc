#include "base/json.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"

namespace zt {
namespace {

std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, ErrorKind::model);
    return e.what();
  }
  return "no error";
}

std::string parse_error(std::string_view text) {
  return error_of([&] { parse_json(text, "a.json"); });
}

TEST(Json, ReadsWhatItShould) {
  Json j = parse_json(R"({"a": [1, -2, 3.5, true, null, "é\n\u00e9"], "b": {"c": {}}, "": [], "big": 18446744073709551615})", "a.json");
  EXPECT_EQ(j["a"].size(), 6u);
  EXPECT_EQ(j["a"][5], "é\né");
  EXPECT_TRUE(j["b"]["c"].is_object());
  EXPECT_TRUE(j[""].is_array());
  EXPECT_EQ(j["big"], UINT64_MAX);
  EXPECT_EQ(parse_json("7", "a.json"), 7);
  EXPECT_EQ(parse_json(std::string(64, '[') + std::string(64, ']'), "a.json").size(), 1u);
}

TEST(Json, BrokenTextIsNamed) {
  for (std::string_view bad : {"", " ", "{", "[1,]", "{\"a\":}", "{\"a\" 1}", "nul", "1 2", "\"\xFF\"", "\"\xED\xA0\x80\"", "{'a': 1}", "1e999",
                               "[NaN]", "\"a\nb\"", "\"\\ud800\"", "// x\n1"}) {
    std::string e = parse_error(bad);
    EXPECT_NE(e.find("a.json: not valid JSON"), std::string::npos) << bad << ": " << e;
  }
  EXPECT_NE(parse_error("{\n\"a\": x}").find("line 2, column 6"), std::string::npos);
  std::string noise = parse_error("[\"" + std::string(100000, '\xFF'));   // nothing of the input breaks or floods the message
  EXPECT_LT(noise.size(), 400u);
  for (char c : noise) EXPECT_TRUE(c >= 0x20 && c < 0x7F);
}

TEST(Json, DeepRepeatedAndHugeTextIsRefusedFast) {
  EXPECT_NE(parse_error(std::string(65, '[') + std::string(65, ']')).find("deeper than 64"), std::string::npos);
  EXPECT_NE(parse_error(std::string(10 << 20, '[')).find("deeper than 64"), std::string::npos);
  std::string nested;
  for (int i = 0; i < 100000; ++i) nested += "{\"a\":";
  EXPECT_NE(parse_error(nested).find("deeper than 64"), std::string::npos);
  EXPECT_NE(parse_error(R"({"x": {"a": 1, "b": 2, "a": 3}})").find("key \"a\" stands twice"), std::string::npos);
  std::string many = "[0";
  for (int i = 0; i < 5 << 20; ++i) many += ",0";
  EXPECT_NE(parse_error(many + "]").find("more than 4194304 values"), std::string::npos);
  // A list of many objects: the library's callback parser takes quadratic time for this one.
  std::string objects = "[{}";
  for (int i = 0; i < 200000; ++i) objects += ",{}";
  auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(parse_json(objects + "]", "a.json").size(), 200001u);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
}

TEST(Json, AViewChecksTypesAndRanges) {
  Json j = parse_json(R"({"i": 5, "f": 5.0, "h": 5.5, "n": -3, "s": "x", "b": true, "l": [1, 2], "m": [1, "x"], "o": {"k": 1}, "z": null,
                          "huge": 18446744073709551615, "wide": 1e300, "edge": 9223372036854775808, "fl": [0.5, -1], "inf": [1e39, 0]})",
                      "a.json");
  JsonView v(j, "a.json");
  EXPECT_EQ(v.integer("i", 0, 5), 5);
  EXPECT_EQ(v.integer("f", 0, 9), 5);
  EXPECT_EQ(v.integer("n", -3, 9), -3);
  EXPECT_EQ(v.integer("missing", 0, 9, 7), 7);
  EXPECT_EQ(v.integer("z", 0, 9, 7), 7);   // null counts as missing
  EXPECT_EQ(v.number("h", 0, 9), 5.5);
  EXPECT_EQ(v.number("missing", 0, 9, 1.5), 1.5);
  EXPECT_TRUE(v.boolean("b", false));
  EXPECT_EQ(v.text("s"), "x");
  EXPECT_EQ(v.text("missing", "y"), "y");
  EXPECT_EQ(v.integers("l", 0, 9), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(v.floats("fl", 2), (std::vector<float>{0.5f, -1.0f}));
  EXPECT_EQ(v.child("o").integer("k", 0, 1), 1);
  const std::vector<std::pair<std::function<void()>, std::vector<std::string>>> wrong = {
      {[&] { v.integer("missing", 0, 9); }, {"a.json", "\"missing\" is missing"}},
      {[&] { v.integer("h", 0, 9); }, {"\"h\"", "5.5", "integer from 0 to 9"}},
      {[&] { v.integer("s", 0, 9); }, {"\"s\"", "\"x\""}},
      {[&] { v.integer("n", 0, 9); }, {"\"n\"", "-3", "from 0 to 9"}},
      {[&] { v.integer("huge", INT64_MIN, INT64_MAX); }, {"18446744073709551615"}},
      {[&] { v.integer("edge", INT64_MIN, INT64_MAX); }, {"9223372036854775808"}},
      {[&] { v.integer("wide", INT64_MIN, INT64_MAX); }, {"1e+300"}},
      {[&] { v.integer("b", 0, 9); }, {"true"}},
      {[&] { v.number("s", 0, 9); }, {"\"x\""}},
      {[&] { v.number("wide", 0, 9); }, {"1e+300"}},
      {[&] { v.boolean("i", true); }, {"\"i\"", "5", "true or false"}},
      {[&] { v.text("i"); }, {"\"i\"", "string"}},
      {[&] { v.integers("i", 0, 9); }, {"\"i\"", "list"}},
      {[&] { v.integers("m", 0, 9); }, {"\"m\"", "\"x\""}},
      {[&] { v.integers("l", 2, 9); }, {"\"l\"", "1", "2 to 9"}},
      {[&] { v.floats("fl", 3); }, {"\"fl\"", "3 numbers"}},
      {[&] { v.floats("inf", 2); }, {"\"inf\"", "finite"}},
      {[&] { v.child("i"); }, {"a.json: i", "object"}},
      {[&] { v.child("o").at("q"); }, {"a.json: o", "\"q\""}},
      {[&] { JsonView(j["l"], "a.json: l"); }, {"[1,2]", "object"}},
  };
  for (auto& [f, parts] : wrong) {
    std::string e = error_of(f);
    for (auto& part : parts) EXPECT_NE(e.find(part), std::string::npos) << e << " lacks " << part;
  }
}

TEST(Json, FilesAreLimited) {
  EXPECT_NE(error_of([] { read_json("/nonexistent/a.json"); }).find("/nonexistent/a.json"), std::string::npos);
  std::string cases = ZT_SOURCE_DIR "/tests/golden/a/cases.json";
  EXPECT_TRUE(read_json(cases).contains("cases"));
  EXPECT_NE(error_of([&] { read_json(cases, 10); }).find("more than the 10 allowed"), std::string::npos);
}

}  // namespace
}  // namespace zt

#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/json.h"

namespace zt {
namespace {

const std::string kGolden = ZT_SOURCE_DIR "/tests/golden/a";
const std::string kFixtures = ZT_SOURCE_DIR "/tests/fixtures/tokenizer";

TokenizerSources golden_sources() { return read_tokenizer_sources(kGolden + "/model/tokenizer"); }

const Tokenizer& golden() {
  static const Tokenizer t = Tokenizer::load(kGolden + "/model/tokenizer");
  return t;
}

// Two base-32 digits an id, as tests/fixtures/tokenizer/make_vectors.py packs them.
std::vector<int32_t> unpack(const std::string& packed) {
  auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  std::vector<int32_t> ids;
  for (size_t i = 0; i + 1 < packed.size(); i += 2) ids.push_back(digit(packed[i]) << 5 | digit(packed[i + 1]));
  return ids;
}

const Json& vectors() {
  static const Json v = read_json(kFixtures + "/vectors.json");
  return v;
}

double seconds_of(const std::string& text, size_t& tokens) {
  auto start = std::chrono::steady_clock::now();
  tokens = golden().encode(text).size();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

TEST(Tokenizer, GoldenVectors) {
  Json cases = read_json(kGolden + "/cases.json")["tokenizer_vectors"];
  ASSERT_GE(cases.size(), 25u);
  for (const Json& c : cases) EXPECT_EQ(golden().encode(c[0].get<std::string>()), c[1].get<std::vector<int32_t>>()) << c[0];
}

TEST(Tokenizer, EqualsTransformersOnRandomText) {
  ASSERT_GE(vectors()["cases"].size(), 2000u);
  for (const Json& c : vectors()["cases"])
    ASSERT_EQ(golden().encode(c[0].get<std::string>()), unpack(c[1].get<std::string>())) << c[0].dump(-1, ' ', true);
}

TEST(Tokenizer, BrokenUtf8ReadsAsReplacementCharacters) {
  ASSERT_GE(vectors()["broken"].size(), 100u);
  for (const Json& c : vectors()["broken"]) {
    std::string hex = c[0].get<std::string>(), raw;
    for (size_t i = 0; i < hex.size(); i += 2) raw += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
    ASSERT_EQ(golden().encode(raw), unpack(c[1].get<std::string>())) << hex;
  }
}

TEST(Tokenizer, AddedTokensOfOtherFoldersGetTheSameIdsAndMatches) {
  for (const Json& folder : vectors()["folders"]) {
    TokenizerSources s = golden_sources();
    s.config = folder["config"].dump();
    // The key order of a config counts, and Json sorts it: take the text as it stands in the fixture.
    if (folder["config"].contains("zzz_token"))
      s.config = R"({"extra_special_tokens": {"image_token": "<img>", "a_token": "<a>"}, "zzz_token": "<z>", "b_token": "<b>",
                     "additional_special_tokens": ["<d>"]})";
    for (auto& [name, value] : folder["files"].items()) (name == "added_tokens" ? s.added_tokens : s.special_tokens_map) = value.dump();
    Tokenizer t(parse_tokenizer_files(s));
    for (auto& [content, id] : folder["added"].items()) EXPECT_EQ(t.id_of(content), id.get<int>()) << content << " of " << *s.config;
    for (const Json& c : folder["cases"]) {
      auto ids = unpack(c[1].get<std::string>());
      EXPECT_EQ(t.encode(c[0].get<std::string>()), ids) << c[0] << " of " << *s.config;
      EXPECT_EQ(t.decode(ids), c[2].get<std::string>()) << c[0] << " of " << *s.config;
    }
  }
}

// The released H3 tokenizer: explicit ids up to 151668, seven more by name only. Its vocabulary isn't here, its numbering is.
TEST(Tokenizer, ReleasedSpecialTokensAreNumberedOn) {
  const std::vector<std::string> known = {
      "<|endoftext|>",  "<|im_start|>",     "<|im_end|>",      "<|object_ref_start|>", "<|object_ref_end|>", "<|box_start|>",   "<|box_end|>",
      "<|quad_start|>", "<|quad_end|>",     "<|vision_start|>", "<|vision_end|>",      "<|vision_pad|>",     "<|image_pad|>",   "<|video_pad|>",
      "<tool_call>",    "</tool_call>",     "<|fim_prefix|>",  "<|fim_middle|>",       "<|fim_suffix|>",     "<|fim_pad|>",     "<|repo_name|>",
      "<|file_sep|>",   "<tool_response>",  "</tool_response>", "<think>",             "</think>"};
  const std::vector<std::string> late = {"<d>", "</d>", "<|cutoff|>", "<|lyrics_start|>", "<|lyrics_end|>", "<|caption_start|>", "<|caption_end|>"};
  Json config = {{"pad_token", known[0]}, {"eos_token", known[2]}, {"unk_token", nullptr}};
  for (size_t i = 0; i < known.size(); ++i)
    config["added_tokens_decoder"][std::to_string(151643 + i)] = {{"content", known[i]}, {"special", i < 14}, {"normalized", false}};
  std::vector<std::string> names(known.begin() + 1, known.begin() + 14);
  names.insert(names.end(), late.begin(), late.end());
  config["additional_special_tokens"] = names;
  TokenizerSources s = golden_sources();
  s.config = config.dump();
  Tokenizer t(parse_tokenizer_files(s));
  for (size_t i = 0; i < late.size(); ++i) EXPECT_EQ(t.id_of(late[i]), 151669 + static_cast<int>(i)) << late[i];
  EXPECT_EQ(t.id_of("<|image_pad|>"), 151655);
  EXPECT_EQ(t.vocab_size(), 151676);
  // Of the released vectors those that are made of added tokens alone need no vocabulary.
  int used = 0;
  for (const Json& c : read_json(kFixtures + "/real_vectors.json")) {
    auto ids = c[1].get<std::vector<int32_t>>();
    if (ids.empty() || std::any_of(ids.begin(), ids.end(), [](int32_t id) { return id < 151643; })) continue;
    EXPECT_EQ(t.encode(c[0].get<std::string>()), ids) << c[0];
    ++used;
  }
  EXPECT_GE(used, 1);
  // Of the others, the added tokens must come in the same places among the rest.
  for (const Json& c : read_json(kFixtures + "/real_vectors.json")) {
    auto added_only = [](std::vector<int32_t> ids) { return std::erase_if(ids, [](int32_t id) { return id < 151643; }), ids; };
    EXPECT_EQ(added_only(t.encode(c[0].get<std::string>())), added_only(c[1].get<std::vector<int32_t>>())) << c[0];
  }
}

TEST(Tokenizer, ReadsTheSameFromTokenizerJson) {
  TokenizerSources s = golden_sources();
  Json merges = Json::array();
  bool as_pairs = false;
  for (size_t at = 0; at < s.merges->size();) {
    size_t end = std::min(s.merges->find('\n', at), s.merges->size()), space = s.merges->find(' ', at);
    if (as_pairs) merges.push_back({s.merges->substr(at, space - at), s.merges->substr(space + 1, end - space - 1)});
    else merges.push_back(s.merges->substr(at, end - at));
    at = end + 1, as_pairs = !as_pairs;
  }
  Json config = parse_json(*s.config, "config"), added = Json::array();
  for (auto& [id, token] : config["added_tokens_decoder"].items()) added.push_back(token), added.back()["id"] = std::stoi(id);
  config.erase("added_tokens_decoder");
  s.config = config.dump();
  s.tokenizer = Json{{"model", {{"type", "BPE"}, {"vocab", parse_json(*s.vocab, "vocab")}, {"merges", merges}}}, {"added_tokens", added}}.dump();
  s.vocab = s.merges = std::nullopt;
  Tokenizer t(parse_tokenizer_files(s));
  for (const Json& c : vectors()["cases"]) ASSERT_EQ(t.encode(c[0].get<std::string>()), unpack(c[1].get<std::string>())) << c[0];
}

TEST(Tokenizer, IgnoreMergesTakesWholePieces) {
  TokenizerFiles f = parse_tokenizer_files(golden_sources());
  f.vocab.emplace("kiteflier", 900);   // no merge leads there
  EXPECT_EQ(Tokenizer(f).encode("kiteflier").front(), golden().encode("kiteflier").front());
  f.ignore_merges = true;
  EXPECT_EQ(Tokenizer(f).encode("kiteflier"), std::vector<int32_t>{900});
}

TEST(Tokenizer, DecodeGivesTheTextBack) {
  for (std::string s : {"", "A red kite\n\nclimbs  ", "<d>[English] Hi</d>", "海边的风很大，🙂", "\xC3\xA9t\xC3\xA9"})
    EXPECT_EQ(golden().decode(golden().encode(s)), s);
  EXPECT_EQ(golden().decode(std::vector<int32_t>{64, 1 << 20, -5, 65}), "ab");
  EXPECT_EQ(golden().encode(std::string("a\0b", 3)).size(), 3u);
}

TEST(Tokenizer, HundredThousandCharactersTakeWellUnderASecond) {
  const size_t n = 100000;
  auto repeat = [&](std::string_view unit) {
    std::string s;
    while (s.size() < n) s += unit;
    return s;
  };
  // One word, one run of each kind of white space, marks in the worst order, added tokens and what almost is one, a word for everything.
  std::string marks;
  for (size_t i = 0; i < n / 2; ++i) marks += "\xCC\x95";   // U+0315, combining class 232
  for (size_t i = 0; i < n / 2; ++i) marks += "\xCC\x96";   // U+0316, combining class 220
  for (const std::string& s : {repeat("e"), repeat("t"), repeat("he"), repeat(" "), repeat("\n"), repeat(" \n"), repeat("\xE3\x80\x80"), repeat("<"),
                               repeat("<|image_pad"), repeat("<|image_pad|>"), repeat("1"), repeat("'"), repeat("\xF0\x9F\x99\x82"), repeat("\xFF"),
                               repeat("e\xCC\x81"), repeat("\xE1\x84\x80\xE1\x85\xA1"), repeat(std::string_view("\0", 1)), repeat("'s"), marks}) {
    size_t tokens = 0;
    double once = seconds_of(s, tokens), twice = 0;
    EXPECT_GT(tokens, 0u);
    twice = seconds_of(s + s, tokens);
    // Loose enough for sanitizers on a busy machine; quadratic time would be tens of seconds.
    EXPECT_LT(once, 5.0) << s.substr(0, 24);
    EXPECT_LT(twice, std::max(5 * once, 1.0)) << s.substr(0, 24);
  }
}

TEST(Tokenizer, SeveralThreadsMayEncode) {
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  const std::string text = "A red kite climbs <d>é</d> 海边的风很大。";
  const auto expected = golden().encode(text);
  for (size_t k = 0; k < wrong.size(); ++k)
    threads.emplace_back([&, k] {
      for (int i = 0; i < 200; ++i) wrong[k] += golden().encode(text) != expected;
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(wrong, std::vector<int>(4, 0));
}

}  // namespace
}  // namespace zt

// Broken tokenizer folders: every one gets a message that names the file and the thing, never a crash.
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "base/error.h"
#include "text/tokenizer.h"

namespace zt {
namespace {

struct Broken {
  const char* name;
  std::function<void(TokenizerSources&)> change;
  std::vector<std::string> message;   // parts that the message must hold
};

std::string with(const std::string& text, const std::string& what, const std::string& by) {
  std::string out = text;
  size_t at = out.find(what);
  if (at == std::string::npos) ADD_FAILURE() << "the golden file has no " << what;
  else out.replace(at, what.size(), by);
  return out;
}

TokenizerSources golden_sources() { return read_tokenizer_sources(ZT_SOURCE_DIR "/tests/golden/a/model/tokenizer"); }

TEST(TokenizerFiles, EveryFaultIsNamed) {
  auto config = [](const char* text) { return [text](TokenizerSources& s) { s.config = text; }; };
  const std::vector<Broken> cases = {
      {"no vocab", [](auto& s) { s.vocab.reset(); }, {"vocab.json", "not there"}},
      {"no merges", [](auto& s) { s.merges.reset(); }, {"merges.txt", "not there"}},
      {"no config", [](auto& s) { s.config.reset(); }, {"tokenizer_config.json", "not there"}},
      {"vocab is no JSON", [](auto& s) { s.vocab = "{\"a\": "; }, {"vocab.json", "JSON"}},
      {"vocab is a list", [](auto& s) { s.vocab = "[1]"; }, {"vocab.json", "[1]", "object"}},
      {"vocab is empty", [](auto& s) { s.vocab = "{}"; }, {"byte 0x00"}},
      {"vocab is truncated", [](auto& s) { s.vocab = with(*s.vocab, "\"!\": 0,", ""); }, {"byte 0x21", "256"}},
      {"negative id", [](auto& s) { s.vocab = with(*s.vocab, "\"!\": 0", "\"!\": -1"); }, {"vocab.json", "\"!\"", "-1"}},
      {"huge id", [](auto& s) { s.vocab = with(*s.vocab, "\"!\": 0", "\"!\": 18446744073709551615"); }, {"vocab.json", "18446744073709551615"}},
      {"id is a float", [](auto& s) { s.vocab = with(*s.vocab, "\"!\": 0", "\"!\": 0.5"); }, {"vocab.json", "0.5"}},
      {"id is a string", [](auto& s) { s.vocab = with(*s.vocab, "\"!\": 0", "\"!\": \"0\""); }, {"vocab.json", "\"0\""}},
      {"id twice", [](auto& s) { s.vocab = with(*s.vocab, "\"!\": 0", "\"!\": 1"); }, {"vocab.json", "id 1", "own"}},
      {"merge of unknown token", [](auto& s) { s.merges = "Ġ xyzzy\n" + *s.merges; }, {"merges.txt", "merge 1", "xyzzy"}},
      {"merge to unknown token", [](auto& s) { s.merges = "! !\n" + *s.merges; }, {"merges.txt", "\"!!\""}},
      {"merge of three", [](auto& s) { s.merges = "Ġ s x\n"; }, {"merges.txt", "line 1", "Ġ s x"}},
      {"merge of one", [](auto& s) { s.merges = "#version: 0.2\nĠ\n"; }, {"merges.txt", "line 2"}},
      {"merges are binary", [](auto& s) { s.merges = std::string("\xFF\x00 \xFE", 4); }, {"merges.txt"}},
      {"config is a number", config("7"), {"tokenizer_config.json", "7"}},
      {"config is deep", [](auto& s) { s.config = std::string(100000, '['); }, {"tokenizer_config.json", "nested"}},
      {"decoder is a list", config(R"({"added_tokens_decoder": []})"), {"added_tokens_decoder", "object"}},
      {"decoder key is a word", config(R"({"added_tokens_decoder": {"x1": {"content": "<a>"}}})"), {"added_tokens_decoder", "x1"}},
      {"decoder key is negative", config(R"({"added_tokens_decoder": {"-1": {"content": "<a>"}}})"), {"-1"}},
      {"decoder key is huge", config(R"({"added_tokens_decoder": {"999999999999999999999": {"content": "<a>"}}})"), {"9999999"}},
      {"decoder ids twice", config(R"({"added_tokens_decoder": {"500": {"content": "<a>"}, "0500": {"content": "<b>"}}})"), {"500", "twice"}},
      {"decoder entry is text", config(R"({"added_tokens_decoder": {"500": "<a>"}})"), {"500", "object"}},
      {"decoder entry is empty", config(R"({"added_tokens_decoder": {"500": {}}})"), {"500", "content"}},
      {"content is a number", config(R"({"added_tokens_decoder": {"500": {"content": 5}}})"), {"content", "5"}},
      {"content is empty", config(R"({"added_tokens_decoder": {"500": {"content": ""}}})"), {"0 bytes"}},
      {"flag is a number", config(R"({"added_tokens_decoder": {"500": {"content": "<a>", "lstrip": 1}}})"), {"lstrip", "1"}},
      {"id of the vocabulary", config(R"({"added_tokens_decoder": {"0": {"content": "<a>"}}})"), {"id 0", "<a>", "!"}},
      {"token of the vocabulary", config(R"({"added_tokens_decoder": {"500": {"content": "!"}}})"), {"\"!\"", "500", "0"}},
      {"one token, two ids", [](auto& s) { s.added_tokens = R"({"<|im_end|>": 600})"; }, {"<|im_end|>", "600", "502"}},
      {"two tokens, one id", [](auto& s) { s.added_tokens = R"({"<new>": 502})"; }, {"<new>", "502", "<|im_end|>"}},
      {"added_tokens id is text", [](auto& s) { s.added_tokens = R"({"<new>": "502"})"; }, {"added_tokens.json", "<new>"}},
      {"extra is text", config(R"({"additional_special_tokens": "<d>"})"), {"additional_special_tokens", "list"}},
      {"extra holds a number", config(R"({"additional_special_tokens": ["<d>", 7]})"), {"additional_special_tokens", "7"}},
      {"extra holds null", config(R"({"additional_special_tokens": [null]})"), {"additional_special_tokens", "null"}},
      {"eos is a number", config(R"({"eos_token": 3})"), {"eos_token", "3"}},
      {"too long a token", [](auto& s) { s.config = R"({"additional_special_tokens": [")" + std::string(1025, 'x') + "\"]}"; }, {"1025 bytes"}},
      {"extra map holds a list", config(R"({"extra_special_tokens": {"a": []}, "extra_special_tokens/x": "<y>"})"), {"extra_special_tokens: a", "[]"}},
      {"map is a list", [](auto& s) { s.special_tokens_map = "[]"; }, {"special_tokens_map.json"}},
      {"tokenizer.json without model", [](auto& s) { s.tokenizer = "{}"; }, {"tokenizer.json", "model"}},
      {"tokenizer.json of another kind", [](auto& s) { s.tokenizer = R"({"model": {"type": "Unigram", "vocab": []}})"; }, {"Unigram", "BPE"}},
      {"tokenizer.json merges", [](auto& s) { s.tokenizer = R"({"model": {"vocab": {}, "merges": [["a"]]}})"; }, {"merge 1"}},
      {"tokenizer.json added", [](auto& s) { s.tokenizer = R"({"model": {"vocab": {}, "merges": []}, "added_tokens": [{"content": "x"}]})"; }, {"id"}},
  };
  for (const Broken& b : cases) {
    TokenizerSources s = golden_sources();
    b.change(s);
    try {
      Tokenizer t(parse_tokenizer_files(s));
      ADD_FAILURE() << b.name << ": accepted";
    } catch (const Error& e) {
      EXPECT_EQ(e.kind, ErrorKind::model) << b.name;
      for (const std::string& part : b.message) EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << b.name << ": " << e.what();
      EXPECT_LT(std::string(e.what()).size(), 600u) << b.name;
    }
  }
}

TEST(TokenizerFiles, MissingFolderAndMissingTokenAreNamed) {
  try {
    Tokenizer::load("/nonexistent/tokenizer");
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("/nonexistent/tokenizer"), std::string::npos);
  }
  Tokenizer t(parse_tokenizer_files(golden_sources()));
  EXPECT_FALSE(t.has("<|audio_pad|>"));
  try {
    t.id_of("<|audio_pad|>");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, ErrorKind::model);
    EXPECT_NE(std::string(e.what()).find("<|audio_pad|>"), std::string::npos);
  }
}

}  // namespace
}  // namespace zt

#pragma once
// Tokens that are matched literally in the text before anything else is done to it (<|vision_start|>, <d> ...).
// Source: tokenizers tokenizer/added_vocabulary.rs (leftmost match, of those the longest; the flags).
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace zt {

struct AddedToken {
  std::string content;        // UTF-8, not spelled through the byte alphabet
  int32_t id = -1;
  bool lstrip = false;        // swallows white space before it
  bool rstrip = false;        // swallows white space behind it
  bool single_word = false;   // counts only where no letter or digit touches it
  bool normalized = false;    // looked for in the normalized text instead of the raw one
  bool special = false;
};

class AddedTokenMatcher {
 public:
  struct Span {
    std::string_view text;
    int32_t id;   // -1: ordinary text
  };
  // `split_special`: a match of a special token counts as text.
  explicit AddedTokenMatcher(bool split_special = false) : split_special_(split_special) {}
  // `content` is what is looked for (the normalized form for tokens that are normalized). Contents must not be empty; a token added twice counts once, with its first id.
  void add(const AddedToken& token, std::string_view content);
  // Cuts `valid` (UTF-8) into ordinary text (never empty) and tokens, in order. O(length * longest token).
  std::vector<Span> split(std::string_view valid) const;
  bool empty() const { return tokens_.empty(); }

 private:
  int match(std::string_view valid, size_t at, size_t& length) const;   // index of the longest token at `at`, or -1

  std::vector<AddedToken> tokens_;
  std::unordered_map<uint64_t, int32_t> edges_;   // trie: node << 8 | byte -> node; the root is 0
  std::vector<int32_t> ends_{-1};                 // token that ends in a node, or -1
  bool first_[256] = {};
  bool split_special_;
};

}  // namespace zt

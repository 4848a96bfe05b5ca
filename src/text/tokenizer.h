#pragma once
// The byte-level BPE tokenizer of the Qwen2 kind: text -> ids, as transformers' Qwen2TokenizerFast gives them without special tokens
// around. Steps: added tokens are cut out of the raw text (leftmost, then longest); the rest is normalized to NFC, split into pieces,
// spelled as bytes and merged. Which added tokens there are and how they get their ids: text/tokenizer_files.h.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/pre_tokenizer.h"
#include "text/tokenizer_files.h"

namespace zt {

class Tokenizer {
 public:
  // Errors (kind model): see text/tokenizer_files.h and text/bpe.h.
  static Tokenizer load(const std::string& folder) { return Tokenizer(parse_tokenizer_files(read_tokenizer_sources(folder))); }
  explicit Tokenizer(const TokenizerFiles& files);

  // Any bytes: ill-formed UTF-8 is read as U+FFFD, one for each maximal subpart; NUL is an ordinary character; the empty text gives no
  // ids; nothing is stripped or added. Time n log n. Safe from several threads.
  std::vector<int32_t> encode(std::string_view text) const;

  // The id of a token in its spelled form ("Ġa") or of an added token ("<d>"). Error (kind model) if there is none.
  int32_t id_of(std::string_view token) const;
  bool has(std::string_view token) const { return ids_.find(token) != ids_.end(); }

  // The text of ids; parts that are no UTF-8 come as U+FFFD. Ids without a token are skipped, as in the reference.
  std::string decode(std::span<const int32_t> ids) const;

  // Largest id plus one: the rows that an embedding needs at least.
  int vocab_size() const { return vocab_size_; }

 private:
  void encode_plain(std::string_view text, std::vector<int32_t>& ids) const;

  std::string origin_;
  TokenMap ids_;                                        // spelled and added tokens
  std::unordered_map<int32_t, std::string> tokens_;     // the reverse
  AddedTokenMatcher raw_, normalized_;
  PreTokenizer pre_tokenizer_;
  Bpe bpe_;
  bool add_prefix_space_;
  int vocab_size_ = 0;
};

}  // namespace zt

#pragma once
// Byte-level byte-pair encoding: bytes are spelled as 256 printable characters (GPT-2's table), words are joined pair by pair in the
// order of the merge list. Source: GPT-2 encoder.py (the alphabet), tokenizers models/bpe (the order: lowest rank, then leftmost).
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace zt {

struct StringHash {   // lets string_view look up std::string keys
  using is_transparent = void;
  size_t operator()(std::string_view s) const { return std::hash<std::string_view>{}(s); }
};
using TokenMap = std::unordered_map<std::string, int32_t, StringHash, std::equal_to<>>;

// The printable spelling of a byte, as UTF-8 (0x20 -> "Ġ").
std::string byte_spelling(uint8_t byte);
// A token's bytes: its characters read through that alphabet; a token with any other character stands for its own UTF-8.
std::string unspell(std::string_view token);

class Bpe {
 public:
  // `vocab`: spelled token -> id. `merges`: pairs of spelled tokens, first is best; of equal pairs the last counts, as in the reference.
  // `origin` is the file that errors (kind model) name: a merge whose halves or whole are unknown, a byte without a token.
  Bpe(const TokenMap& vocab, const std::vector<std::pair<std::string, std::string>>& merges, bool ignore_merges, const std::string& origin);

  // Appends the ids of one piece of text (any bytes). n log n in its length. `ignore_merges`: a piece that is a token is that token.
  void encode(std::string_view piece, std::vector<int32_t>& ids) const;

 private:
  struct Merge { int32_t rank, id; };
  static uint64_t key(int32_t left, int32_t right) { return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right); }

  std::array<int32_t, 256> byte_ids_{};
  std::unordered_map<uint64_t, Merge> merges_;
  TokenMap whole_;   // tokens by their bytes; filled only for ignore_merges
};

}  // namespace zt

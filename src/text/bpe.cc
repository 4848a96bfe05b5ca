#include "text/bpe.h"

#include <algorithm>
#include <queue>

#include "base/error.h"
#include "text/unicode.h"

namespace zt {

namespace {

// Printable bytes stand for themselves; the 68 others take U+0100 ... U+0143 in order.
std::array<char32_t, 256> make_alphabet() {
  std::array<char32_t, 256> out{};
  char32_t next = 0x100;
  for (unsigned b = 0; b < 256; ++b) {
    bool printable = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
    out[b] = printable ? b : next++;
  }
  return out;
}

const std::array<char32_t, 256> kAlphabet = make_alphabet();

}  // namespace

std::string byte_spelling(uint8_t byte) {
  std::string out;
  append_utf8(out, kAlphabet[byte]);
  return out;
}

std::string unspell(std::string_view token) {
  static const auto inverse = [] {
    std::array<int, 0x144> out;
    out.fill(-1);
    for (int b = 0; b < 256; ++b) out[kAlphabet[static_cast<size_t>(b)]] = b;
    return out;
  }();
  std::string out;
  for (size_t i = 0; i < token.size();) {
    char32_t c = next_code_point(token, i);
    if (c >= inverse.size() || inverse[c] < 0) return std::string(token);
    out += static_cast<char>(inverse[c]);
  }
  return out;
}

Bpe::Bpe(const TokenMap& vocab, const std::vector<std::pair<std::string, std::string>>& merges, bool ignore_merges, const std::string& origin) {
  for (int b = 0; b < 256; ++b) {
    auto it = vocab.find(byte_spelling(static_cast<uint8_t>(b)));
    if (it == vocab.end())
      fail(ErrorKind::model, "{}: no token for byte 0x{:02X} (\"{}\"); a byte-level vocabulary holds all 256, so this file is incomplete", origin,
           b, byte_spelling(static_cast<uint8_t>(b)));
    byte_ids_[static_cast<size_t>(b)] = it->second;
  }
  merges_.reserve(merges.size());
  for (size_t i = 0; i < merges.size(); ++i) {
    auto find = [&](const std::string& token) {
      auto it = vocab.find(token);
      if (it == vocab.end())
        fail(ErrorKind::model, "{}: merge {} (\"{} {}\") needs the token \"{}\", which the vocabulary lacks; vocabulary and merges must come from the same model",
             origin, i + 1, merges[i].first, merges[i].second, token);
      return it->second;
    };
    int32_t left = find(merges[i].first), right = find(merges[i].second), joined = find(merges[i].first + merges[i].second);
    merges_[key(left, right)] = {static_cast<int32_t>(i), joined};
  }
  if (ignore_merges)
    for (auto& [token, id] : vocab) whole_.emplace(unspell(token), id);
}

void Bpe::encode(std::string_view piece, std::vector<int32_t>& ids) const {
  if (!whole_.empty())
    if (auto it = whole_.find(piece); it != whole_.end()) return ids.push_back(it->second);
  // A doubly linked list of symbols, and a heap of the joins that were possible when they were seen.
  struct Symbol { int32_t id, previous, next; };
  struct Join {
    int32_t rank, at, id, left, right;
    bool operator>(const Join& o) const { return rank != o.rank ? rank > o.rank : at > o.at; }
  };
  const auto n = static_cast<int32_t>(piece.size());
  std::vector<Symbol> symbols(piece.size());
  for (int32_t i = 0; i < n; ++i)
    symbols[static_cast<size_t>(i)] = {byte_ids_[static_cast<uint8_t>(piece[static_cast<size_t>(i)])], i - 1, i + 1 < n ? i + 1 : -1};
  auto at = [&](int32_t i) -> Symbol& { return symbols[static_cast<size_t>(i)]; };
  std::priority_queue<Join, std::vector<Join>, std::greater<>> queue;
  auto offer = [&](int32_t i) {
    if (i < 0 || at(i).next < 0) return;
    int32_t left = at(i).id, right = at(at(i).next).id;
    if (auto it = merges_.find(key(left, right)); it != merges_.end()) queue.push({it->second.rank, i, it->second.id, left, right});
  };
  for (int32_t i = 0; i + 1 < n; ++i) offer(i);
  while (!queue.empty()) {
    Join j = queue.top();
    queue.pop();
    Symbol& s = at(j.at);
    if (s.id != j.left || s.next < 0 || at(s.next).id != j.right) continue;   // overtaken by another join
    Symbol& gone = at(s.next);
    s.id = j.id;
    s.next = gone.next;
    if (gone.next >= 0) at(gone.next).previous = j.at;
    gone.id = -1;
    offer(s.previous);
    offer(j.at);
  }
  for (int32_t i = n > 0 ? 0 : -1; i >= 0; i = at(i).next) ids.push_back(at(i).id);
}

}  // namespace zt

#include "text/added_tokens.h"

#include <algorithm>

#include "text/unicode.h"

namespace zt {

void AddedTokenMatcher::add(const AddedToken& token, std::string_view content) {
  uint64_t node = 0;
  for (char c : content) {
    auto [it, fresh] = edges_.try_emplace(node << 8 | static_cast<uint8_t>(c), static_cast<int32_t>(ends_.size()));
    if (fresh) ends_.push_back(-1);
    node = static_cast<uint64_t>(it->second);
  }
  if (ends_[node] >= 0) return;
  ends_[node] = static_cast<int32_t>(tokens_.size());
  first_[static_cast<uint8_t>(content[0])] = true;
  tokens_.push_back(token);
}

int AddedTokenMatcher::match(std::string_view valid, size_t at, size_t& length) const {
  int found = -1;
  uint64_t node = 0;
  for (size_t i = at; i < valid.size(); ++i) {
    auto it = edges_.find(node << 8 | static_cast<uint8_t>(valid[i]));
    if (it == edges_.end()) break;
    node = static_cast<uint64_t>(it->second);
    if (ends_[node] >= 0) found = ends_[node], length = i + 1 - at;
  }
  return found;
}

std::vector<AddedTokenMatcher::Span> AddedTokenMatcher::split(std::string_view valid) const {
  std::vector<Span> out;
  size_t done = 0;   // everything before is in `out`
  for (size_t at = 0; at < valid.size();) {
    size_t length = 0;
    int k = first_[static_cast<uint8_t>(valid[at])] ? match(valid, at, length) : -1;
    if (k < 0) {
      ++at;
      continue;
    }
    const AddedToken& t = tokens_[static_cast<size_t>(k)];
    size_t begin = at, end = at + length;
    at = end;   // a match that the flags refuse is used up all the same
    if (t.special && split_special_) continue;
    if (t.single_word) {
      size_t i = begin, j = end;
      if ((i > 0 && is_word(previous_code_point(valid, i))) || (j < valid.size() && is_word(next_code_point(valid, j)))) continue;
    }
    if (t.lstrip)
      for (size_t i = begin; i > done && is_space(previous_code_point(valid, i));) begin = std::max(i, done);
    if (t.rstrip)
      for (size_t j = end; j < valid.size() && is_space(next_code_point(valid, j));) end = j;
    if (begin > done) out.push_back({valid.substr(done, begin - done), -1});
    out.push_back({valid.substr(begin, end - begin), t.id});
    done = std::max(done, end);
  }
  if (done < valid.size()) out.push_back({valid.substr(done), -1});
  return out;
}

}  // namespace zt

#include "text/tokenizer.h"

#include <algorithm>

#include "base/error.h"
#include "text/unicode.h"

namespace zt {

Tokenizer::Tokenizer(const TokenizerFiles& files)
    : origin_(files.model_file),
      ids_(files.vocab),
      raw_(files.split_special_tokens),
      normalized_(files.split_special_tokens),
      bpe_(files.vocab, files.merges, files.ignore_merges, files.merges_file),
      add_prefix_space_(files.add_prefix_space) {
  for (const AddedToken& t : files.added) {
    ids_.insert_or_assign(t.content, t.id);
    if (t.normalized) normalized_.add(t, nfc(t.content));
    else raw_.add(t, t.content);
  }
  tokens_.reserve(ids_.size());
  for (auto& [token, id] : ids_) {
    tokens_.emplace(id, token);
    vocab_size_ = std::max(vocab_size_, id + 1);
  }
}

std::vector<int32_t> Tokenizer::encode(std::string_view text) const {
  std::vector<int32_t> ids;
  const std::string valid = repair_utf8(text);
  for (const auto& span : raw_.split(valid)) {
    if (span.id >= 0) {
      ids.push_back(span.id);
      continue;
    }
    const std::string composed = nfc(span.text);
    for (const auto& inner : normalized_.split(composed)) {
      if (inner.id >= 0) ids.push_back(inner.id);
      else encode_plain(inner.text, ids);
    }
  }
  return ids;
}

void Tokenizer::encode_plain(std::string_view text, std::vector<int32_t>& ids) const {
  for (std::string_view piece : pre_tokenizer_.split(text)) {
    if (add_prefix_space_ && piece[0] != ' ') bpe_.encode(" " + std::string(piece), ids);
    else bpe_.encode(piece, ids);
  }
}

int32_t Tokenizer::id_of(std::string_view token) const {
  auto it = ids_.find(token);
  if (it == ids_.end())
    fail(ErrorKind::model, "{}: no token \"{}\" in it or among the added tokens; this tokenizer is not the one of the model", origin_, token);
  return it->second;
}

std::string Tokenizer::decode(std::span<const int32_t> ids) const {
  std::string bytes;
  for (int32_t id : ids)
    if (auto it = tokens_.find(id); it != tokens_.end()) bytes += unspell(it->second);
  return repair_utf8(bytes);
}

}  // namespace zt

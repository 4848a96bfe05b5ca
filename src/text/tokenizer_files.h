#pragma once
// What a tokenizer folder says: vocabulary, merges and the added tokens from every place that they stand in.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "text/added_tokens.h"
#include "text/bpe.h"

namespace zt {

// The files' contents; absent ones are empty. `folder` is what messages name.
struct TokenizerSources {
  std::string folder;
  std::optional<std::string> vocab, merges, config, tokenizer, added_tokens, special_tokens_map;
};

struct TokenizerFiles {
  std::string model_file, merges_file;   // for messages
  TokenMap vocab;                        // spelled token -> id
  std::vector<std::pair<std::string, std::string>> merges;
  bool ignore_merges = false;
  bool add_prefix_space = false;         // every piece that starts without a space gets one
  bool split_special_tokens = false;     // special tokens in the text are ordinary text
  std::vector<AddedToken> added;         // ascending ids, each content and id once
};

// Reads vocab.json, merges.txt, tokenizer_config.json, tokenizer.json, added_tokens.json, special_tokens_map.json of a folder.
// Errors (kind model): the folder or what it must hold is missing or unreadable.
TokenizerSources read_tokenizer_sources(const std::string& folder);

// Vocabulary and merges come from tokenizer.json where there is one, else from vocab.json and merges.txt (transformers' order).
// Added tokens:
//  1. explicit ids: tokenizer_config.json added_tokens_decoder, tokenizer.json added_tokens, added_tokens.json. The first of them that
//     has a token says its flags.
//  2. without an id, and numbered on after the last one known, in this order: the named ones of tokenizer_config.json and
//     special_tokens_map.json (bos, eos, unk, sep, pad, cls, mask; eos, unk and pad are <|endoftext|> where not mentioned, null is none),
//     other keys *_token and maps of extra_special_tokens, in the file's order, then the list extra_special_tokens (if it's missing or empty:
//     additional_special_tokens). H3's <d> and its six fellows stand only there. All of these lose their flags, as in the reference.
// Source: transformers 5.23 tokenization_utils_base.py _from_pretrained, tokenization_utils_tokenizers.py, tokenization_qwen2.py.
// One difference on purpose: ids written in the files are kept, where transformers renumbers them if they have gaps.
// Errors (kind model), with file, finding and remedy: broken JSON, wrong types, ids out of [0, 2^24), one id for two tokens or the
// reverse, an empty or over 1024 bytes long added token, a merge line that isn't two tokens, a model that is not BPE.
TokenizerFiles parse_tokenizer_files(const TokenizerSources& sources);

}  // namespace zt

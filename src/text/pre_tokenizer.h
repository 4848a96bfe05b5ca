#pragma once
// The split of Qwen2 (and GPT-4): words with the character before them, single digits, punctuation with its newlines, white space.
// Source: transformers models/qwen2/tokenization_qwen2.py, PRETOKENIZE_REGEX. PCRE2 runs it, compiled to machine code where allowed.
#include <memory>
#include <string_view>
#include <vector>

namespace zt {

class PreTokenizer {
 public:
  PreTokenizer();   // error (internal) if PCRE2 lacks Unicode
  // Consecutive pieces that cover `valid` (UTF-8, in any normalization form). Linear time. Safe from several threads.
  // Error (request): PCRE2 gave up on the text.
  std::vector<std::string_view> split(std::string_view valid) const;

 private:
  struct Free { void operator()(void* code) const; };
  std::unique_ptr<void, Free> code_;   // pcre2_code
};

}  // namespace zt

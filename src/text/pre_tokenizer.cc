#include "text/pre_tokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <string>

#include "base/error.h"

namespace zt {

namespace {

// The reference classifies by Unicode 16 (Oniguruma 6.9.10), PCRE2 10.42 by Unicode 14: these are the letters and numbers that came
// between. Found by trying every code point on both. A newer PCRE2 knows them already, which does no harm.
constexpr const char* kNewLetters =
    R"(\x{1C89}-\x{1C8A}\x{A7CB}-\x{A7CD}\x{A7DA}-\x{A7DC}\x{105C0}-\x{105F3}\x{10D4A}-\x{10D65}\x{10D6F}-\x{10D85})"
    R"(\x{10EC2}-\x{10EC4}\x{1123F}-\x{11240}\x{11380}-\x{11389}\x{1138B}\x{1138E}\x{11390}-\x{113B5}\x{113B7}\x{113D1}\x{113D3})"
    R"(\x{11BC0}-\x{11BE0}\x{11F02}\x{11F04}-\x{11F10}\x{11F12}-\x{11F33}\x{1342F}\x{13441}-\x{13446}\x{13460}-\x{143FA})"
    R"(\x{16100}-\x{1611D}\x{16D40}-\x{16D6C}\x{18CFF}\x{1B132}\x{1B155}\x{1DF25}-\x{1DF2A}\x{1E030}-\x{1E06D}\x{1E4D0}-\x{1E4EB})"
    R"(\x{1E5D0}-\x{1E5ED}\x{1E5F0}\x{2B739}\x{2EBF0}-\x{2EE5D}\x{31350}-\x{323AF})";
constexpr const char* kNewNumbers =
    R"(\x{10D40}-\x{10D49}\x{116D0}-\x{116E3}\x{11BF0}-\x{11BF9}\x{11F50}-\x{11F59}\x{16130}-\x{16139}\x{16D70}-\x{16D79})"
    R"(\x{1CCF0}-\x{1CCF9}\x{1D2C0}-\x{1D2D3}\x{1E4F0}-\x{1E4F9}\x{1E5F1}-\x{1E5FA})";
// White_Space; PCRE2's own \s also takes U+180E, which lost that property in Unicode 6.3.
constexpr const char* kSpace = R"(\x{9}-\x{D}\x{20}\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";

// (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
std::string pattern() {
  std::string letter = std::string(R"(\p{L})") + kNewLetters, number = std::string(R"(\p{N})") + kNewNumbers, space = kSpace;
  return "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n" + letter + number + "]?[" + letter + "]+|[" + number + "]| ?[^" + space + letter + number +
         "]+[\\r\\n]*|[" + space + "]*[\\r\\n]+|[" + space + "]+(?![^" + space + "])|[" + space + "]+";
}

}  // namespace

void PreTokenizer::Free::operator()(void* code) const { pcre2_code_free(static_cast<pcre2_code*>(code)); }

PreTokenizer::PreTokenizer() {
  int error = 0;
  PCRE2_SIZE offset = 0;
  std::string p = pattern();
  code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(p.data()), p.size(), PCRE2_UTF | PCRE2_UCP, &error, &offset, nullptr));
  if (!code_) fail(ErrorKind::internal, "PCRE2 refuses the split pattern (error {} at {}); it needs Unicode support", error, offset);
  pcre2_jit_compile(static_cast<pcre2_code*>(code_.get()), PCRE2_JIT_COMPLETE);   // where it may not, the interpreter does the same
}

std::vector<std::string_view> PreTokenizer::split(std::string_view valid) const {
  auto* code = static_cast<pcre2_code*>(code_.get());
  auto free_match = [](pcre2_match_data* m) { pcre2_match_data_free(m); };
  std::unique_ptr<pcre2_match_data, decltype(free_match)> match(pcre2_match_data_create_from_pattern(code, nullptr), free_match);
  if (!match) fail(ErrorKind::resource, "out of memory for the tokenizer's match data");
  std::vector<std::string_view> out;
  for (size_t at = 0; at < valid.size();) {
    int rc = pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(valid.data()), valid.size(), at, PCRE2_NO_UTF_CHECK, match.get(), nullptr);
    if (rc < 0 && rc != PCRE2_ERROR_NOMATCH)
      fail(ErrorKind::request, "the prompt could not be split at byte {} (PCRE2 error {}); shorten the runs of white space in it", at, rc);
    const PCRE2_SIZE* range = pcre2_get_ovector_pointer(match.get());
    size_t begin = rc < 0 ? valid.size() : range[0], end = rc < 0 ? valid.size() : range[1];
    if (begin > at) out.push_back(valid.substr(at, begin - at));   // what no branch takes stays a piece of its own
    if (end > begin) out.push_back(valid.substr(begin, end - begin));
    at = std::max(end, at + 1);
  }
  return out;
}

}  // namespace zt

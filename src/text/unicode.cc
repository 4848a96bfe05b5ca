#include "text/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <vector>

#include "base/error.h"

namespace zt {

namespace {

// Length of the well-formed sequence at s[i], or minus the length of the maximal ill-formed subpart there (at least 1).
int sequence_length(std::string_view s, size_t i) {
  auto at = [&](size_t k) { return i + k < s.size() ? static_cast<unsigned char>(s[i + k]) : 0u; };
  unsigned a = at(0);
  if (a < 0x80) return 1;
  if (a < 0xC2 || a > 0xF4) return -1;
  int n = a < 0xE0 ? 2 : a < 0xF0 ? 3 : 4;
  unsigned low = a == 0xE0 ? 0xA0 : a == 0xF0 ? 0x90 : 0x80;    // no overlong forms
  unsigned high = a == 0xED ? 0x9F : a == 0xF4 ? 0x8F : 0xBF;   // no surrogates, nothing above U+10FFFF
  for (int k = 1; k < n; ++k, low = 0x80, high = 0xBF)
    if (at(static_cast<size_t>(k)) < low || at(static_cast<size_t>(k)) > high) return -k;
  return n;
}

// Marks (and one composing vowel sign) that Unicode 11 to 15 brought. The reference normalizes by Unicode 10
// (tokenizers' unicode-normalization-alignments), where they were unassigned: no reordering and no composition across them.
// Found by normalizing every code point between marks on both sides.
constexpr char32_t kLateMarks[][2] = {
    {0x7FD, 0x7FD},     {0x898, 0x89F},     {0x8CA, 0x8D3},     {0x9FE, 0x9FE},     {0xC3C, 0xC3C},     {0xD3B, 0xD3C},
    {0xEBA, 0xEBA},     {0x1715, 0x1715},   {0x1ABF, 0x1ACE},   {0x1DF6, 0x1DFA},   {0xA82C, 0xA82C},   {0x10D24, 0x10D27},
    {0x10EAB, 0x10EAC}, {0x10EFD, 0x10EFF}, {0x10F46, 0x10F50}, {0x10F82, 0x10F85}, {0x11070, 0x11070}, {0x1133B, 0x1133B},
    {0x1145E, 0x1145E}, {0x11839, 0x1183A}, {0x11930, 0x11930}, {0x1193D, 0x1193E}, {0x11943, 0x11943}, {0x119E0, 0x119E0},
    {0x11A34, 0x11A34}, {0x11A47, 0x11A47}, {0x11A99, 0x11A99}, {0x11D42, 0x11D42}, {0x11D44, 0x11D45}, {0x11D97, 0x11D97},
    {0x11F41, 0x11F42}, {0x16FF0, 0x16FF1}, {0x1E08F, 0x1E08F}, {0x1E130, 0x1E136}, {0x1E2AE, 0x1E2AE}, {0x1E2EC, 0x1E2EF},
    {0x1E4EC, 0x1E4EF}};

bool is_late_mark(char32_t c) {
  auto it = std::partition_point(std::begin(kLateMarks), std::end(kLateMarks), [&](auto& range) { return range[1] < c; });
  return it != std::end(kLateMarks) && c >= (*it)[0];
}

// Puts decomposed points into canonical order, composes them, appends them to `out` and empties them.
void flush(std::vector<utf8proc_int32_t>& points, std::string& out) {
  auto rank = [](utf8proc_int32_t c) { return utf8proc_get_property(c)->combining_class; };
  for (size_t i = 0; i < points.size();) {   // every run of marks by combining class
    size_t j = i;
    while (j < points.size() && rank(points[j]) != 0) ++j;
    std::stable_sort(points.begin() + static_cast<ptrdiff_t>(i), points.begin() + static_cast<ptrdiff_t>(j),
                     [&](auto a, auto b) { return rank(a) < rank(b); });
    i = j + 1;
  }
  constexpr auto kCompose = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
  auto n = utf8proc_normalize_utf32(points.data(), static_cast<utf8proc_ssize_t>(points.size()), kCompose);
  if (n < 0) fail(ErrorKind::internal, "normalization failed: {}", utf8proc_errmsg(n));
  for (size_t i = 0; i < static_cast<size_t>(n); ++i) append_utf8(out, static_cast<char32_t>(points[i]));
  points.clear();
}

}  // namespace

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

std::string repair_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    int n = sequence_length(text, i);
    if (n > 0) out.append(text.substr(i, static_cast<size_t>(n)));
    else out.append("\xEF\xBF\xBD");
    i += static_cast<size_t>(std::abs(n));
  }
  return out;
}

char32_t next_code_point(std::string_view valid, size_t& i) {
  auto byte = [&] { return static_cast<unsigned char>(valid[i++]); };
  char32_t c = byte();
  if (c < 0x80) return c;
  int more = c < 0xE0 ? 1 : c < 0xF0 ? 2 : 3;
  c &= 0x3Fu >> more;
  while (more-- > 0 && i < valid.size()) c = c << 6 | (byte() & 0x3Fu);
  return c;
}

char32_t previous_code_point(std::string_view valid, size_t& i) {
  do --i;
  while (i > 0 && (static_cast<unsigned char>(valid[i]) & 0xC0) == 0x80);
  size_t j = i;
  return next_code_point(valid, j);
}

void append_utf8(std::string& out, char32_t c) {
  utf8proc_uint8_t buffer[4];
  auto n = utf8proc_encode_char(static_cast<utf8proc_int32_t>(c), buffer);
  out.append(reinterpret_cast<const char*>(buffer), static_cast<size_t>(n));
}

std::string nfc(std::string_view valid) {
  if (is_ascii(valid)) return std::string(valid);
  std::string out;
  out.reserve(valid.size());
  std::vector<utf8proc_int32_t> points;
  points.reserve(valid.size());
  for (size_t i = 0; i < valid.size();) {
    char32_t c = next_code_point(valid, i);
    if (is_late_mark(c)) {
      flush(points, out);
      append_utf8(out, c);
      continue;
    }
    constexpr auto kDecompose = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE);
    utf8proc_int32_t part[32];   // a canonical decomposition has at most 4 code points
    int boundary = 0;
    auto n = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), part, std::size(part), kDecompose, &boundary);
    if (n < 0 || n > static_cast<utf8proc_ssize_t>(std::size(part)))
      fail(ErrorKind::internal, "U+{:04X}: no canonical decomposition", static_cast<uint32_t>(c));
    points.insert(points.end(), part, part + n);
  }
  flush(points, out);
  return out;
}

bool is_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) ||
         c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_word(char32_t c) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_LU: case UTF8PROC_CATEGORY_LL: case UTF8PROC_CATEGORY_LT: case UTF8PROC_CATEGORY_LM: case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN: case UTF8PROC_CATEGORY_MC: case UTF8PROC_CATEGORY_ME: case UTF8PROC_CATEGORY_ND: case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:   // circled and squared letters (Other_Alphabetic), zero-width joiners
      return (c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) || (c >= 0x1F150 && c <= 0x1F169) ||
             (c >= 0x1F170 && c <= 0x1F189) || c == 0x200C || c == 0x200D;
  }
}

}  // namespace zt

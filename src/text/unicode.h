#pragma once
// Unicode on bytes: repair, code points, canonical composition and the classes that tokenizers ask for.
// Tables: utf8proc (Unicode 14 in Debian 12).
#include <cstdint>
#include <string>
#include <string_view>

namespace zt {

// The text with every ill-formed part replaced by U+FFFD, one for each maximal subpart (Unicode 15, section 3.9, table 3-8:
// what Python's decode(errors="replace") and browsers do). Overlong forms, surrogates and values above U+10FFFF are ill-formed;
// NUL is an ordinary character. Valid text comes back unchanged.
std::string repair_utf8(std::string_view text);

bool is_ascii(std::string_view text);

// The code point that starts at `i` of valid UTF-8; `i` moves behind it.
char32_t next_code_point(std::string_view valid, size_t& i);
// The code point that ends before `i` (i > 0); `i` moves to its start.
char32_t previous_code_point(std::string_view valid, size_t& i);
void append_utf8(std::string& out, char32_t c);

// Normalization form C of valid UTF-8, in time n log n whatever the run of combining marks
// (utf8proc_map sorts them by exchange: half a minute for a hundred thousand marks).
std::string nfc(std::string_view valid);

bool is_space(char32_t c);   // White_Space
bool is_word(char32_t c);    // \w of the reference: letters, marks, digits, connectors, joiners

}  // namespace zt

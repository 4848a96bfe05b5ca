// The tokenizer's files and a prompt, all from strangers: either an Error of kind model, or ids that have a token and text that decodes.
// Input: seven parts with 0xFF between (a byte that JSON cannot hold): vocabulary, merges, tokenizer_config.json, tokenizer.json,
// added_tokens.json, special_tokens_map.json, prompt. An empty part is a missing file. A vocabulary part that begins with a quote is the
// inside of an object, to which the 256 byte tokens with ids 0 ... 255 are added: so mutations reach the merging.
#include <array>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/json.h"
#include "text/tokenizer.h"
#include "text/unicode.h"

namespace {

const std::string& byte_tokens() {
  static const std::string text = [] {
    std::string out;
    for (int b = 0; b < 256; ++b) out += (b ? "," : "") + zt::Json(zt::byte_spelling(static_cast<uint8_t>(b))).dump() + ":" + std::to_string(b);
    return out;
  }();
  return text;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  std::array<std::string, 7> part;
  for (size_t i = 0; i < part.size(); ++i) {
    size_t end = i + 1 < part.size() ? std::min(rest.find('\xFF'), rest.size()) : rest.size();   // the prompt may hold the byte
    part[i] = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  if (part[0].starts_with('"')) part[0] = "{" + byte_tokens() + "," + part[0] + "}";
  auto file = [&](size_t i) { return part[i].empty() ? std::nullopt : std::optional(part[i]); };
  try {
    zt::Tokenizer t(zt::parse_tokenizer_files({"fuzz", file(0), file(1), file(2), file(3), file(4), file(5)}));
    auto ids = t.encode(part[6]);
    for (int32_t id : ids)
      if (id < 0 || id >= t.vocab_size()) std::abort();
    std::string back = t.decode(ids);
    if (zt::repair_utf8(back) != back) std::abort();   // what comes back is text
  } catch (const zt::Error& e) {
    if (e.kind != zt::ErrorKind::model) std::abort();
  }
  return 0;
}

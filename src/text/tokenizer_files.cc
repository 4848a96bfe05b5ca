#include "text/tokenizer_files.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "base/error.h"
#include "base/json.h"
#include "base/mapped_file.h"

namespace zt {

namespace {

constexpr int64_t kMaxId = (1 << 24) - 1;        // more rows than any embedding has
constexpr size_t kMaxAddedBytes = 1024;          // matching costs this much for every character at worst
constexpr const char* kDefaultSpecial = "<|endoftext|>";
constexpr const char* kNamed[] = {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"};

std::string show(const Json& v) {
  std::string s = v.dump(-1, ' ', false, Json::error_handler_t::replace);
  return s.size() > 80 ? s.substr(0, 77) + "..." : s;
}

int32_t token_id(const Json& v, const std::string& where) {
  bool fits = v.is_number_unsigned() ? v.get<uint64_t>() <= kMaxId : v.is_number_integer() && v.get<int64_t>() >= 0 && v.get<int64_t>() <= kMaxId;
  if (!fits) fail(ErrorKind::model, "{}: the id is {}, wanted an integer from 0 to {}", where, show(v), kMaxId);
  return v.get<int32_t>();
}

// Keys of the outermost object, and those of its object extra_special_tokens, in the file's order: Json sorts them.
struct KeyOrder : nlohmann::json_sax<Json> {
  std::vector<std::string> keys, extra;
  int depth = 0;
  bool key(std::string& k) override {
    if (depth == 1) keys.push_back(k);
    if (depth == 2 && keys.back() == "extra_special_tokens") extra.push_back(k);
    return true;
  }
  bool enter() { return ++depth, true; }
  bool leave() { return --depth, true; }
  bool start_object(size_t) override { return enter(); }
  bool end_object() override { return leave(); }
  bool start_array(size_t) override { return depth += 2, true; }   // no keys from inside lists
  bool end_array() override { return depth -= 2, true; }
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(int64_t) override { return true; }
  bool number_unsigned(uint64_t) override { return true; }
  bool number_float(double, const std::string&) override { return true; }
  bool string(std::string&) override { return true; }
  bool binary(Json::binary_t&) override { return true; }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }
};

void read_vocab(const Json& object, const std::string& origin, TokenMap& vocab) {
  if (!object.is_object()) fail(ErrorKind::model, "{}: found {}, wanted an object of tokens and their ids", origin, show(object));
  std::unordered_map<int32_t, const std::string*> seen;
  vocab.reserve(object.size());
  seen.reserve(object.size());
  for (auto& [token, value] : object.items()) {
    int32_t id = token_id(value, origin + ": token " + show(token));
    auto [it, fresh] = seen.emplace(id, &token);
    if (!fresh)
      fail(ErrorKind::model, "{}: id {} belongs to {} and to {}; every token needs an id of its own", origin, id, show(*it->second), show(token));
    it->second = &vocab.emplace(token, id).first->first;
  }
}

void read_merges_text(const std::string& text, TokenizerFiles& out) {
  size_t number = 0;
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(text.find('\n', at), text.size());
    std::string line = text.substr(at, end - at);
    at = end + 1;
    ++number;
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.starts_with("#version")) continue;
    size_t space = line.find(' ');
    if (space == std::string::npos || space == 0 || space + 1 == line.size() || line.find(' ', space + 1) != std::string::npos)
      fail(ErrorKind::model, "{}: line {} is {}, wanted two tokens with one space between", out.merges_file, number, show(line));
    out.merges.emplace_back(line.substr(0, space), line.substr(space + 1));
  }
}

void read_merges_json(const Json& list, TokenizerFiles& out) {
  if (!list.is_array()) fail(ErrorKind::model, "{}: found {}, wanted a list of merges", out.merges_file, show(list));
  for (const Json& m : list) {
    std::pair<std::string, std::string> pair;
    if (m.is_array() && m.size() == 2 && m[0].is_string() && m[1].is_string()) {
      pair = {m[0].get<std::string>(), m[1].get<std::string>()};
    } else if (m.is_string()) {
      auto text = m.get<std::string>();
      size_t space = text.find(' ');
      if (space != std::string::npos && text.find(' ', space + 1) == std::string::npos) pair = {text.substr(0, space), text.substr(space + 1)};
    }
    if (pair.first.empty() || pair.second.empty())
      fail(ErrorKind::model, "{}: merge {} is {}, wanted two tokens", out.merges_file, out.merges.size() + 1, show(m));
    out.merges.push_back(std::move(pair));
  }
}

// Gathers added tokens; each new one is checked against all that is known.
class AddedTokens {
 public:
  explicit AddedTokens(TokenizerFiles& files) : files_(files) {
    for (auto& [token, id] : files.vocab) {
      names_.emplace(id, token);
      next_ = std::max(next_, id + 1);
    }
  }

  void explicit_id(AddedToken token, const std::string& where) {
    check(token, where);
    auto known = [&](int32_t id, const char* place) {
      if (id != token.id)
        fail(ErrorKind::model, "{}: token {} has id {}, but {} in {}; the files come from different models", where, show(token.content), token.id, id,
             place);
    };
    if (auto it = files_.vocab.find(token.content); it != files_.vocab.end()) known(it->second, files_.model_file.c_str());
    if (auto it = index_.find(token.content); it != index_.end()) return known(files_.added[it->second].id, "another place");
    auto [it, fresh] = names_.emplace(token.id, token.content);
    if (!fresh && it->second != token.content)
      fail(ErrorKind::model, "{}: id {} is given to {}, but belongs to {}; every token needs an id of its own", where, token.id, show(token.content),
           show(it->second));
    append(std::move(token));
  }

  // A token known by name only: special, without flags.
  void by_name(const std::string& content, const std::string& where) {
    AddedToken token{.content = content, .special = true};
    check(token, where);
    if (auto it = index_.find(content); it != index_.end()) {
      token.id = files_.added[it->second].id;
      files_.added[it->second] = token;
      return;
    }
    auto it = files_.vocab.find(content);
    token.id = it != files_.vocab.end() ? it->second : next_;
    if (token.id > kMaxId) fail(ErrorKind::model, "{}: no id is left for {}", where, show(content));
    names_.emplace(token.id, content);
    append(std::move(token));
  }

 private:
  void check(const AddedToken& token, const std::string& where) {
    if (token.content.empty() || token.content.size() > kMaxAddedBytes)
      fail(ErrorKind::model, "{}: an added token has {} bytes, wanted 1 to {}", where, token.content.size(), kMaxAddedBytes);
  }
  void append(AddedToken token) {
    next_ = std::max(next_, token.id + 1);
    index_.emplace(token.content, files_.added.size());
    files_.added.push_back(std::move(token));
  }

  TokenizerFiles& files_;
  std::unordered_map<int32_t, std::string> names_;
  std::unordered_map<std::string, size_t> index_;   // content -> place in files_.added
  int32_t next_ = 0;
};

AddedToken read_added(const Json& object, int32_t id, const std::string& where) {
  JsonView v(object, where);
  AddedToken t{.content = v.text("content"), .id = id};
  t.special = v.boolean("special", false);
  t.normalized = v.boolean("normalized", !t.special);
  t.lstrip = v.boolean("lstrip", false);
  t.rstrip = v.boolean("rstrip", false);
  t.single_word = v.boolean("single_word", false);
  return t;
}

// A special token written as a string, or as an object with its content; empty for null.
std::optional<std::string> token_name(const Json& v, const std::string& where) {
  if (v.is_null()) return std::nullopt;
  if (v.is_string()) return v.get<std::string>();
  if (v.is_object() && v.contains("content") && v["content"].is_string()) return v["content"].get<std::string>();
  fail(ErrorKind::model, "{}: found {}, wanted a token as a string", where, show(v));
}

void add_explicit(const Json& config, const std::string& config_file, const Json* tokenizer, const std::string& tokenizer_file, const Json* added,
                  const std::string& added_file, AddedTokens& out) {
  if (config.contains("added_tokens_decoder") && !config["added_tokens_decoder"].is_null()) {
    JsonView decoder = JsonView(config, config_file).child("added_tokens_decoder");
    std::map<int32_t, const Json*> sorted;
    for (auto& [key, value] : decoder.json().items()) {
      bool digits = !key.empty() && key.size() <= 9 && std::all_of(key.begin(), key.end(), [](char c) { return c >= '0' && c <= '9'; });
      if (!digits || std::stol(key) > kMaxId)
        fail(ErrorKind::model, "{}: key {} is no id, wanted an integer from 0 to {}", decoder.origin(), show(key), kMaxId);
      if (!sorted.emplace(static_cast<int32_t>(std::stol(key)), &value).second)
        fail(ErrorKind::model, "{}: id {} stands there twice", decoder.origin(), std::stol(key));
    }
    for (auto& [id, value] : sorted) out.explicit_id(read_added(*value, id, decoder.origin() + fmt::format(": {}", id)), decoder.origin());
  }
  if (tokenizer && tokenizer->contains("added_tokens")) {
    const Json& list = (*tokenizer)["added_tokens"];
    std::string where = tokenizer_file + ": added_tokens";
    if (!list.is_array()) fail(ErrorKind::model, "{}: found {}, wanted a list", where, show(list));
    for (const Json& t : list) {
      JsonView v(t, where);
      out.explicit_id(read_added(t, token_id(v.at("id"), where), where), where);
    }
  }
  if (added) {
    JsonView v(*added, added_file);
    for (auto& [content, id] : added->items())
      out.explicit_id({.content = content, .id = token_id(id, added_file + ": token " + show(content)), .normalized = true}, added_file);
  }
}

// The list of further special tokens of `object`: extra_special_tokens, or additional_special_tokens where that says nothing.
void add_list(const Json& object, const std::string& origin, AddedTokens& out) {
  for (const char* key : {"extra_special_tokens", "additional_special_tokens"}) {
    auto it = object.find(key);
    if (it == object.end() || it->is_null() || it->empty() || it->is_object()) continue;
    std::string where = origin + ": " + key;
    if (!it->is_array()) fail(ErrorKind::model, "{}: found {}, wanted a list of tokens", where, show(*it));
    for (const Json& t : *it) {
      auto name = token_name(t, where);
      if (!name) fail(ErrorKind::model, "{}: found null, wanted a token as a string", where);
      out.by_name(*name, where);
    }
    return;
  }
}

void add_by_name(const Json& config, const std::string& config_text, const std::string& config_file, const Json* map, const std::string& map_file,
                 AddedTokens& out) {
  for (const char* key : kNamed) {
    std::optional<std::string> name;
    std::string_view k = key;
    if (k == "eos_token" || k == "unk_token" || k == "pad_token") name = kDefaultSpecial;
    if (config.contains(key)) name = token_name(config[key], config_file + ": " + key);
    else if (map && map->contains(key)) name = token_name((*map)[key], map_file + ": " + key);
    if (name) out.by_name(*name, config_file + ": " + key);
  }
  KeyOrder order;
  Json::sax_parse(config_text, &order);
  auto is_named = [](const std::string& key) { return std::find(std::begin(kNamed), std::end(kNamed), key) != std::end(kNamed); };
  for (const std::string& key : order.keys)
    if (key.ends_with("_token") && !is_named(key) && config[key].is_string())
      out.by_name(config[key].get<std::string>(), config_file + ": " + key);
  for (const std::string& key : order.extra) {
    std::string where = config_file + ": extra_special_tokens: " + key;
    if (auto name = token_name(config["extra_special_tokens"].at(key), where)) out.by_name(*name, where);
  }
  add_list(config, config_file, out);
  if (map) add_list(*map, map_file, out);
}

std::optional<std::string> read_optional(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return std::nullopt;
  MappedFile f(path.string());
  auto b = f.bytes();
  constexpr size_t kMax = size_t{256} << 20;
  if (b.size() > kMax) fail(ErrorKind::model, "{}: {} bytes, more than the {} allowed for a tokenizer file", path.string(), b.size(), kMax);
  return std::string(reinterpret_cast<const char*>(b.data()), b.size());
}

}  // namespace

TokenizerSources read_tokenizer_sources(const std::string& folder) {
  std::filesystem::path p(folder);
  std::error_code error;
  if (!std::filesystem::is_directory(p, error)) fail(ErrorKind::model, "{}: no such folder; the tokenizer's files belong there", folder);
  return {folder,
          read_optional(p / "vocab.json"),
          read_optional(p / "merges.txt"),
          read_optional(p / "tokenizer_config.json"),
          read_optional(p / "tokenizer.json"),
          read_optional(p / "added_tokens.json"),
          read_optional(p / "special_tokens_map.json")};
}

TokenizerFiles parse_tokenizer_files(const TokenizerSources& sources) {
  auto file = [&](const char* name) { return sources.folder + "/" + name; };
  auto parse = [&](const std::optional<std::string>& text, const char* name) -> std::optional<Json> {
    if (!text) return std::nullopt;
    Json j = parse_json(*text, file(name));
    if (!j.is_object()) fail(ErrorKind::model, "{}: found {}, wanted a JSON object", file(name), show(j));
    return j;
  };
  auto config = parse(sources.config, "tokenizer_config.json");
  if (!config)
    fail(ErrorKind::model, "{}: not there; it names the special tokens, so the tokenizer is useless without it", file("tokenizer_config.json"));
  auto tokenizer = parse(sources.tokenizer, "tokenizer.json");
  auto added = parse(sources.added_tokens, "added_tokens.json");
  auto map = parse(sources.special_tokens_map, "special_tokens_map.json");

  TokenizerFiles out;
  out.add_prefix_space = JsonView(*config, file("tokenizer_config.json")).boolean("add_prefix_space", false);
  out.split_special_tokens = JsonView(*config, file("tokenizer_config.json")).boolean("split_special_tokens", false);
  if (tokenizer) {
    JsonView model = JsonView(*tokenizer, file("tokenizer.json")).child("model");
    if (auto type = model.text("type", "BPE"); type != "BPE")
      fail(ErrorKind::model, "{}: \"type\" is \"{}\", wanted \"BPE\" (byte-level, as Qwen2 has)", model.origin(), type);
    out.model_file = model.origin() + ": vocab";
    out.merges_file = model.origin() + ": merges";
    out.ignore_merges = model.boolean("ignore_merges", false);
    read_vocab(model.at("vocab"), out.model_file, out.vocab);
    read_merges_json(model.at("merges"), out);
  } else {
    if (!sources.vocab || !sources.merges)
      fail(ErrorKind::model, "{}: not there; a tokenizer needs vocab.json and merges.txt, or tokenizer.json", file(sources.vocab ? "merges.txt" : "vocab.json"));
    out.model_file = file("vocab.json");
    out.merges_file = file("merges.txt");
    auto vocab = parse(sources.vocab, "vocab.json");
    read_vocab(*vocab, out.model_file, out.vocab);
    read_merges_text(*sources.merges, out);
  }
  AddedTokens tokens(out);
  add_explicit(*config, file("tokenizer_config.json"), tokenizer ? &*tokenizer : nullptr, file("tokenizer.json"), added ? &*added : nullptr,
               file("added_tokens.json"), tokens);
  add_by_name(*config, *sources.config, file("tokenizer_config.json"), map ? &*map : nullptr, file("special_tokens_map.json"), tokens);
  std::sort(out.added.begin(), out.added.end(), [](const AddedToken& a, const AddedToken& b) { return a.id < b.id; });
  return out;
}

}  // namespace zt

#include "serve/http/body.h"

#include <array>

#include "serve/http/errors.h"
#include "serve/http/multipart.h"

namespace zt::http {

namespace {

constexpr size_t kMaxName = 200, kMaxNesting = 6;

// "conditions[][uri]" -> {"conditions", "", "uri"}
std::vector<std::string> split_name(const std::string& name) {
  if (name.size() > kMaxName) refuse("body", "a field name of {} bytes; at most {} are taken", name.size(), kMaxName);
  std::vector<std::string> out{name.substr(0, name.find('['))};
  size_t at = out[0].size();
  if (out[0].empty()) refuse("body", "the field name \"{}\" begins with a bracket", name);
  while (at < name.size()) {
    const size_t end = name.find(']', at);
    if (name[at] != '[' || end == std::string::npos) refuse(name, "the brackets of the field name \"{}\" do not match", name);
    out.push_back(name.substr(at + 1, end - at - 1));
    at = end + 1;
  }
  if (out.size() > kMaxNesting) refuse(name, "the field name \"{}\" is nested deeper than {} levels", name, kMaxNesting);
  return out;
}

// Where the value of `name` goes. "[]" appends; "[][key]" fills the last element until it has that key already. `list` names may come again.
Json& place(Json& root, const std::string& name) {
  const std::vector<std::string> path = split_name(name);
  Json* at = &root;
  for (size_t i = 0; i < path.size(); ++i) {
    const std::string& key = path[i];
    const bool list = i > 0 && key.empty();
    if (at->is_null()) *at = list ? Json::array() : Json::object();
    if (list ? !at->is_array() : !at->is_object()) refuse(path[0], "the field \"{}\" is given as a value and as a list or object", name);
    if (!list) {
      at = &(*at)[key];
      continue;
    }
    const bool more = i + 1 < path.size() && !path[i + 1].empty();
    if (!more || at->empty() || !at->back().is_object() || at->back().contains(path[i + 1])) at->push_back(nullptr);
    at = &at->back();
  }
  if (!at->is_null()) refuse(path[0], "the field \"{}\" is given twice", name);
  return *at;
}

Body read_multipart(const Request& r, const std::string& boundary) {
  Body body;
  body.text = true;
  for (const Part& part : parse_multipart(r.body, boundary)) {
    Json& value = place(body.fields, part.name);
    if (part.is_file) value = Json::binary(std::vector<uint8_t>(part.data.begin(), part.data.end()));
    else if (part.type.starts_with("application/json")) value = parse_client_json(part.data, part.name);
    else value = std::string(part.data);
  }
  return body;
}

Body read_form(const Request& r) {   // application/x-www-form-urlencoded
  Body body;
  body.text = true;
  Request form;
  form.target = "/?" + r.body;
  if (!parse_target(form)) refuse("body", "the form is malformed or has more than 64 fields");
  for (auto& [name, value] : form.query) place(body.fields, name) = value;
  return body;
}

}  // namespace

Json parse_client_json(std::string_view text, const std::string& param) {
  try {
    return parse_json(text, param);
  } catch (const Error& e) {
    throw HttpError(400, "invalid_json", param, e.what());
  }
}

Body read_body(const Request& r) {
  const std::string* given = r.header("content-type");
  std::string type = given ? given->substr(0, given->find(';')) : "";
  for (char& c : type) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  while (!type.empty() && type.back() == ' ') type.pop_back();
  if (const std::string* coding = r.header("content-encoding"); coding && *coding != "identity")
    throw HttpError(415, "unsupported_content_encoding", "body", "the body is encoded as " + coding->substr(0, 40) + "; send it as it is");
  if (r.body.empty() && type.empty()) return {};
  if (type == "multipart/form-data") {
    const auto boundary = multipart_boundary(*given);
    if (!boundary) refuse("body", "Content-Type is multipart/form-data without a boundary of 1 to {} characters", kMaxBoundary);
    return read_multipart(r, *boundary);
  }
  if (type == "application/x-www-form-urlencoded") return read_form(r);
  if (type != "application/json" && !(type.empty() && r.body.starts_with("{")))
    throw HttpError(415, "unsupported_content_type", "body", "Content-Type is \"" + type.substr(0, 60) + "\"; wanted application/json or multipart/form-data");
  Body body;
  body.fields = parse_client_json(r.body, "body");
  if (!body.fields.is_object()) throw HttpError(400, "invalid_json", "body", "body: wanted a JSON object");
  return body;
}

std::optional<std::string> decode_base64(std::string_view text) {
  static const auto table = [] {
    std::array<int8_t, 256> t{};
    t.fill(-1);
    const std::string_view letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < letters.size(); ++i) t[static_cast<uint8_t>(letters[i])] = static_cast<int8_t>(i);
    t['-'] = 62, t['_'] = 63;
    return t;
  }();
  std::string out;
  out.reserve(text.size() / 4 * 3 + 3);
  uint32_t bits = 0;
  int have = 0;
  size_t padding = 0, letters = 0;
  for (char c : text) {
    if (c == ' ' || c == '\n' || c == '\r' || c == '\t') continue;
    if (c == '=') {
      ++padding;
      continue;
    }
    const int value = table[static_cast<uint8_t>(c)];
    if (value < 0 || padding) return std::nullopt;
    bits = bits << 6 | static_cast<uint32_t>(value), have += 6, ++letters;
    if (have >= 8) {
      have -= 8;
      out += static_cast<char>(bits >> have & 0xFF);
    }
  }
  if (letters % 4 == 1 || padding > 2 || (padding && (letters + padding) % 4)) return std::nullopt;
  return out;
}

}  // namespace zt::http

#include "serve/http/multipart.h"

#include <algorithm>

#include "serve/http/errors.h"

namespace zt::http {

namespace {

std::string lower(std::string_view s) {
  std::string out(s);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  return out;
}

std::string_view trim(std::string_view s) {
  while (!s.empty() && (s.front() == ' ' || s.front() == '\t')) s.remove_prefix(1);
  while (!s.empty() && (s.back() == ' ' || s.back() == '\t')) s.remove_suffix(1);
  return s;
}

// The next "; key=value" of a header's parameters; quoted values are unescaped. False at the end or on nonsense.
bool next_parameter(std::string_view& rest, std::string& key, std::string& value) {
  rest = trim(rest);
  if (rest.empty() || rest.front() != ';') return false;
  rest = trim(rest.substr(1));
  const size_t equals = rest.find('=');
  if (equals == std::string_view::npos) return false;
  key = lower(trim(rest.substr(0, equals)));
  rest = trim(rest.substr(equals + 1));
  value.clear();
  if (rest.empty() || rest.front() != '"') {
    const size_t end = std::min(rest.find(';'), rest.size());
    value = trim(rest.substr(0, end));
    rest.remove_prefix(end);
    return true;
  }
  size_t i = 1;
  for (; i < rest.size() && rest[i] != '"'; ++i) {
    if (rest[i] == '\\' && i + 1 < rest.size() && (rest[i + 1] == '"' || rest[i + 1] == '\\')) ++i;
    value += rest[i];
  }
  if (i >= rest.size()) return false;
  rest.remove_prefix(i + 1);
  return true;
}

void read_disposition(std::string_view value, Part& part) {
  const size_t end = std::min(value.find(';'), value.size());
  if (lower(trim(value.substr(0, end))) != "form-data") refuse("body", "a part of the multipart body is not form-data");
  std::string_view rest = value.substr(end);
  std::string key, text;
  bool named = false;
  while (next_parameter(rest, key, text)) {
    if (key == "name") {
      if (named) refuse("body", "a part of the multipart body has two names");
      part.name = text, named = true;
    }
    if (key == "filename" || key == "filename*") part.is_file = true;
  }
  if (!trim(rest).empty()) refuse("body", "a Content-Disposition of the multipart body is malformed");
  if (!named || part.name.empty()) refuse("body", "a part of the multipart body has no name");
}

Part read_part(std::string_view text) {
  Part part;
  const size_t end = text.substr(0, kMaxPartHeader).find("\r\n\r\n");
  if (end == std::string_view::npos) refuse("body", "a part of the multipart body has no end of its header within {} bytes", kMaxPartHeader);
  std::string_view header = text.substr(0, end);
  part.data = text.substr(end + 4);
  bool disposed = false;
  while (!header.empty()) {
    const size_t line_end = std::min(header.find("\r\n"), header.size());
    const std::string_view line = header.substr(0, line_end);
    header.remove_prefix(std::min(header.size(), line_end + 2));
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) refuse("body", "a header line of the multipart body has no colon");
    const std::string key = lower(line.substr(0, colon));
    const std::string_view value = trim(line.substr(colon + 1));
    if (key == "content-disposition") {
      if (disposed) refuse("body", "a part of the multipart body has two Content-Dispositions");
      read_disposition(value, part), disposed = true;
    }
    if (key == "content-type") part.type = lower(value);
    const std::string coding = lower(value);
    if (key == "content-transfer-encoding" && coding != "binary" && coding != "8bit" && coding != "7bit")
      refuse("body", "a part of the multipart body is encoded as {}; send its bytes as they are", coding.substr(0, 40));
  }
  if (!disposed) refuse("body", "a part of the multipart body has no Content-Disposition");
  if (part.type.starts_with("multipart/")) refuse(part.name, "a multipart inside the multipart body; send one part a file");
  return part;
}

}  // namespace

std::optional<std::string> multipart_boundary(std::string_view content_type) {
  const size_t end = std::min(content_type.find(';'), content_type.size());
  if (lower(trim(content_type.substr(0, end))) != "multipart/form-data") return std::nullopt;
  std::string_view rest = content_type.substr(end);
  std::string key, value;
  while (next_parameter(rest, key, value)) {
    if (key != "boundary") continue;
    const bool legal = !value.empty() && value.size() <= kMaxBoundary && value.back() != ' ' &&
                       std::all_of(value.begin(), value.end(), [](char c) { return c >= ' ' && c <= '~'; });
    return legal ? std::optional(value) : std::nullopt;
  }
  return std::nullopt;
}

std::vector<Part> parse_multipart(std::string_view body, const std::string& boundary) {
  const std::string line = "--" + boundary, delimiter = "\r\n" + line;
  size_t at = 0;
  if (!body.starts_with(line)) {   // a preamble, which is to be ignored
    at = body.find(delimiter);
    if (at == std::string_view::npos) refuse("body", "the multipart body does not hold the boundary that Content-Type names");
    at += 2;
  }
  at += line.size();
  std::vector<Part> parts;
  while (true) {
    std::string_view rest = body.substr(at);
    if (rest.starts_with("--")) return parts;   // an epilogue is ignored too
    const size_t line_end = rest.substr(0, 256).find("\r\n");
    if (line_end == std::string_view::npos || !trim(rest.substr(0, line_end)).empty()) refuse("body", "the multipart body ends without its closing boundary");
    at += line_end + 2;
    const size_t end = body.find(delimiter, at);
    if (end == std::string_view::npos) refuse("body", "the multipart body ends without its closing boundary");
    if (parts.size() >= kMaxParts) refuse("body", "the multipart body has more than {} parts", kMaxParts);
    parts.push_back(read_part(body.substr(at, end - at)));
    at = end + delimiter.size();
  }
}

}  // namespace zt::http

#include "serve/http/message.h"

namespace zt::http {

namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

const std::string* find(const std::vector<std::pair<std::string, std::string>>& list, std::string_view name) {
  for (const auto& [key, value] : list)
    if (key == name) return &value;
  return nullptr;
}

}  // namespace

const std::string* Request::header(std::string_view lower_name) const { return find(headers, lower_name); }
const std::string* Request::parameter(std::string_view name) const { return find(query, name); }

std::optional<std::string> percent_decode(std::string_view text, bool plus) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%') {
      if (i + 2 >= text.size()) return std::nullopt;
      const int high = hex_digit(text[i + 1]), low = hex_digit(text[i + 2]);
      if (high < 0 || low < 0) return std::nullopt;
      out += static_cast<char>(high * 16 + low);
      i += 2;
    } else {
      out += plus && text[i] == '+' ? ' ' : text[i];
    }
  }
  return out;
}

bool parse_target(Request& r) {
  std::string_view target = r.target;
  const size_t mark = target.find('?');
  auto path = percent_decode(target.substr(0, mark), false);
  if (!path || path->empty() || path->front() != '/' || path->find('\0') != std::string::npos) return false;
  r.path = std::move(*path);
  if (mark == std::string_view::npos) return true;
  std::string_view query = target.substr(mark + 1);
  while (!query.empty()) {
    const size_t end = query.find('&');
    const std::string_view pair = query.substr(0, end), name = pair.substr(0, pair.find('='));
    auto key = percent_decode(name, true), value = percent_decode(pair.substr(std::min(pair.size(), name.size() + 1)), true);
    if (!key || !value || r.query.size() >= 64) return false;
    if (!pair.empty()) r.query.emplace_back(std::move(*key), std::move(*value));
    if (end == std::string_view::npos) break;
    query.remove_prefix(end + 1);
  }
  return true;
}

}  // namespace zt::http

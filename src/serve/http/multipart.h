#pragma once
// multipart/form-data (RFC 7578) from a body in memory: bounded in parts and header bytes, linear in time, takes any bytes.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace zt::http {

struct Part {
  std::string name;            // of the field
  bool is_file = false;        // a file name was given; the name itself is never used for anything
  std::string type;            // content type, "" if none
  std::string_view data;       // into the body
};

constexpr size_t kMaxParts = 64, kMaxPartHeader = 8192, kMaxBoundary = 70;

// The boundary of a Content-Type value; nothing if it is not multipart/form-data with a legal one (RFC 2046).
std::optional<std::string> multipart_boundary(std::string_view content_type);
// Errors (HttpError 400, param "body"): not well formed, no end, too many parts, a part without a name, a nested multipart.
std::vector<Part> parse_multipart(std::string_view body, const std::string& boundary);

}  // namespace zt::http

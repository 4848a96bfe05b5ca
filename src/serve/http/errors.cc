#include "serve/http/errors.h"

#include <charconv>

#include "base/json.h"

namespace zt::http {

namespace {

const char* error_type(int status) {
  switch (status) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 404: return "not_found_error";
    case 429: return "rate_limit_error";
    default: return status >= 500 ? "server_error" : "invalid_request_error";
  }
}

}  // namespace

Response error_response(int status, const std::string& code, const std::string& param, const std::string& message) {
  Json error{{"message", message}, {"type", error_type(status)}, {"param", nullptr}, {"code", code}};
  if (!param.empty()) error["param"] = param;
  Response r;
  r.status = status;
  r.body = Json{{"error", std::move(error)}}.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  r.set("Content-Type", "application/json").set("Cache-Control", "no-store");
  return r;
}

int64_t whole_number(const Request& r, const char* name) {
  const std::string* text = r.parameter(name);
  if (!text) return -1;
  int64_t n = -1;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), n);
  if (error != std::errc() || end != text->data() + text->size() || n < 0) refuse(name, "{} is \"{}\"; wanted a whole number from 0", name, text->substr(0, 40));
  return n;
}

HlsPlace wanted_playlist(const Request& r) {
  const HlsPlace at{whole_number(r, "_HLS_msn"), whole_number(r, "_HLS_part")};
  if (at.part >= 0 && at.segment < 0) refuse("_HLS_part", "_HLS_part belongs to _HLS_msn; give both");
  return at;
}

HlsPlace wanted_media(const Request& r) {
  const HlsPlace at{whole_number(r, "n"), whole_number(r, "part")};
  if (at.segment < 0) refuse("n", "n is missing; give the number of a segment, as the playlist does");
  return at;
}

Response error_response(const HttpError& e) {
  Response r = error_response(e.status, e.code, e.param, e.what());
  if (e.retry_after > 0) r.set("Retry-After", std::to_string(e.retry_after));
  return r;
}

}  // namespace zt::http

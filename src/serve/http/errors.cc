#include "serve/http/errors.h"

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

Response error_response(const HttpError& e) {
  Response r = error_response(e.status, e.code, e.param, e.what());
  if (e.retry_after > 0) r.set("Retry-After", std::to_string(e.retry_after));
  return r;
}

}  // namespace zt::http

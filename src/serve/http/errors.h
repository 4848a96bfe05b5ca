#pragma once
// Refusals in the shape that OpenAI's clients read: {"error": {"message", "type", "param", "code"}}.
#include <optional>
#include <stdexcept>
#include <string>

#include "base/error.h"
#include "serve/http/message.h"

namespace zt::http {

// Thrown by a route; becomes its answer.
class HttpError : public std::runtime_error {
 public:
  HttpError(int status, std::string code, std::string param, const std::string& message)
      : std::runtime_error(message), status(status), code(std::move(code)), param(std::move(param)) {}
  int status;
  std::string code, param;     // param "" = null: no single field is at fault
  int retry_after = 0;         // seconds; 0 = no such header
};

// 400 invalid_value that names the field at fault.
template <class... Args>
[[noreturn]] void refuse(const std::string& param, fmt::format_string<Args...> format, Args&&... args) {
  throw HttpError(400, "invalid_value", param, fmt::format(format, std::forward<Args>(args)...));
}

// A whole number of the query; -1 if it is not there. Errors (400): it is none.
int64_t whole_number(const Request& r, const char* name);
// Of HLS: the playlist that a player waits for (_HLS_msn, _HLS_part); the segment that it wants, or a part of it (n, part). What is not there is -1.
struct HlsPlace {
  int64_t segment = -1, part = -1;
};
HlsPlace wanted_playlist(const Request& r);   // errors (400): a part without its segment
HlsPlace wanted_media(const Request& r);      // errors (400): no segment

Response error_response(const HttpError& error);
Response error_response(int status, const std::string& code, const std::string& param, const std::string& message);

}  // namespace zt::http

#pragma once
// The one exception of the program. Thrown at the edges with a message that names the thing, what was found, what was
// wanted and what to do; caught once (command line or job worker). Kernels never throw.
#include <fmt/format.h>

#include <stdexcept>
#include <string>

namespace zt {

enum class ErrorKind { request, model, resource, internal };

class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind(kind) {}
  ErrorKind kind;
};

// Exit code of the command line: request 2, model 3, resource 4, internal 1.
int exit_code(ErrorKind kind);
// HTTP status: request 400, model 422, resource 503, internal 500.
int http_status(ErrorKind kind);

template <class... Args>
[[noreturn]] void fail(ErrorKind kind, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(kind, fmt::format(format, std::forward<Args>(args)...));
}

// Thrown when a run is cancelled by its owner; not an Error, since nothing went wrong.
struct Cancelled : std::exception {
  const char* what() const noexcept override { return "cancelled"; }
};

}  // namespace zt

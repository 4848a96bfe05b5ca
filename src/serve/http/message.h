#pragma once
// An HTTP request and its answer as the routes see them; nothing here knows the library that moves the bytes.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace zt::http {

struct Request {
  std::string method;                                          // as sent: "GET"
  std::string target;                                          // as sent, path and query
  std::string path;                                            // percent-decoded
  std::vector<std::pair<std::string, std::string>> query;      // percent-decoded, in order
  std::vector<std::pair<std::string, std::string>> headers;    // names in lower case, in order
  std::string body;
  std::string peer;                                            // address of the client
  std::string caller;                                          // id of the API key, set by admission; "" without keys
  bool lenient = false;                                        // of that key: unknown fields warn

  const std::string* header(std::string_view lower_name) const;   // the first of that name, or null
  const std::string* parameter(std::string_view name) const;      // of the query
};

struct FileBody {
  std::shared_ptr<const int> fd;     // closed with its last owner
  uint64_t offset = 0, length = 0;
};

// A body of unknown length. `next` is called on a pool thread, never twice at once, after the bytes of the last step have been sent.
struct StreamStep {
  std::string bytes;
  bool done = false;
  int wait_ms = 0;                   // before the next call
};
using Stream = std::function<StreamStep()>;

struct Response {
  int status = 200;
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
  std::optional<FileBody> file;      // in place of `body`
  Stream stream;                     // in place of both
  // In place of everything: asked on a pool thread every few hundredths of a second until the answer is there. No thread waits for it.
  std::function<std::optional<Response>()> later;
  std::optional<uint64_t> length;    // bytes of `stream` in all, where that is known: the answer is then not chunked
  bool slow = false;                 // `stream` may block for a network: it runs where slow requests do
  bool close = false;                // the connection ends with this answer

  Response& set(std::string name, std::string value) {
    headers.emplace_back(std::move(name), std::move(value));
    return *this;
  }
};

// "%41" -> "A"; with `plus`, '+' -> ' ' as in a query. Nothing on a broken escape.
std::optional<std::string> percent_decode(std::string_view text, bool plus);
// Splits a request target into path and query. False: a broken escape, a NUL, no leading '/'.
bool parse_target(Request& request);

}  // namespace zt::http

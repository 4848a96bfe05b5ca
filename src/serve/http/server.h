#pragma once
// The asynchronous HTTP/1.1 core: one thread moves the bytes of every connection, two small pools run the routes. A slow client or an open
// stream costs a few kilobytes and no thread. What a client may cost is bounded in header and body bytes, time, connections and bytes of
// bodies held at once.
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "serve/http/message.h"

namespace zt::http {

struct ServerOptions {
  std::string host = "127.0.0.1";
  int port = 8080;                           // 0: any free one
  size_t max_connections = 1024;
  size_t header_bytes = 16 << 10;
  size_t body_bytes = size_t{64} << 20;      // of one request
  size_t body_total_bytes = size_t{512} << 20;   // of all requests being read or handled
  double header_seconds = 10;                // from the first byte of a request to the end of its header
  double idle_seconds = 75;                  // between requests of one connection
  double body_seconds = 20;                  // for a body, and a second more for each 64 KiB of it
  double write_seconds = 30;                 // for each 256 KiB of an answer
  double drain_seconds = 30;                 // after stop(), for requests being answered
  int quick_threads = 2, slow_threads = 4;
  size_t max_pending = 2048;                 // requests waiting for a pool
};

struct Handler {
  // On the I/O thread after the header and before the body; an answer refuses the request. Must not block.
  std::function<std::optional<Response>(Request&)> admit;
  // On a pool thread. Must not throw.
  std::function<Response(Request&)> handle;
  // Whether handle() may take long (media, disk): such requests have a pool of their own, so that status calls never wait for them.
  std::function<bool(const Request&)> slow;
  // A refusal by the core itself: 400, 408, 413, 431, 503.
  std::function<Response(int status, const std::string& message)> refuse;
  // Once, when stop() takes effect.
  std::function<void()> draining;
};

struct ServerStats {
  size_t connections = 0, accepted = 0, rejected = 0, timeouts = 0, body_bytes = 0, pending = 0;
};

class Server {
 public:
  // Binds and listens. Errors (kind resource): the address cannot be had.
  Server(const ServerOptions& options, Handler handler);
  ~Server();
  int port() const;
  // Serves until stop() or, with `signals`, SIGINT or SIGTERM; then lets what is being answered end, within drain_seconds.
  void run(bool signals);
  void stop();                               // from any thread
  ServerStats stats() const;                 // from any thread

  struct Impl;                               // in server.cc

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace zt::http

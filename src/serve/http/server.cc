// Written with callbacks and not with coroutines: clang 14, which builds the fuzz targets, has none that libstdc++ 12 accepts.
#include "serve/http/server.h"

#include <utility>   // Boost 1.74's awaitable.hpp forgets it

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <ctime>
#include <deque>
#include <unordered_set>

#include "base/error.h"

namespace zt::http {

namespace net = boost::asio;
namespace beast = boost::beast;
namespace bh = boost::beast::http;
using tcp = net::ip::tcp;
using ErrorCode = boost::system::error_code;

namespace {

constexpr size_t kPiece = 256 << 10;   // of a file read and sent at once
constexpr size_t kBuffer = 128 << 10;  // of a connection's input, the header with it
constexpr int kMaxRequests = 100000;   // of one connection
constexpr auto kLaterTick = std::chrono::milliseconds(25);

std::chrono::milliseconds milliseconds(double seconds) { return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000)); }

std::string http_date() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[64];
  return {text, std::strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &parts)};
}

class Session;

}  // namespace

struct Server::Impl {
  Impl(const ServerOptions& o, Handler h)
      : options(o), handler(std::move(h)), acceptor(io), retry(io), drain_timer(io), quick(static_cast<size_t>(o.quick_threads)),
        slow(static_cast<size_t>(o.slow_threads)) {}

  // Sessions end with whatever holds them last, at the latest with `io`: what they touch then stands above it.
  ServerOptions options;
  Handler handler;
  std::unordered_set<Session*> sessions;   // on the I/O thread only
  std::atomic<bool> draining{false};
  std::atomic<size_t> connections{0}, accepted{0}, rejected{0}, timeouts{0}, body_bytes{0}, pending{0};
  net::io_context io{1};
  tcp::acceptor acceptor;
  net::steady_timer retry, drain_timer;
  net::thread_pool quick, slow;

  void accept();
  void begin_drain();
  void ended(Session* session);
};

namespace {

class Session : public std::enable_shared_from_this<Session> {
 public:
  Session(Server::Impl& server, tcp::socket socket);
  ~Session();
  void start() { read_first_byte(); }
  void drain();   // closes a connection that waits for its next request

 private:
  using Self = std::shared_ptr<Session>;
  const ServerOptions& options() const { return server_.options; }

  void read_first_byte();
  void read_header();
  void on_header(ErrorCode ec, size_t n);
  void read_body();
  void on_read_error(ErrorCode ec);
  void dispatch();
  void answer(Response response, bool body_unread);
  void ask_later();
  void write_header();
  void write_file();
  void step_stream();
  void write_stream(StreamStep step);
  void finish();
  void linger();
  void close();
  void return_body();
  template <class F>
  void on_pool(bool slow, F&& work);

  Server::Impl& server_;
  beast::tcp_stream stream_;
  net::steady_timer timer_;
  beast::flat_buffer buffer_;
  std::optional<bh::request_parser<bh::string_body>> parser_;
  bh::response<bh::string_body> whole_;
  std::optional<bh::response_serializer<bh::string_body>> serializer_;
  Request request_;
  Response response_;
  std::string piece_;
  uint64_t left_ = 0;         // bytes of a stream of known length that were not sent yet
  uint64_t lingered_ = 0;
  size_t reserved_ = 0;       // of the server's budget for bodies
  int requests_ = 0;
  bool idle_ = false, head_ = false, chunked_ = false, close_after_ = false;
};

Session::Session(Server::Impl& server, tcp::socket socket) : server_(server), stream_(std::move(socket)), timer_(server.io), buffer_(kBuffer) {
  ErrorCode ignored;
  stream_.socket().set_option(tcp::no_delay(true), ignored);
  server_.sessions.insert(this);
  ++server_.connections;
}

Session::~Session() {
  return_body();
  server_.ended(this);
}

void Session::return_body() {
  server_.body_bytes -= std::exchange(reserved_, 0);
}

// The last owner of a session must be the I/O thread, so work carries it back there.
template <class F>
void Session::on_pool(bool slow, F&& work) {
  ++server_.pending;
  auto run = [self = shared_from_this(), work = std::forward<F>(work)]() mutable {
    auto done = work();
    --self->server_.pending;
    net::io_context& io = self->server_.io;
    net::post(io, [self = std::move(self), done = std::move(done)]() mutable { done(*self); });
  };
  net::post(slow ? server_.slow : server_.quick, std::move(run));
}

void Session::drain() {
  if (idle_) close();
}

void Session::close() {
  ErrorCode ignored;
  stream_.socket().shutdown(tcp::socket::shutdown_both, ignored);
  stream_.socket().close(ignored);
}

void Session::read_first_byte() {
  if (buffer_.size() > 0) return read_header();   // sent ahead of our answer
  if (server_.draining) return close();
  idle_ = true;
  stream_.expires_after(milliseconds(requests_ == 0 ? options().header_seconds : options().idle_seconds));
  stream_.async_read_some(buffer_.prepare(4096), [self = shared_from_this()](ErrorCode ec, size_t n) {
    self->idle_ = false;
    if (ec) return self->close();
    self->buffer_.commit(n);
    self->read_header();
  });
}

void Session::read_header() {
  parser_.emplace();
  parser_->header_limit(static_cast<uint32_t>(options().header_bytes));
  parser_->body_limit(options().body_bytes);
  stream_.expires_after(milliseconds(options().header_seconds));
  bh::async_read_header(stream_, buffer_, *parser_, [self = shared_from_this()](ErrorCode ec, size_t n) { self->on_header(ec, n); });
}

void Session::on_read_error(ErrorCode ec) {
  auto refuse = [&](int status, const std::string& message) { answer(server_.handler.refuse(status, message), true); };
  if (ec == beast::error::timeout) {
    ++server_.timeouts;   // the stream is closed already; a 408 could only be sent on a socket that still works
    return close();
  }
  if (ec == bh::error::body_limit) return refuse(413, fmt::format("the body is longer than {} bytes", options().body_bytes));
  if (ec == bh::error::header_limit || ec == bh::error::buffer_overflow)
    return refuse(431, fmt::format("the header is longer than {} bytes", options().header_bytes));
  if (ec == bh::error::end_of_stream || ec == bh::error::partial_message || ec.category() != bh::make_error_code(bh::error::bad_method).category())
    return close();
  refuse(400, "not valid HTTP: " + ec.message());
}

void Session::on_header(ErrorCode ec, size_t) {
  if (ec) return on_read_error(ec);
  ++requests_;
  const auto& message = parser_->get();
  request_ = {};
  request_.method = std::string(message.method_string());
  request_.target = std::string(message.target());
  ErrorCode ignored;
  request_.peer = stream_.socket().remote_endpoint(ignored).address().to_string(ignored);
  for (const auto& field : message) {
    std::string name(field.name_string());
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c); });
    request_.headers.emplace_back(std::move(name), std::string(field.value()));
  }
  head_ = request_.method == "HEAD";
  close_after_ = !message.keep_alive() || requests_ >= kMaxRequests;
  chunked_ = message.version() >= 11;
  if (message.version() != 10 && message.version() != 11) return answer(server_.handler.refuse(400, "wanted HTTP/1.1 or HTTP/1.0"), true);
  if (!parse_target(request_)) return answer(server_.handler.refuse(400, "the request target is malformed"), true);
  const bool has_body = !parser_->is_done();
  if (auto refused = server_.handler.admit(request_)) return answer(std::move(*refused), has_body);
  if (!has_body) return dispatch();
  const size_t length = parser_->content_length() ? static_cast<size_t>(*parser_->content_length()) : options().body_bytes;
  if (server_.body_bytes + length > options().body_total_bytes) {
    Response busy = server_.handler.refuse(503, "too many bytes of request bodies are being read; try again");
    return answer(std::move(busy.set("Retry-After", "5")), true);
  }
  server_.body_bytes += length, reserved_ = length;
  const double seconds = options().body_seconds + static_cast<double>(length) / (64 << 10);
  stream_.expires_after(milliseconds(seconds));
  const std::string* expect = request_.header("expect");
  if (!expect || requests_ < 1) return read_body();
  auto go_on = std::make_shared<std::string>("HTTP/1.1 100 Continue\r\n\r\n");
  net::async_write(stream_, net::buffer(*go_on), [self = shared_from_this(), go_on](ErrorCode e, size_t) {
    if (e) return self->close();
    self->read_body();
  });
}

void Session::read_body() {
  bh::async_read(stream_, buffer_, *parser_, [self = shared_from_this()](ErrorCode ec, size_t) {
    if (ec) return self->on_read_error(ec);
    self->request_.body = std::move(self->parser_->get().body());
    self->dispatch();
  });
}

void Session::dispatch() {
  parser_.reset();
  stream_.expires_never();
  if (server_.pending >= options().max_pending) {
    Response busy = server_.handler.refuse(503, "too many requests are waiting; try again");
    return answer(std::move(busy.set("Retry-After", "2")), false);
  }
  on_pool(server_.handler.slow(request_), [this] {
    auto response = std::make_shared<Response>(server_.handler.handle(request_));
    return [response](Session& s) { s.answer(std::move(*response), false); };
  });
}

void Session::ask_later() {
  on_pool(false, [this] {
    auto response = std::make_shared<std::optional<Response>>(response_.later());
    return [response](Session& s) {
      if (*response) return s.answer(std::move(**response), false);
      s.timer_.expires_after(kLaterTick);
      s.timer_.async_wait([self = s.shared_from_this()](ErrorCode) { self->ask_later(); });
    };
  });
}

void Session::answer(Response response, bool body_unread) {
  response_ = std::move(response);
  if (response_.later) return ask_later();
  return_body();
  request_.body = {};
  close_after_ = close_after_ || body_unread || response_.close || server_.draining;
  chunked_ = chunked_ && !response_.length;
  left_ = response_.length.value_or(0);
  if (response_.stream && !response_.length && !chunked_) close_after_ = true;
  whole_ = {};
  whole_.version(11);
  whole_.result(static_cast<unsigned>(response_.status));
  whole_.set(bh::field::server, "zoetrope");
  whole_.set(bh::field::date, http_date());
  for (auto& [name, value] : response_.headers) whole_.insert(name, value);
  whole_.keep_alive(!close_after_);
  const bool bare = response_.status == 204 || response_.status == 304;
  if (response_.stream) {
    if (chunked_) whole_.chunked(true);
    else if (response_.length) whole_.content_length(*response_.length);
  } else if (!bare) {
    whole_.content_length(response_.file ? response_.file->length : response_.body.size());
  }
  if (!head_ && !bare && !response_.file && !response_.stream) whole_.body() = std::move(response_.body);
  serializer_.emplace(whole_);
  write_header();
}

void Session::write_header() {
  stream_.expires_after(milliseconds(options().write_seconds));
  auto then = [self = shared_from_this()](ErrorCode ec, size_t) {
    if (ec) return self->close();
    self->serializer_.reset();
    if (self->head_) return self->finish();
    if (self->response_.stream) return self->step_stream();
    if (self->response_.file) return self->write_file();
    self->finish();
  };
  if (head_ || response_.stream || response_.file) {
    serializer_->split(true);
    return bh::async_write_header(stream_, *serializer_, std::move(then));
  }
  bh::async_write(stream_, *serializer_, std::move(then));
}

void Session::write_file() {
  if (response_.file->length == 0) return finish();
  on_pool(true, [this] {
    FileBody& file = *response_.file;
    piece_.resize(std::min<uint64_t>(kPiece, file.length));
    const ssize_t n = pread(*file.fd, piece_.data(), piece_.size(), static_cast<off_t>(file.offset));
    piece_.resize(n > 0 ? static_cast<size_t>(n) : 0);
    file.offset += piece_.size(), file.length -= piece_.size();
    return [](Session& s) {
      if (s.piece_.empty()) return s.close();   // the file is shorter than when it was opened: a cut answer is seen as one
      s.stream_.expires_after(milliseconds(s.options().write_seconds));
      net::async_write(s.stream_, net::buffer(s.piece_), [self = s.shared_from_this()](ErrorCode ec, size_t) {
        if (ec) return self->close();
        self->write_file();
      });
    };
  });
}

void Session::step_stream() {
  on_pool(response_.slow, [this] {
    auto step = std::make_shared<StreamStep>(response_.stream());
    return [step](Session& s) { s.write_stream(std::move(*step)); };
  });
}

void Session::write_stream(StreamStep step) {
  if (response_.length) {
    left_ -= std::min<uint64_t>(left_, step.bytes.size());
    if (step.done && left_ > 0) return close();   // a cut answer is seen as one
    step.done = left_ == 0;
  } else {
    step.done = step.done || server_.draining;
  }
  auto next = [self = shared_from_this(), done = step.done, wait = step.wait_ms](ErrorCode ec, size_t) {
    if (ec) return self->close();
    if (done) return self->finish();
    self->stream_.expires_never();
    self->timer_.expires_after(std::chrono::milliseconds(wait));
    self->timer_.async_wait([self](ErrorCode) { self->step_stream(); });
  };
  piece_.clear();
  if (!chunked_) {
    piece_ = std::move(step.bytes);
  } else {
    if (!step.bytes.empty()) piece_ = fmt::format("{:x}\r\n", step.bytes.size()) + step.bytes + "\r\n";
    if (step.done) piece_ += "0\r\n\r\n";
  }
  if (piece_.empty()) return next({}, 0);
  stream_.expires_after(milliseconds(options().write_seconds));
  net::async_write(stream_, net::buffer(piece_), std::move(next));
}

void Session::finish() {
  response_ = {};
  whole_ = {};
  piece_ = {};
  if (!close_after_) return read_first_byte();
  ErrorCode ignored;
  stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
  lingered_ = 0;
  stream_.expires_after(std::chrono::seconds(2));
  linger();
}

// What the client still sends is read for a moment: closing at once would reset the connection and lose the answer on its way.
void Session::linger() {
  buffer_.clear();
  stream_.async_read_some(buffer_.prepare(16 << 10), [self = shared_from_this()](ErrorCode ec, size_t n) {
    self->lingered_ += n;
    if (ec || self->lingered_ > (8u << 20)) return self->close();
    self->linger();
  });
}

}  // namespace

void Server::Impl::accept() {
  acceptor.async_accept([this](ErrorCode ec, tcp::socket socket) {
    if (!acceptor.is_open()) return;
    if (ec) {   // out of descriptors, most likely: wait for some to come back
      retry.expires_after(std::chrono::milliseconds(100));
      retry.async_wait([this](ErrorCode e) { if (!e) accept(); });
      return;
    }
    ++accepted;
    if (sessions.size() >= options.max_connections) {
      ++rejected;
      static const std::string busy =
          "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 2\r\nConnection: close\r\nContent-Length: 111\r\n\r\n"
          "{\"error\":{\"message\":\"too many connections\",\"type\":\"server_error\",\"param\":null,\"code\":\"too_many_connections\"}}  \n";
      ErrorCode ignored;
      socket.non_blocking(true, ignored);
      socket.write_some(net::buffer(busy), ignored);
      socket.close(ignored);
    } else {
      std::make_shared<Session>(*this, std::move(socket))->start();
    }
    accept();
  });
}

void Server::Impl::begin_drain() {
  if (draining.exchange(true)) return;
  ErrorCode ignored;
  acceptor.close(ignored);
  retry.cancel();
  handler.draining();
  const std::vector<Session*> open(sessions.begin(), sessions.end());
  for (Session* s : open) s->drain();
  drain_timer.expires_after(milliseconds(options.drain_seconds));
  drain_timer.async_wait([this](ErrorCode ec) { if (!ec) io.stop(); });
}

void Server::Impl::ended(Session* session) {
  sessions.erase(session);
  --connections;
}

Server::Server(const ServerOptions& options, Handler handler) : impl_(std::make_unique<Impl>(options, std::move(handler))) {
  ErrorCode ec;
  tcp::resolver resolver(impl_->io);
  auto found = resolver.resolve(options.host, std::to_string(options.port), tcp::resolver::passive, ec);
  if (ec || found.empty()) fail(ErrorKind::resource, "--host {}: cannot be resolved ({})", options.host, ec.message());
  const tcp::endpoint endpoint = found.begin()->endpoint();
  tcp::acceptor& a = impl_->acceptor;
  a.open(endpoint.protocol(), ec);
  if (!ec) a.set_option(net::socket_base::reuse_address(true), ec);
  if (!ec) a.bind(endpoint, ec);
  if (!ec) a.listen(512, ec);
  if (ec) fail(ErrorKind::resource, "cannot listen on {} port {}: {}; choose another --port", options.host, options.port, ec.message());
}

Server::~Server() {
  impl_->quick.join();
  impl_->slow.join();
  impl_->io.restart();
  impl_->io.poll();   // what came back from the pools gives its session up on this thread
}

int Server::port() const {
  ErrorCode ec;
  return impl_->acceptor.local_endpoint(ec).port();
}

void Server::run(bool signals) {
  net::signal_set set(impl_->io);
  if (signals) {
    set.add(SIGINT);
    set.add(SIGTERM);
    set.async_wait([this, &set](ErrorCode ec, int) {
      if (ec) return;
      impl_->begin_drain();
      set.async_wait([this](ErrorCode e, int) { if (!e) impl_->io.stop(); });   // a second one ends it at once
    });
  }
  impl_->accept();
  auto work = net::make_work_guard(impl_->io);
  while (!impl_->io.stopped()) {
    impl_->io.run_one();
    if (impl_->draining && impl_->sessions.empty()) break;
  }
  ErrorCode ignored;
  set.cancel(ignored);
}

void Server::stop() {
  net::post(impl_->io, [this] { impl_->begin_drain(); });
}

ServerStats Server::stats() const {
  return {impl_->connections, impl_->accepted, impl_->rejected, impl_->timeouts, impl_->body_bytes, impl_->pending};
}

}  // namespace zt::http

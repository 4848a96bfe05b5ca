// The S3 driver: objects under BUCKET/PREFIX, one PUT each or, when large, in parts; read in pieces by range. libcurl signs (SigV4).
#include <fcntl.h>
#include <openssl/evp.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "base/environment.h"
#include "base/error.h"
#include "formats/safetensors.h"
#include "serve/curl_handle.h"
#include "serve/store/result_store.h"

namespace fs = std::filesystem;

namespace zt {

namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t kLargestPut = uint64_t{64} << 20;  // bytes in one PUT; larger files go in parts, so that a broken connection costs a part
constexpr uint64_t kPart = uint64_t{16} << 20;        // bytes; S3 takes 5 MiB to 5 GiB, and
constexpr uint64_t kMostParts = 10000;
constexpr size_t kPiece = size_t{1} << 20;            // bytes read at once
constexpr size_t kLargestPage = size_t{4} << 20;      // bytes of an answer in XML: a list of 1,000 objects has some 400 KB
constexpr int kKeepTries = 6, kReadTries = 3;         // pauses of 0.2, 0.4, ... s lie between


struct Place {
  std::string url;       // of the bucket, without a slash at its end
  std::string prefix;    // of names; "" or ends in a slash
};

bool only(std::string_view text, std::string_view more) {
  return std::all_of(text.begin(), text.end(), [&](unsigned char c) { return (c < 128 && std::isalnum(c)) || more.find(static_cast<char>(c)) != more.npos; });
}

// Names are made of characters that no layer encodes, so that what is signed is what is sent.
Place read_place(const std::string& url, const AwsEnvironment& aws) {
  const std::string rest = url.substr(5), bucket = rest.substr(0, rest.find('/'));
  std::string prefix = rest.size() > bucket.size() ? rest.substr(bucket.size() + 1) : "";
  while (!prefix.empty() && prefix.back() == '/') prefix.pop_back();
  if (bucket.size() < 3 || bucket.size() > 63 || !only(bucket, ".-_"))
    fail(ErrorKind::request, "--results {}: wanted a bucket's name of 3 to 63 letters, digits, . or -", url);
  if (!only(prefix, "._-/") || prefix.starts_with("/") || prefix.find("//") != prefix.npos || prefix.size() > 500 || ("/" + prefix + "/").find("/.") != prefix.npos)
    fail(ErrorKind::request, "--results {}: wanted a prefix of letters, digits, . _ - and single slashes, no part of which begins with a dot", url);
  Place place;
  place.prefix = prefix.empty() ? "" : prefix + "/";
  std::string endpoint = aws.endpoint;
  while (!endpoint.empty() && endpoint.back() == '/') endpoint.pop_back();
  if (endpoint.empty()) {
    const bool dotted = bucket.find('.') != bucket.npos;   // no certificate of *.s3... covers it
    place.url = dotted ? fmt::format("https://s3.{}.amazonaws.com/{}", aws.region, bucket) : fmt::format("https://{}.s3.{}.amazonaws.com", bucket, aws.region);
  } else {
    if ((!endpoint.starts_with("https://") && !endpoint.starts_with("http://")) || endpoint.find_first_of("?#@ ") != endpoint.npos)
      fail(ErrorKind::request, "AWS_ENDPOINT_URL is no address of a store; wanted https://HOST[:PORT] or http://HOST[:PORT]");
    place.url = endpoint + "/" + bucket;
  }
  return place;
}

// The text of the first <tag> after `at`, which moves behind it; nullopt if there is none.
std::optional<std::string> element(const std::string& xml, const std::string& tag, size_t& at) {
  const size_t open = xml.find("<" + tag + ">", at), close = open == xml.npos ? open : xml.find("</" + tag + ">", open);
  if (close == xml.npos) return std::nullopt;
  at = close;
  const size_t start = open + tag.size() + 2;
  return xml.substr(start, close - start);
}

std::string first_element(const std::string& xml, const std::string& tag) {
  size_t at = 0;
  return element(xml, tag, at).value_or("");
}

std::string encoded(const std::string& text) {   // as SigV4 wants a query
  std::string out;
  for (const unsigned char c : text) out += only(std::string(1, static_cast<char>(c)), "._-~") ? std::string(1, static_cast<char>(c)) : fmt::format("%{:02X}", c);
  return out;
}

struct Call {
  const char* method = "GET";
  std::string name = {};                     // of the object below the prefix; "": the bucket
  std::string query = {}, range = {};
  std::string path = {}, type = {}, sha256 = {};   // PUT: of this file, or nothing
  uint64_t offset = 0, bytes = UINT64_MAX;   // of it, at most
  std::string body = {};                     // POST
  size_t limit = kLargestPage;               // bytes of the answer
  int tries = kReadTries;
  const std::atomic<bool>* cancel = nullptr;
};

struct Answer {
  long status = 0;
  std::string body;
  uint64_t length = 0;                       // Content-Length, where it was told
  std::string etag = {};
};

struct Transfer {
  std::string body, etag;
  size_t limit = 0;
  int fd = -1;
  uint64_t offset = 0, bytes = 0, sent = 0;  // of the file
  const std::atomic<bool>* cancel = nullptr;
  ~Transfer() {
    if (fd >= 0) close(fd);
  }
};

size_t take(char* data, size_t size, size_t count, void* user) {
  Transfer& t = *static_cast<Transfer*>(user);
  if (t.body.size() + size * count > t.limit) return 0;
  t.body.append(data, size * count);
  return size * count;
}

size_t heed_header(char* data, size_t size, size_t count, void* user) {
  const std::string_view line(data, size * count);
  constexpr std::string_view name = "etag:";
  const auto same = [](char a, char b) { return std::tolower(static_cast<unsigned char>(a)) == b; };
  if (line.size() > name.size() && line.size() < 200 && std::equal(name.begin(), name.end(), line.begin(), [&](char a, char b) { return same(b, a); })) {
    const size_t from = line.find_first_not_of(" \t", name.size()), to = line.find_last_not_of(" \t\r\n");
    if (from != line.npos && to >= from) static_cast<Transfer*>(user)->etag = line.substr(from, to - from + 1);
  }
  return line.size();
}

size_t give(char* data, size_t size, size_t count, void* user) {
  Transfer& t = *static_cast<Transfer*>(user);
  const ssize_t n = pread(t.fd, data, std::min<uint64_t>(size * count, t.bytes - t.sent), static_cast<off_t>(t.offset + t.sent));
  if (n < 0) return CURL_READFUNC_ABORT;
  t.sent += static_cast<uint64_t>(n);
  return static_cast<size_t>(n);
}

int rewind_file(void* user, curl_off_t offset, int origin) {
  Transfer& t = *static_cast<Transfer*>(user);
  if (origin != SEEK_SET || offset < 0 || static_cast<uint64_t>(offset) > t.bytes) return CURL_SEEKFUNC_FAIL;
  t.sent = static_cast<uint64_t>(offset);
  return CURL_SEEKFUNC_OK;
}

int heed_cancel(void* user, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  const auto* cancel = static_cast<Transfer*>(user)->cancel;
  return cancel && cancel->load() ? 1 : 0;
}

struct Stopped {};   // `cancel` was set

struct DropDigest {
  void operator()(EVP_MD_CTX* c) const { EVP_MD_CTX_free(c); }
};

class Sha256 {
 public:
  Sha256() { EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr); }
  void add(const void* data, size_t bytes) { EVP_DigestUpdate(context_.get(), data, bytes); }
  void add(const std::string& text) { add(text.data(), text.size()); }
  std::string hex() {
    unsigned char digest[32];
    EVP_DigestFinal_ex(context_.get(), digest, nullptr);
    std::string out;
    for (const unsigned char c : digest) out += fmt::format("{:02x}", c);
    return out;
  }

 private:
  std::unique_ptr<EVP_MD_CTX, DropDigest> context_{EVP_MD_CTX_new()};
};

class S3Results final : public ResultStore {
 public:
  S3Results(Place place, AwsEnvironment aws, std::string data)
      : place_(std::move(place)), aws_(std::move(aws)), data_(std::move(data)), signing_("aws:amz:" + aws_.region + ":s3") {}

  bool remote() const override { return true; }

  bool keep(const std::string& name, const std::string& type, const std::string& sha256, const std::atomic<bool>* cancel) override {
    Call call{"PUT", name};
    call.path = data_ + "/" + name, call.type = type, call.sha256 = sha256, call.tries = kKeepTries, call.cancel = cancel;
    try {
      std::error_code ec;
      const uint64_t bytes = fs::file_size(call.path, ec);
      if (!ec && bytes > kLargestPut) keep_in_parts(call, bytes);
      else expect(call, perform(call), 200);
      return true;
    } catch (const Stopped&) {
      return false;
    }
  }

  std::optional<KeptFile> open(const std::string& name) override {
    const Call call{"HEAD", name};
    const Answer a = perform(call);
    if (a.status == 404) return std::nullopt;
    expect(call, a, 200);
    KeptFile out;
    out.bytes = a.length;
    out.read = [this, name](uint64_t offset, size_t bytes) { return piece(name, offset, bytes); };
    return out;
  }

  bool fetch(const std::string& name, const std::string& path) override {
    const auto kept = open(name);
    if (!kept) return false;
    const std::string part = path + ".part";
    std::error_code ec;
    fs::create_directories(fs::path(path).parent_path(), ec);
    struct File {
      const std::string& part;
      int fd;
      ~File() {
        if (fd >= 0) close(fd);
        unlink(part.c_str());   // nothing once it has its name
      }
    } file{part, ::open(part.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644)};
    auto written = [&](bool ok) {
      if (!ok) fail(ErrorKind::resource, "the data folder cannot be written: {}", std::strerror(errno));
    };
    written(file.fd >= 0);
    for (uint64_t at = 0; at < kept->bytes;) {
      const std::string bytes = piece(name, at, std::min<uint64_t>(kPiece, kept->bytes - at));
      written(write(file.fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
      at += bytes.size();
    }
    written(fsync(file.fd) == 0 && rename(part.c_str(), path.c_str()) == 0);
    return true;
  }

  void forget(const std::string& name, const std::string& except) override {
    each(name + "/", [&](const std::string& found, time_t) {
      if (except.empty() || !found.starts_with(name + "/" + except + "/")) remove(found);
    });
  }

  void sweep(const std::function<bool(const std::string&, const std::string&)>& wanted) override {
    const time_t old = std::time(nullptr) - 3600;
    each("jobs/", [&](const std::string& found, time_t changed) {
      const fs::path path(found);
      auto part = path.begin();
      if (changed > old || std::distance(path.begin(), path.end()) != 4) return;
      const std::string job = *std::next(part), run = *std::next(part, 2);
      if (!wanted(job, run)) remove(found);
    });
    sweep_uploads();
  }

  std::string problem() override {
    const std::unique_lock asking(asking_mutex_, std::try_to_lock);   // one asks, and the others hear what was last known
    {
      const std::lock_guard lock(problem_mutex_);
      if (!asking || Clock::now() < ask_again_) return problem_;
    }
    const std::string found = ask();
    const std::lock_guard lock(problem_mutex_);
    problem_ = found, ask_again_ = Clock::now() + std::chrono::seconds(3);
    return problem_;
  }

 private:
  // An upload in parts that is not finished takes room in the store and is seen in no list of objects: it is given up unless it came to its end.
  class Upload {
   public:
    Upload(S3Results& store, const Call& whole) : store_(store), name_(whole.name) {
      Call call{"POST", name_, "uploads="};
      call.type = whole.type, call.tries = kKeepTries, call.cancel = whole.cancel;
      const Answer a = store_.perform(call);
      store_.expect(call, a, 200);
      id_ = first_element(a.body, "UploadId");
      if (id_.empty()) fail(ErrorKind::resource, "the store of results began {} in parts, but names no upload", name_);
    }
    ~Upload() {
      if (done_) return;
      try {
        store_.give_up(name_, id_);
      } catch (const std::exception&) {   // the store is away: the sweep finds it
      } catch (const Stopped&) {
      }
    }
    Upload(const Upload&) = delete;
    Upload& operator=(const Upload&) = delete;
    std::string query() const { return "uploadId=" + encoded(id_); }
    void done() { done_ = true; }

   private:
    S3Results& store_;
    const std::string name_;
    std::string id_;
    bool done_ = false;
  };

  void give_up(const std::string& name, const std::string& id) {
    const Call call{"DELETE", name, "uploadId=" + encoded(id)};
    const Answer a = perform(call);
    if (a.status != 404) expect(call, a, 204);
  }

  void keep_in_parts(const Call& whole, uint64_t bytes) {
    const uint64_t part = std::max(kPart, (bytes + kMostParts - 1) / kMostParts);
    Upload upload(*this, whole);
    std::string parts;
    Sha256 all;
    for (uint64_t at = 0; at < bytes; at += part) {
      Call call{"PUT", whole.name};
      const uint64_t number = at / part + 1;
      call.query = fmt::format("partNumber={}&{}", number, upload.query());
      call.path = whole.path, call.offset = at, call.bytes = std::min(part, bytes - at), call.tries = kKeepTries, call.cancel = whole.cancel;
      call.sha256 = hash(call, all);
      const Answer a = perform(call);
      expect(call, a, 200);
      if (a.etag.empty()) fail(ErrorKind::resource, "the store of results took part {} of {}, but gave it no ETag", number, whole.name);
      parts += fmt::format("<Part><PartNumber>{}</PartNumber><ETag>{}</ETag></Part>", number, a.etag);
    }
    if (all.hex() != whole.sha256) fail(ErrorKind::resource, "{}: is not the file that was made; is something writing to the data folder?", whole.name);
    Call end{"POST", whole.name, upload.query()};
    end.body = "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">" + parts + "</CompleteMultipartUpload>";
    end.type = "application/xml", end.tries = kKeepTries, end.cancel = whole.cancel;
    const Answer a = perform(end);
    if (a.status == 404) {   // ended by an earlier try whose answer was lost?
      const auto kept = open(whole.name);
      if (kept && kept->bytes == bytes) return upload.done();
    }
    expect(end, a, 200);
    if (first_element(a.body, "ETag").empty())   // an error may follow a status of 200
      fail(ErrorKind::resource, "the store of results did not put {} together: {}", whole.name, first_element(a.body, "Code").substr(0, 60));
    upload.done();
  }

  // SHA-256 of the part of the file that a call sends; `all` is given the same bytes.
  static std::string hash(const Call& call, Sha256& all) {
    Transfer t;
    t.fd = ::open(call.path.c_str(), O_RDONLY | O_CLOEXEC);
    std::string piece;
    Sha256 part;
    for (uint64_t at = 0; at < call.bytes; at += piece.size()) {
      piece.resize(std::min<uint64_t>(kPiece, call.bytes - at));
      const ssize_t n = pread(t.fd, piece.data(), piece.size(), static_cast<off_t>(call.offset + at));
      if (n != static_cast<ssize_t>(piece.size())) fail(ErrorKind::resource, "{}: cannot be read: {}", call.path, n < 0 ? std::strerror(errno) : "it became shorter");
      part.add(piece), all.add(piece);
    }
    return part.hex();
  }

  // Uploads that a killed process began. A store that has no such list has its own rules for them.
  void sweep_uploads() {
    Call call;
    call.query = "prefix=" + encoded(place_.prefix + "jobs/") + "&uploads=";
    const Answer a = perform(call);
    if (a.status != 200) return;
    const time_t old = std::time(nullptr) - 24 * 3600;   // no file takes that long
    size_t at = 0;
    while (auto item = element(a.body, "Upload", at)) {
      const std::string key = first_element(*item, "Key"), id = first_element(*item, "UploadId");
      std::tm parts{};
      const bool dated = strptime(first_element(*item, "Initiated").c_str(), "%Y-%m-%dT%H:%M:%S", &parts) != nullptr;
      if (dated && timegm(&parts) < old && key.starts_with(place_.prefix) && !id.empty()) give_up(key.substr(place_.prefix.size()), id);
    }
  }

  // Reads a mark, and makes it where there is none: that asks for everything at once, the network, the bucket and the rights.
  std::string ask() {
    try {
      Call call{"GET", "zoetrope-store"};
      call.tries = 1;
      Answer a = perform(call);
      if (a.status != 200) call.method = "PUT", a = perform(call);
      expect(call, a, 200);
      return "";
    } catch (const Error& e) {
      return e.what();
    }
  }

  std::string piece(const std::string& name, uint64_t offset, size_t bytes) {
    Call call{"GET", name};
    call.range = fmt::format("{}-{}", offset, offset + bytes - 1), call.limit = std::max(bytes, size_t{64} << 10);
    const Answer a = perform(call);
    if (a.status == 404) fail(ErrorKind::resource, "{}: is gone from the store of results", name);
    expect(call, a, 206);
    if (a.body.size() != bytes) fail(ErrorKind::resource, "{}: the store of results gave {} bytes, wanted {}", name, a.body.size(), bytes);
    return a.body;
  }

  void remove(const std::string& name) {
    const Call call{"DELETE", name};
    const Answer a = perform(call);
    if (a.status != 404) expect(call, a, 204);
  }

  // Every object below the prefix and `start`: its name without the prefix, and when it was last changed.
  void each(const std::string& start, const std::function<void(const std::string&, time_t)>& call_back) {
    std::string next;
    do {
      Call call;
      call.query = "list-type=2&prefix=" + encoded(place_.prefix + start);
      if (!next.empty()) call.query = "continuation-token=" + encoded(next) + "&" + call.query;   // in order, as they are signed
      const Answer a = perform(call);
      expect(call, a, 200);
      size_t at = 0;
      while (auto item = element(a.body, "Contents", at)) {
        std::string key = first_element(*item, "Key");
        std::tm parts{};
        const bool dated = strptime(first_element(*item, "LastModified").c_str(), "%Y-%m-%dT%H:%M:%S", &parts) != nullptr;
        if (dated && key.starts_with(place_.prefix)) call_back(key.substr(place_.prefix.size()), timegm(&parts));
      }
      next = first_element(a.body, "IsTruncated") == "true" ? first_element(a.body, "NextContinuationToken") : "";
    } while (!next.empty());
  }

  void expect(const Call& call, const Answer& a, long status) const {
    if (a.status == status || (status == 206 && a.status == 200) || (status == 204 && a.status == 200)) return;
    const std::string code = first_element(a.body, "Code");
    fail(ErrorKind::resource, "the store of results answers {} {} with {}{}; {}", call.method, call.name.empty() ? "the list" : call.name, a.status,
         code.empty() || !only(code, "") ? "" : " " + code.substr(0, 60),
         a.status == 404 ? "make the bucket" : a.status == 403 || a.status == 401 ? "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and the rights of the key"
                                                                                  : "check AWS_REGION and AWS_ENDPOINT_URL");
  }

  // Until there is an answer that trying again will not change. Errors (resource): none after all tries. Throws Stopped.
  Answer perform(const Call& call) {
    std::string why;
    for (int at = 0; at < call.tries; ++at) {
      if (at > 0) pause(at, call.cancel);
      Answer a;
      why = once(call, a);
      const std::string code = a.status >= 500 ? "" : first_element(a.body, "Code");
      const bool passing = a.status >= 500 || a.status == 429 || a.status == 408 || code == "RequestTimeout" ||
                           (code == "InternalError" && std::strcmp(call.method, "POST") == 0);   // it may come with 200
      if (why.empty() && !passing) return a;
      if (why.empty()) why = fmt::format("it answers {}", a.status);
    }
    fail(ErrorKind::resource, "the store of results cannot be used ({} {}): {}", call.method, call.name.empty() ? "the list" : call.name, why);
  }

  static void pause(int tries, const std::atomic<bool>* cancel) {
    thread_local std::minstd_rand dice{std::random_device{}()};
    const double seconds = 0.1 * (1 << tries) * (1 + 0.25 * std::uniform_real_distribution<double>()(dice));
    for (const auto end = Clock::now() + std::chrono::duration<double>(seconds); Clock::now() < end;) {
      if (cancel && cancel->load()) throw Stopped();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }

  // One exchange; why it did not come about, or "".
  std::string once(const Call& call, Answer& a) {
    Transfer t;
    t.limit = call.limit, t.cancel = call.cancel;
    uint64_t bytes = 0;
    const bool put = std::strcmp(call.method, "PUT") == 0;
    std::vector<std::string> headers;
    if (!call.path.empty()) {
      t.fd = ::open(call.path.c_str(), O_RDONLY | O_CLOEXEC);
      const off_t end = t.fd < 0 ? -1 : lseek(t.fd, 0, SEEK_END);
      if (end < 0) fail(ErrorKind::resource, "{}: cannot be read: {}", call.path, std::strerror(errno));
      t.offset = std::min(call.offset, static_cast<uint64_t>(end));
      bytes = t.bytes = std::min(call.bytes, static_cast<uint64_t>(end) - t.offset);
    }
    if (!call.type.empty()) headers.push_back("Content-Type: " + call.type);
    headers.push_back("x-amz-content-sha256: " + (call.path.empty() ? sha256(call.body) : call.sha256));   // S3 wants it, and checks the bytes against it
    if (!aws_.session_token.empty()) headers.push_back("x-amz-security-token: " + aws_.session_token);
    const CurlList list = curl_list(headers);
    CurlHandle curl = borrow();
    auto set = [&](auto option, auto value) { curl_easy_setopt(curl.get(), option, value); };
    const std::string url = place_.url + (call.name.empty() ? "/" : "/" + place_.prefix + call.name) + (call.query.empty() ? "" : "?" + call.query);
    char text[CURL_ERROR_SIZE] = "";
    set(CURLOPT_URL, url.c_str());
    set(CURLOPT_PROTOCOLS_STR, "http,https");
    set(CURLOPT_PATH_AS_IS, 1L);
    set(CURLOPT_PROXY, "");
    set(CURLOPT_NETRC, static_cast<long>(CURL_NETRC_IGNORED));
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_CONNECTTIMEOUT, 5L);
    set(CURLOPT_LOW_SPEED_LIMIT, 1024L);     // slower than that for so long: as good as dead
    set(CURLOPT_LOW_SPEED_TIME, 10L);
    set(CURLOPT_EXPECT_100_TIMEOUT_MS, 200L);
    set(CURLOPT_USERAGENT, "zoetrope");
    set(CURLOPT_ERRORBUFFER, static_cast<char*>(text));
    set(CURLOPT_AWS_SIGV4, signing_.c_str());
    set(CURLOPT_USERNAME, aws_.access_key.c_str());
    set(CURLOPT_PASSWORD, aws_.secret_key.c_str());
    if (list) set(CURLOPT_HTTPHEADER, list.get());
    set(CURLOPT_WRITEFUNCTION, take);
    set(CURLOPT_WRITEDATA, static_cast<void*>(&t));
    set(CURLOPT_HEADERFUNCTION, heed_header);
    set(CURLOPT_HEADERDATA, static_cast<void*>(&t));
    set(CURLOPT_NOPROGRESS, 0L);
    set(CURLOPT_XFERINFOFUNCTION, heed_cancel);
    set(CURLOPT_XFERINFODATA, static_cast<void*>(&t));
    if (!call.range.empty()) set(CURLOPT_RANGE, call.range.c_str());
    if (put && !call.path.empty()) {
      set(CURLOPT_UPLOAD, 1L);
      set(CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(bytes));
      set(CURLOPT_READFUNCTION, give);
      set(CURLOPT_READDATA, static_cast<void*>(&t));
      set(CURLOPT_SEEKFUNCTION, rewind_file);
      set(CURLOPT_SEEKDATA, static_cast<void*>(&t));
    } else if (put) {
      set(CURLOPT_POSTFIELDS, "");
      set(CURLOPT_POSTFIELDSIZE, 0L);
      set(CURLOPT_CUSTOMREQUEST, "PUT");
    } else if (std::strcmp(call.method, "POST") == 0) {
      set(CURLOPT_POSTFIELDS, call.body.c_str());
      set(CURLOPT_POSTFIELDSIZE, static_cast<long>(call.body.size()));
    } else if (std::strcmp(call.method, "HEAD") == 0) {
      set(CURLOPT_NOBODY, 1L);
    } else if (std::strcmp(call.method, "GET") != 0) {
      set(CURLOPT_CUSTOMREQUEST, call.method);
    }
    const CURLcode code = curl_easy_perform(curl.get());
    curl_off_t length = -1;
    curl_easy_getinfo(curl.get(), CURLINFO_RESPONSE_CODE, &a.status);
    curl_easy_getinfo(curl.get(), CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
    a.length = length > 0 ? static_cast<uint64_t>(length) : 0;
    a.body = std::move(t.body), a.etag = std::move(t.etag);
    give_back(std::move(curl));
    if (code == CURLE_ABORTED_BY_CALLBACK && call.cancel && call.cancel->load()) throw Stopped();
    return code == CURLE_OK ? "" : *text ? text : curl_easy_strerror(code);
  }

  // Handles keep their connections; as many are kept as were in use at once, up to eight.
  CurlHandle borrow() {
    const std::lock_guard lock(idle_mutex_);
    if (idle_.empty()) return new_curl_handle();
    CurlHandle curl = std::move(idle_.back());
    idle_.pop_back();
    return curl;
  }
  void give_back(CurlHandle curl) {
    curl_easy_reset(curl.get());
    const std::lock_guard lock(idle_mutex_);
    if (idle_.size() < 8) idle_.push_back(std::move(curl));
  }

  const Place place_;
  const AwsEnvironment aws_;
  const std::string data_, signing_;
  std::mutex idle_mutex_, asking_mutex_, problem_mutex_;
  std::vector<CurlHandle> idle_;
  std::string problem_;
  Clock::time_point ask_again_{};
};

}  // namespace

std::unique_ptr<ResultStore> open_s3_results(const std::string& url, const std::string& data) {
  AwsEnvironment aws = aws_environment();
  if (aws.access_key.empty() || aws.secret_key.empty())
    fail(ErrorKind::request, "--results {}: there are no credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY", url);
  if (aws.region.empty()) aws.region = "us-east-1";
  if (!only(aws.region, "-")) fail(ErrorKind::request, "AWS_REGION holds something else than letters, digits and -");
  Place place = read_place(url, aws);
  return std::make_unique<S3Results>(std::move(place), std::move(aws), data);
}

}  // namespace zt

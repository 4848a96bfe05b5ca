#include "serve/http/url_fetch.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstring>

#include "base/error.h"
#include "serve/curl_handle.h"

namespace zt::http {

namespace {

struct Range4 {
  uint32_t net;
  int bits;
};

// IANA's special-purpose registry of IPv4 (RFC 6890 and later), with multicast and the reserved end.
constexpr Range4 kSpecial4[] = {{0x00000000, 8},  {0x0A000000, 8},  {0x64400000, 10}, {0x7F000000, 8},  {0xA9FE0000, 16}, {0xAC100000, 12}, {0xC0000000, 24},
                                {0xC0000200, 24}, {0xC0586300, 24}, {0xC0A80000, 16}, {0xC6120000, 15}, {0xC6336400, 24}, {0xCB007100, 24}, {0xE0000000, 3}};

bool is_public4(uint32_t ip) {
  for (const Range4& r : kSpecial4)
    if (ip >> (32 - r.bits) == r.net >> (32 - r.bits)) return false;
  return true;
}

bool is_public6(const std::array<uint8_t, 16>& b) {
  const auto embedded = [&](size_t at) { return uint32_t{b[at]} << 24 | uint32_t{b[at + 1]} << 16 | uint32_t{b[at + 2]} << 8 | b[at + 3]; };
  if (b[0] == 0x00 && b[1] == 0x64 && b[2] == 0xFF && b[3] == 0x9B) return false;            // 64:ff9b::/32, translated IPv4
  if (b[0] == 0x20 && b[1] == 0x02) return is_public4(embedded(2));                          // 6to4
  if ((b[0] & 0xE0) != 0x20) return false;                                                   // only 2000::/3 is global unicast
  if (b[0] == 0x20 && b[1] == 0x01 && (b[2] & 0xFE) == 0) return false;                      // 2001::/23, protocol assignments, Teredo
  if (b[0] == 0x20 && b[1] == 0x01 && b[2] == 0x0D && b[3] == 0xB8) return false;            // documentation
  if (b[0] == 0x3F && b[1] == 0xFF && (b[2] & 0xF0) == 0) return false;                      // documentation, RFC 9637
  return true;
}

struct Fetch {
  std::string body;
  size_t limit;
  bool too_large = false, refused = false;
};

size_t on_data(char* data, size_t size, size_t count, void* user) {
  Fetch& f = *static_cast<Fetch*>(user);
  const size_t n = size * count;
  if (f.body.size() + n > f.limit) return f.too_large = true, 0;
  f.body.append(data, n);
  return n;
}

curl_socket_t open_socket(void* user, curlsocktype, curl_sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = "";
  const sockaddr* a = &address->addr;
  if (a->sa_family == AF_INET) inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(a)->sin_addr, text, sizeof text);
  if (a->sa_family == AF_INET6) inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(a)->sin6_addr, text, sizeof text);
  if (!is_public_address(text)) {
    static_cast<Fetch*>(user)->refused = true;
    return CURL_SOCKET_BAD;
  }
  return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

}  // namespace

bool is_public_address(const std::string& text) {
  in_addr v4{};
  if (inet_pton(AF_INET, text.c_str(), &v4) == 1) return is_public4(ntohl(v4.s_addr));
  std::array<uint8_t, 16> v6{};
  return inet_pton(AF_INET6, text.c_str(), v6.data()) == 1 && is_public6(v6);
}

std::string fetch_url(const std::string& url, const FetchLimits& limits) {
  const CurlHandle curl = new_curl_handle();
  Fetch f{{}, limits.bytes};
  char why[CURL_ERROR_SIZE] = "";
  auto set = [&](auto option, auto value) { curl_easy_setopt(curl.get(), option, value); };
  set(CURLOPT_URL, url.c_str());
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
  set(CURLOPT_FOLLOWLOCATION, 1L);
  set(CURLOPT_MAXREDIRS, limits.redirects);
  set(CURLOPT_PROXY, "");
  set(CURLOPT_NETRC, static_cast<long>(CURL_NETRC_IGNORED));
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_TIMEOUT, limits.seconds);
  set(CURLOPT_CONNECTTIMEOUT, 10L);
  set(CURLOPT_MAXFILESIZE_LARGE, static_cast<curl_off_t>(limits.bytes));
  set(CURLOPT_FRESH_CONNECT, 1L);
  set(CURLOPT_USERAGENT, "zoetrope");
  set(CURLOPT_ERRORBUFFER, static_cast<char*>(why));
  set(CURLOPT_WRITEFUNCTION, on_data);
  set(CURLOPT_WRITEDATA, static_cast<void*>(&f));
  set(CURLOPT_OPENSOCKETFUNCTION, open_socket);
  set(CURLOPT_OPENSOCKETDATA, static_cast<void*>(&f));
  const CURLcode code = curl_easy_perform(curl.get());
  if (f.refused && code != CURLE_OK) fail(ErrorKind::request, "the URL leads to an address that is not public; send the file or a data: URI");
  if (f.too_large || code == CURLE_FILESIZE_EXCEEDED) fail(ErrorKind::request, "the URL gives more than {} bytes", limits.bytes);
  if (code != CURLE_OK) fail(ErrorKind::request, "the URL could not be fetched: {}", *why ? why : curl_easy_strerror(code));
  long status = 0;
  curl_easy_getinfo(curl.get(), CURLINFO_RESPONSE_CODE, &status);
  if (status != 200) fail(ErrorKind::request, "the URL answered with status {}, wanted 200", status);
  return std::move(f.body);
}

long post_url(const std::string& url, const std::string& body, const std::vector<std::string>& headers, long seconds) {
  const CurlHandle curl = new_curl_handle();
  Fetch f{{}, 64 << 10};
  const CurlList list = curl_list(headers);
  auto set = [&](auto option, auto value) { curl_easy_setopt(curl.get(), option, value); };
  set(CURLOPT_URL, url.c_str());
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_PROXY, "");
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_TIMEOUT, seconds);
  set(CURLOPT_USERAGENT, "zoetrope");
  set(CURLOPT_HTTPHEADER, list.get());
  set(CURLOPT_POSTFIELDSIZE, static_cast<long>(body.size()));
  set(CURLOPT_POSTFIELDS, body.c_str());
  set(CURLOPT_WRITEFUNCTION, on_data);
  set(CURLOPT_WRITEDATA, static_cast<void*>(&f));
  const CURLcode code = curl_easy_perform(curl.get());
  if (code != CURLE_OK) fail(ErrorKind::request, "the URL could not be reached: {}", curl_easy_strerror(code));
  long status = 0;
  curl_easy_getinfo(curl.get(), CURLINFO_RESPONSE_CODE, &status);
  return status;
}

}  // namespace zt::http

#pragma once
// Fetches a medium from an http(s) address that a client names, without becoming that client's hand in private networks.
#include <cstddef>
#include <string>
#include <vector>

namespace zt::http {

struct FetchLimits {
  size_t bytes = size_t{64} << 20;
  long seconds = 30;
  long redirects = 3;
};

// Whether an address (IPv4 or IPv6 as text) may be spoken to: public unicast alone; no private, loopback, link-local, multicast,
// documentation or translated-private address.
bool is_public_address(const std::string& address);

// The body of a 200 answer. The address is judged at the moment of each connection, so redirects and names that change what they resolve to
// change nothing. No proxy, cookie, credential or other scheme. Errors (kind request): refused, unreachable, too large, too slow, not 200.
std::string fetch_url(const std::string& url, const FetchLimits& limits);

// Posts to an address that the operator allowed; the status of the answer. No redirect is followed. Errors (kind request): unreachable.
long post_url(const std::string& url, const std::string& body, const std::vector<std::string>& headers, long seconds = 10);

}  // namespace zt::http

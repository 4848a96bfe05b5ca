#include "serve/http/pages.h"

namespace zt::http {

namespace {

// Scripts, styles and requests of this server alone; blobs are pictures and videos that the page itself holds.
constexpr const char* kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; media-src 'self' blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

}  // namespace

const Page* find_page(std::string_view path) {
  if (path == "/") path = "/index.html";
  for (const Page& page : pages())
    if (path == page.path) return &page;
  return nullptr;
}

Response page_response(const Request& request, const Page& page) {
  Response out;
  out.set("ETag", page.tag).set("Cache-Control", "no-cache").set("Content-Security-Policy", kPolicy);
  out.set("Referrer-Policy", "no-referrer").set("Cross-Origin-Opener-Policy", "same-origin").set("Cross-Origin-Resource-Policy", "same-origin");
  if (const std::string* known = request.header("if-none-match"); known && known->find(page.tag) != std::string::npos) {
    out.status = 304;
    return out;
  }
  out.set("Content-Type", page.type);
  out.body = page.bytes;
  return out;
}

}  // namespace zt::http

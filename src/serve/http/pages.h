#pragma once
// The studio: the files of studio/, embedded when the program is built.
#include <string_view>
#include <vector>

#include "serve/http/message.h"

namespace zt::http {

struct Page {
  const char *path, *type, *tag;   // "/app.js", media type, quoted entity tag
  std::string_view bytes;
};
const std::vector<Page>& pages();

// The page at a path, "/" being the first one; null if there is none.
const Page* find_page(std::string_view path);
// The page with its type, tag and the policy under which a browser runs it; 304 if the client has it already.
Response page_response(const Request& request, const Page& page);

}  // namespace zt::http

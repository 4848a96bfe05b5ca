#include "serve/curl_handle.h"

#include <mutex>

#include "base/error.h"

namespace zt {

CurlHandle new_curl_handle() {
  static std::once_flag once;
  std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
  CurlHandle curl(curl_easy_init(), curl_easy_cleanup);
  if (!curl) fail(ErrorKind::resource, "no memory to speak to a URL");
  return curl;
}

CurlList curl_list(const std::vector<std::string>& lines) {
  CurlList list(nullptr, curl_slist_free_all);
  for (const std::string& line : lines) {
    curl_slist* longer = curl_slist_append(list.get(), line.c_str());
    if (!longer) fail(ErrorKind::resource, "no memory to speak to a URL");
    list.release(), list.reset(longer);
  }
  return list;
}

}  // namespace zt

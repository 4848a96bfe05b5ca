#pragma once
// libcurl's handles with owners.
#include <curl/curl.h>

#include <memory>
#include <string>
#include <vector>

namespace zt {

using CurlHandle = std::unique_ptr<CURL, void (*)(CURL*)>;
using CurlList = std::unique_ptr<curl_slist, void (*)(curl_slist*)>;

CurlHandle new_curl_handle();                                    // errors (resource): no memory
CurlList curl_list(const std::vector<std::string>& lines);       // errors (resource): no memory

}  // namespace zt

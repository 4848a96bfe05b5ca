// The path of a request body: content type, JSON, form or multipart, the fields, data: URIs. The first byte chooses the content type.
#include "serve/http/errors.h"
#include "serve/http/fields.h"
#include "serve/http/multipart.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace zt;
  if (size == 0) return 0;
  static const char* const kTypes[] = {"application/json", "multipart/form-data; boundary=B", "application/x-www-form-urlencoded"};
  static const h3::ModelIndex index{};
  http::Request request;
  request.method = "POST";
  request.body.assign(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 4 < 3) {
    request.headers.emplace_back("content-type", kTypes[data[0] % 4]);
  } else {   // the header is the input's first line
    const size_t end = std::min(request.body.find('\n'), request.body.size());
    request.headers.emplace_back("content-type", request.body.substr(0, end));
    request.body.erase(0, end);
    http::multipart_boundary(request.headers.back().second);
    request.target = "/" + request.body;
    http::parse_target(request);
  }
  try {
    const http::Body body = http::read_body(request);
    const http::CreateFields fields = http::read_fields(body, {index, {"model"}, "exact", (data[0] & 4) != 0});
    for (const http::MediaInput& m : fields.media)
      if (m.value.is_string()) http::decode_base64(m.value.get_ref<const std::string&>());
    GenerateOptions options;
    fill_from_json(fields.options, options);
    check_limits(options);
  } catch (const http::HttpError& e) {
    if (e.status < 400 || e.status > 499) __builtin_trap();
    http::error_response(e);
  } catch (const Error& e) {
    if (e.kind != ErrorKind::request) __builtin_trap();
    try {
      http::rethrow_named(e.what(), {});
    } catch (const http::HttpError&) {
    }
  }
  return 0;
}

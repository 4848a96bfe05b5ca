#pragma once
// A request body, JSON or multipart alike, as one tree of named fields.
#include "base/json.h"
#include "serve/http/message.h"

namespace zt::http {

struct Body {
  Json fields = Json::object();   // an uploaded file is a value of type binary, which JSON text cannot forge
  bool text = false;              // from multipart: values are strings still
};

// Errors (HttpError): 400 (malformed, a field twice, names too deep), 415 (another content type). An empty body has no fields.
Body read_body(const Request& request);

// JSON text from a client. Errors (HttpError 400 with `param`).
Json parse_client_json(std::string_view text, const std::string& param);

// RFC 4648, with or without padding, both alphabets, blanks skipped. Nothing if it is none.
std::optional<std::string> decode_base64(std::string_view text);

}  // namespace zt::http

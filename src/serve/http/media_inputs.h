#pragma once
// Media of a request -> files in its job's folder, looked at but not decoded.
#include <map>
#include <string>
#include <vector>

#include "media/decode.h"
#include "serve/http/fields.h"
#include "serve/http/url_fetch.h"
#include "serve/job.h"

namespace zt::http {

struct StoredMedia {
  std::map<std::string, MediaInfo> files;   // path relative to the data folder -> what it is
  std::string digest;                       // of all bytes, in order
  std::map<std::string, std::string> fields;   // path -> the request's field that gave it
};

// Writes each medium to DATA/jobs/ID/input/ under a name of the server's choosing and puts the paths (relative to DATA) into `fields.options`.
// Errors: HttpError 400 naming the field (no medium, of another kind than declared, too large, a URL while URLs are not allowed).
StoredMedia store_media(CreateFields& fields, const std::string& data, const std::string& job, bool allow_url, const FetchLimits& limits);

// Readers for build_request() that know sizes, rates and counts alone; none for latents.
MediaReaders size_readers(const StoredMedia& media);


}  // namespace zt::http

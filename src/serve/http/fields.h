#pragma once
// The fields of a request that creates a video, in the spellings of OpenAI's, MiniMax's and the other H3 servers, and what option of
// generate_options() each one means. Types, limits and help of an option come from that table alone.
#include <map>
#include <string>
#include <vector>

#include "models/minimax_h3/model_index.h"
#include "serve/http/body.h"
#include "serve/options.h"

namespace zt::http {

// A picture, video or sound that the request brings or names.
struct MediaInput {
  enum class Use { first_frame, last_frame, reference, start } use = Use::reference;
  Json value;                  // a string (data: or http(s) URI) or binary (an upload)
  std::string where;           // the field, for messages: "conditions[0].uri"
  std::string declared;        // "image", "video", "audio", or "" if the request does not say
};

struct FieldRules {
  const h3::ModelIndex& index;
  std::vector<std::string> models;   // names that `model` may have, the first is the true one
  std::string plan;                  // the one plan that is resident
  bool lenient = false;              // unknown fields warn instead
};

struct CreateFields {
  Json options = Json::object();               // under the keys of generate_options()
  std::map<std::string, std::string> spelled;  // option key -> the field that gave it
  std::vector<MediaInput> media;
  std::string model, seconds;                  // seconds as written, "" if not given
  int64_t deadline_seconds = 0;
  int priority = 10;
  bool stream = false;                         // the clip is wanted as the answer
  std::string webhook;                         // address, "" if none; whether it is allowed is the caller's to say
  std::vector<std::string> warnings;
};

// Errors (HttpError 400 naming the field): unknown, of the wrong type, said twice, known but not possible here.
CreateFields read_fields(const Body& body, const FieldRules& rules);

// Adds what a request error of the engine says under the names that the client used: "--steps is 0" -> param "num_inference_steps".
[[noreturn]] void rethrow_named(const std::string& message, const CreateFields& fields);

// JSON Schema of a create request, from the same tables.
Json create_schema();
// The same of an extension, whose `video` is an id's or a medium: what follows from the video that is extended is left out.
Json extension_schema();

}  // namespace zt::http

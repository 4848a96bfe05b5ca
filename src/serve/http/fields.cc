#include "serve/http/fields.h"

#include <charconv>
#include <cmath>

#include "models/minimax_h3/layout.h"
#include "serve/http/errors.h"
#include "serve/job.h"
#include "serve/worker.h"

namespace zt::http {

namespace {

std::string brief(const Json& v) {
  if (v.is_binary()) return "a file";
  std::string s = v.dump(-1, ' ', false, Json::error_handler_t::replace);
  return s.size() > 60 ? s.substr(0, 57) + "..." : s;
}

class Reader;
using Apply = void (*)(Reader&, const Json&, const std::string& where);

struct Field {
  const char* name;
  const char* option;    // what it means in generate_options(), or null
  const char* type;      // of its JSON, where no option says it
  const char* help;
  Apply apply;           // in place of the plain assignment
};

const OptionSpec* find_option(const std::string& key) {
  for (const OptionSpec& s : generate_options())
    if (s.describes_clip && key == s.key) return &s;
  return nullptr;
}

class Reader {
 public:
  Reader(const FieldRules& rules, bool text) : rules_(rules), text_(text) {}

  void object(const Json& fields, const std::string& prefix, const std::vector<Field>& table);
  void finish();

  // A value put under an option; the same value in two spellings is no conflict.
  void set(const std::string& option, Json value, const std::string& where) {
    if (value == "" && option != "prompt") refuse(where, "{} is empty; give it a value or leave it out", where);
    auto [it, fresh] = out.spelled.emplace(option, where);
    if (!fresh && out.options[option] != value) refuse(where, "{} and {} say different things about the same; give one of them", it->second, where);
    out.options[option] = std::move(value);
  }
  Json convert(const OptionSpec& spec, const Json& v, const std::string& where) const;
  int64_t integer(const Json& v, const std::string& where) const;
  double number(const Json& v, const std::string& where) const;
  std::string string(const Json& v, const std::string& where) const;
  bool boolean(const Json& v, const std::string& where) const;
  // An object or list; in a multipart body it comes as JSON text.
  Json tree(const Json& v, const std::string& where, bool list) const;
  void media(MediaInput::Use use, const Json& v, const std::string& where, const std::string& declared = "");

  const FieldRules& rules() const { return rules_; }
  CreateFields out;
  std::optional<int64_t> width, height;
  std::string width_where;

 private:
  const FieldRules& rules_;
  bool text_;
};

int64_t Reader::integer(const Json& v, const std::string& where) const {
  if (v.is_number_unsigned() && v.get<uint64_t>() > INT64_MAX) refuse(where, "{} is {}; that is too large", where, brief(v));
  if (v.is_number_integer()) return v.get<int64_t>();
  if (v.is_number_float() && v.get<double>() == std::floor(v.get<double>()) && std::abs(v.get<double>()) <= 0x1p53) return static_cast<int64_t>(v.get<double>());
  if (text_ && v.is_string()) {
    const auto& s = v.get_ref<const std::string&>();
    int64_t n = 0;
    const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), n);
    if (error == std::errc() && end == s.data() + s.size() && !s.empty()) return n;
  }
  refuse(where, "{} is {}; wanted a whole number", where, brief(v));
}

double Reader::number(const Json& v, const std::string& where) const {
  double d = NAN;
  if (v.is_number()) d = v.get<double>();
  if (v.is_string()) {   // OpenAI's clients write seconds as a string
    const auto& s = v.get_ref<const std::string&>();
    const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), d);
    if (error != std::errc() || end != s.data() + s.size() || s.empty()) d = NAN;
  }
  if (!std::isfinite(d)) refuse(where, "{} is {}; wanted a number", where, brief(v));
  return d;
}

std::string Reader::string(const Json& v, const std::string& where) const {
  if (!v.is_string()) refuse(where, "{} is {}; wanted a string", where, brief(v));
  return v.get<std::string>();
}

bool Reader::boolean(const Json& v, const std::string& where) const {
  if (v.is_boolean()) return v.get<bool>();
  if (text_ && (v == "true" || v == "1")) return true;
  if (text_ && (v == "false" || v == "0")) return false;
  refuse(where, "{} is {}; wanted true or false", where, brief(v));
}

Json Reader::tree(const Json& v, const std::string& where, bool list) const {
  Json parsed = text_ && v.is_string() ? parse_client_json(v.get_ref<const std::string&>(), where) : v;
  if (list ? !parsed.is_array() : !parsed.is_object()) refuse(where, "{} is {}; wanted {}", where, brief(v), list ? "a list" : "an object");
  return parsed;
}

Json Reader::convert(const OptionSpec& spec, const Json& v, const std::string& where) const {
  using O = GenerateOptions;
  if (std::holds_alternative<std::optional<int64_t> O::*>(spec.target)) return integer(v, where);
  if (std::holds_alternative<std::optional<double> O::*>(spec.target)) return number(v, where);
  if (std::holds_alternative<std::string O::*>(spec.target)) return string(v, where);
  if (std::holds_alternative<bool O::*>(spec.target)) return boolean(v, where);
  if (v.is_number_unsigned()) return v;
  if (text_ && v.is_string()) {   // the seed
    const auto& s = v.get_ref<const std::string&>();
    uint64_t n = 0;
    const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), n);
    if (error == std::errc() && end == s.data() + s.size() && !s.empty()) return n;
  }
  refuse(where, "{} is {}; wanted a whole number from 0 to 2^64 - 1", where, brief(v));
}

void Reader::media(MediaInput::Use use, const Json& v, const std::string& where, const std::string& declared) {
  if (v.is_object()) {
    std::string found, kind = declared;
    Json value;
    for (const auto& [key, x] : v.items()) {
      if (key == "type" && x.is_string()) continue;
      if (key == "file_id") refuse(where + ".file_id", "{}.file_id: this server has no files API; send the file, a data: URI or image_url", where);
      if (key != "image_url" && key != "video_url" && key != "audio_url" && key != "url" && key != "uri")
        refuse(where + "." + key, "{}.{} is no field of a medium; wanted image_url, video_url, audio_url, url or uri", where, key);
      if (!found.empty()) refuse(where, "{} has both {} and {}; give one of them", where, found, key);
      found = key, value = x.is_object() && x.size() == 1 && x.contains("url") ? x["url"] : x;
      if (kind.empty() && key.ends_with("_url")) kind = key.substr(0, 5);
    }
    if (found.empty()) refuse(where, "{} names no medium; give image_url", where);
    return media(use, value, where + "." + found, kind);
  }
  if (!v.is_string() && !v.is_binary()) refuse(where, "{} is {}; wanted a file, a data: URI or an http(s) URL", where, brief(v));
  if (out.media.size() >= 16) refuse(where, "{} is one medium too many; at most 12 references are taken", where);
  if (use != MediaInput::Use::reference)
    for (const MediaInput& m : out.media)
      if (m.use == use) refuse(where, "{} and {} are the same frame; give one of them", m.where, where);
  out.media.push_back({use, v, where, declared});
}

// OpenAI's four sizes stand for a shape: they become the model's own canvas of that shape. Any other size is meant to the pixel.
void apply_size(Reader& r, const Json& v, const std::string& where) {
  const std::string size = r.string(v, where);
  if (size == "auto") return;
  double w = 0, h = 0;
  if (size == "720x1280") w = 9, h = 16;
  if (size == "1280x720") w = 16, h = 9;
  if (size == "1024x1792") w = 4, h = 7;
  if (size == "1792x1024") w = 7, h = 4;
  if (w == 0) return r.set("size", size, where);
  const h3::PipelineConfig& c = r.rules().index.config;
  const h3::Canvas canvas = h3::resolve_canvas(w, h, {r.rules().index.canvas_multiple(), c.canvas_short_edge, c.canvas_max_pixels});
  r.out.warnings.push_back(fmt::format("size {} became {}x{}, the canvas of this model for that shape", size, canvas.width, canvas.height));
  r.set("size", fmt::format("{}x{}", canvas.width, canvas.height), where);
}

void apply_seconds(Reader& r, const Json& v, const std::string& where) {
  const double seconds = r.number(v, where);
  r.out.seconds = v.is_string() ? v.get<std::string>() : fmt::format("{:g}", seconds);
  r.set("seconds", seconds, where);
}

void apply_model(Reader& r, const Json& v, const std::string& where) {
  const std::string model = r.string(v, where);
  for (const std::string& known : r.rules().models)
    if (model == known) {
      r.out.model = model;
      return;
    }
  throw HttpError(400, "model_not_found", where, fmt::format("model \"{}\" is not served here; wanted {}", model.substr(0, 100), r.rules().models.front()));
}

void must_be(Reader& r, double value, double only, const std::string& where, const char* why) {
  if (value != only) refuse(where, "{} is {:g}; only {:g} is possible: {}", where, value, only, why);
}

void apply_fps(Reader& r, const Json& v, const std::string& where) { must_be(r, r.number(v, where), h3::kFps, where, "the model makes 24 frames a second"); }
void apply_n(Reader& r, const Json& v, const std::string& where) {
  const int64_t n = r.integer(v, where);
  if (n < 1 || n > kMostClips) refuse(where, "{} is {}; wanted 1 to {}", where, n, kMostClips);
  r.set("n", n, where);
}
void apply_guidance(Reader& r, const Json& v, const std::string& where) { must_be(r, r.number(v, where), 1, where, "guidance is distilled into the model"); }
void apply_video_shift(Reader& r, const Json& v, const std::string& where) {
  must_be(r, r.number(v, where), r.rules().index.video_shift, where, "the shift is the model's own");
}
void apply_audio_shift(Reader& r, const Json& v, const std::string& where) {
  must_be(r, r.number(v, where), r.rules().index.audio_shift, where, "the shift is the model's own");
}
void apply_negative(Reader& r, const Json& v, const std::string& where) {
  if (!r.string(v, where).empty()) refuse(where, "{} is not possible: guidance is distilled into the model", where);
}
void apply_sound(Reader& r, const Json& v, const std::string& where) {
  if (!r.boolean(v, where)) refuse(where, "{} is false; the model always makes sound with the picture", where);
}
void apply_start_time(Reader& r, const Json& v, const std::string& where) {
  must_be(r, r.number(v, where), 0, where, "media are taken from their start; cut them before");
}
void apply_quality(Reader& r, const Json& v, const std::string& where) {
  const std::string q = r.string(v, where);
  if (q != "lossless" && q != "high" && q != "medium" && q != "low") refuse(where, "{} is {}; wanted lossless, high, medium or low", where, brief(v));
  if (q == "lossless" && r.rules().plan != "exact") refuse(where, "{} is lossless, which is plan exact; this server runs plan {}", where, r.rules().plan);
}
void apply_plan(Reader& r, const Json& v, const std::string& where) {
  const std::string plan = r.string(v, where);
  if (plan != r.rules().plan) refuse(where, "{} is {}; this server runs plan {} alone", where, brief(v), r.rules().plan);
}
void apply_impossible(Reader& r, const Json&, const std::string& where) {
  throw HttpError(400, "not_supported", where, where + " is known, but this server cannot do it; leave it out");
}
void apply_ignored(Reader& r, const Json& v, const std::string& where) { r.string(v, where); }
void apply_width(Reader& r, const Json& v, const std::string& where) { r.width = r.integer(v, where), r.width_where = where; }
void apply_height(Reader& r, const Json& v, const std::string& where) { r.height = r.integer(v, where), r.width_where = where; }
void apply_stream(Reader& r, const Json& v, const std::string& where) { r.out.stream = r.boolean(v, where); }
void apply_deadline(Reader& r, const Json& v, const std::string& where) {
  r.out.deadline_seconds = r.integer(v, where);
  if (r.out.deadline_seconds < 1 || r.out.deadline_seconds > 30 * 86400) refuse(where, "{} is {}; wanted 1 to 2592000 seconds", where, brief(v));
}
void apply_webhook(Reader& r, const Json& v, const std::string& where) {
  r.out.webhook = r.string(v, where);
  if (r.out.webhook.empty()) refuse(where, "{} is empty; give an address or leave it out", where);
}
void apply_priority(Reader& r, const Json& v, const std::string& where) {
  const std::string p = r.string(v, where);
  if (p != "interactive" && p != "batch") refuse(where, "{} is {}; wanted interactive or batch", where, brief(v));
  r.out.priority = p == "batch" ? 0 : 10;
}

void apply_first(Reader& r, const Json& v, const std::string& where) { r.media(MediaInput::Use::first_frame, v, where, "image"); }
void apply_last(Reader& r, const Json& v, const std::string& where) { r.media(MediaInput::Use::last_frame, v, where, "image"); }

// A list of names or of {name, strength}.
void apply_lora(Reader& r, const Json& given, const std::string& where) {
  const bool parse = given.is_string() && given.get_ref<const std::string&>().starts_with("[");
  const Json v = parse ? parse_client_json(given.get_ref<const std::string&>(), where) : given;
  Json names = Json::array();
  for (const Json& item : v.is_array() ? v : Json::array({v})) {
    std::string name = item.is_object() && item.contains("name") ? r.string(item["name"], where + ".name") : r.string(item, where);
    if (item.is_object() && item.contains("strength")) name += fmt::format(":{:.6f}", r.number(item["strength"], where + ".strength"));
    try {
      find_own_adapter(name, r.rules().index.folder);
    } catch (const Error& e) {
      refuse(where, "{} is {}: {}", where, brief(item), e.what());
    }
    names.push_back(name);
  }
  if (names.size() > 8) refuse(where, "{} lists {} adapters; at most 8 are taken", where, names.size());
  if (!names.empty()) r.set("lora", std::move(names), where);
}

// One medium or a list of them.
void references(Reader& r, const Json& given, const std::string& where, const std::string& declared) {
  // In a multipart body a list or an object may come as text.
  const bool parse = given.is_string() && (given.get_ref<const std::string&>().starts_with("[") || given.get_ref<const std::string&>().starts_with("{"));
  const Json v = parse ? parse_client_json(given.get_ref<const std::string&>(), where) : given;
  if (!v.is_array()) return r.media(MediaInput::Use::reference, v, where, declared);
  for (size_t i = 0; i < v.size(); ++i) r.media(MediaInput::Use::reference, v[i], fmt::format("{}[{}]", where, i), declared);
}
void apply_references(Reader& r, const Json& v, const std::string& where) { references(r, v, where, ""); }
void apply_image_references(Reader& r, const Json& v, const std::string& where) { references(r, v, where, "image"); }
void apply_video_references(Reader& r, const Json& v, const std::string& where) { references(r, v, where, "video"); }
void apply_audio_references(Reader& r, const Json& v, const std::string& where) { references(r, v, where, "audio"); }

void apply_input_reference(Reader& r, const Json& given, const std::string& where) {
  const bool parse = given.is_string() && given.get_ref<const std::string&>().starts_with("{");
  apply_first(r, parse ? parse_client_json(given.get_ref<const std::string&>(), where) : given, where);
}

struct Condition {
  std::string type, role, uri_where;
  std::optional<int64_t> frame_index;
  Json uri;
};

void apply_condition(Reader& r, const Json& v, const std::string& at) {
  if (!v.is_object()) refuse(at, "{} is {}; wanted an object", at, brief(v));
  Condition c;
  for (const auto& [key, x] : v.items()) {
    const std::string where = at + "." + key;
    if (key == "type") c.type = r.string(x, where);
    else if (key == "role") c.role = r.string(x, where);
    else if (key == "uri" || key == "url") c.uri = x, c.uri_where = where;
    else if (key == "frame_index") c.frame_index = r.integer(x, where);
    else if (key == "start_time_seconds") apply_start_time(r, x, where);
    else refuse(where, "{} is no field of a condition; wanted type, uri, role, frame_index", where);
  }
  if (c.type.empty()) refuse(at + ".type", "{}.type is missing; wanted image, video or audio", at);
  if (c.type != "image" && c.type != "video" && c.type != "audio" && c.type != "video_audio")
    refuse(at + ".type", "{}.type is {}; wanted image, video or audio", at, brief(c.type));
  if (c.uri.is_null()) refuse(at + ".uri", "{}.uri is missing; wanted a data: URI or an http(s) URL", at);
  if (c.role != "" && c.role != "keyframe" && c.role != "reference") refuse(at + ".role", "{}.role is {}; wanted keyframe or reference", at, brief(c.role));
  if (c.role == "keyframe" || (c.role.empty() && c.frame_index)) {
    if (c.type != "image") refuse(at + ".type", "{}.type is {}; a keyframe is an image", at, brief(c.type));
    const int64_t index = c.frame_index.value_or(0);
    if (index != 0 && index != -1) refuse(at + ".frame_index", "{}.frame_index is {}; wanted 0 (first) or -1 (last)", at, index);
    return r.media(index == 0 ? MediaInput::Use::first_frame : MediaInput::Use::last_frame, c.uri, c.uri_where, "image");
  }
  if (c.frame_index) refuse(at + ".frame_index", "{}.frame_index belongs to a keyframe, not to a reference", at);
  r.media(MediaInput::Use::reference, c.uri, c.uri_where, c.type == "video_audio" ? "video" : c.type);
}

void apply_conditions(Reader& r, const Json& v, const std::string& where) {
  const Json list = r.tree(v, where, true);
  for (size_t i = 0; i < list.size(); ++i) apply_condition(r, list[i], fmt::format("{}[{}]", where, i));
}

void apply_target(Reader& r, const Json& v, const std::string& where);
void apply_extra(Reader& r, const Json& v, const std::string& where);

// In the order of the documentation. A field that is an option's own key needs no line unless it is more than a plain value.
const std::vector<Field>& special_fields() {
  static const std::vector<Field> table = {
      {"model", nullptr, "string", "the model served here, or an alias that the operator gave it", apply_model},
      {"seconds", "seconds", "string", "length in seconds, as a string or a number; aligned up to 17 n + 5 frames at 24 a second", apply_seconds},
      {"duration", "seconds", "number", "as seconds", apply_seconds},
      {"duration_seconds", "seconds", "number", "as seconds", apply_seconds},
      {"num_frames", "frames", nullptr, nullptr, nullptr},
      {"size", "size", nullptr, nullptr, apply_size},
      {"width", nullptr, "integer", "with height, in place of size", apply_width},
      {"height", nullptr, "integer", "with width, in place of size", apply_height},
      {"aspect_ratio", "aspect", nullptr, nullptr, nullptr},
      {"num_inference_steps", "steps", nullptr, nullptr, nullptr},
      {"plan", "plan", nullptr, nullptr, apply_plan},
      {"quality", nullptr, "string", "lossless (plan exact), high, medium or low", apply_quality},
      {"first_frame", nullptr, "media", "picture that the clip starts from (fl2va)", apply_first},
      {"last_frame", nullptr, "media", "picture that the clip ends on (fl2va)", apply_last},
      {"input_reference", nullptr, "media", "picture that the clip starts from: a file, or {image_url}", apply_input_reference},
      {"references", nullptr, "media list", "pictures, videos and sounds to follow (ref2va), in the order the prompt counts them", apply_references},
      {"input_references", nullptr, "media list", "as references", apply_references},
      {"image_reference", nullptr, "media list", "as references, of pictures", apply_image_references},
      {"video_reference", nullptr, "media list", "as references, of videos", apply_video_references},
      {"audio_reference", nullptr, "media list", "as references, of sounds", apply_audio_references},
      {"conditions", nullptr, "conditions", "media with their roles, as MiniMax-H3's scripts send them", apply_conditions},
      {"target", nullptr, "target", "shape and length, as MiniMax-H3's scripts send them", apply_target},
      {"fps", nullptr, "number", "24", apply_fps},
      {"n", nullptr, "integer", "clips to make, with seeds that follow each other: content?variant=0 to n - 1", apply_n},
      {"num_outputs_per_prompt", nullptr, "integer", "as n", apply_n},
      {"guidance_scale", nullptr, "number", "1: guidance is distilled into the model", apply_guidance},
      {"negative_prompt", nullptr, "string", "empty: guidance is distilled into the model", apply_negative},
      {"flow_shift", nullptr, "number", "the model's own", apply_video_shift},
      {"audio_flow_shift", nullptr, "number", "the model's own", apply_audio_shift},
      {"generate_sound", nullptr, "boolean", "true", apply_sound},
      {"start_time_seconds", nullptr, "number", "0", apply_start_time},
      {"priority", nullptr, "string", "interactive (default) or batch", apply_priority},
      {"stream", nullptr, "boolean", "answer with the clip itself while it is made, as GET /v1/videos/{id}/stream does; Location names the video", apply_stream},
      {"deadline_seconds", nullptr, "integer", "seconds from now after which the clip is not wanted any more", apply_deadline},
      {"webhook_url", nullptr, "string", "address that is told when the video has ended, where the operator allows it; signed as Standard Webhooks", apply_webhook},
      {"user", nullptr, "string", "taken and not used", apply_ignored},
      {"extra_params", nullptr, "object", "more fields of this list", apply_extra},
      {"extra_body", nullptr, "object", "more fields of this list", apply_extra},
      {"lora", "lora", "array", "adapters of the model's folder loras: names, \"name:strength\", or {name, strength}", apply_lora},
      {"output_quality", nullptr, "string", "not possible yet", apply_impossible},
      {"output_compression", nullptr, "integer", "not possible yet", apply_impossible},
      {"frame_indices", nullptr, "array", "not possible yet", apply_impossible},
      {"continuation_prompts", nullptr, "array", "not possible yet", apply_impossible},
      {"audio_mode", nullptr, "string", "not possible yet", apply_impossible},
      {"video_noise_mask", nullptr, "array", "not possible yet", apply_impossible},
      {"audio_noise_mask", nullptr, "array", "not possible yet", apply_impossible},
  };
  return table;
}

const std::vector<Field>& target_fields() {
  static const std::vector<Field> table = {
      {"short_edge", "short_edge", nullptr, nullptr, nullptr},
      {"aspect_ratio", "aspect", nullptr, nullptr, nullptr},
      {"duration_seconds", "seconds", "number", "length in seconds", apply_seconds},
      {"num_frames", "frames", nullptr, nullptr, nullptr},
      {"fps", nullptr, "number", "24", apply_fps},
  };
  return table;
}

const std::vector<Field>& create_fields() {
  static const std::vector<Field> table = [] {
    std::vector<Field> all = special_fields();
    for (const OptionSpec& spec : generate_options()) {
      bool known = false;
      for (const Field& f : all) known = known || std::string_view(f.name) == spec.key;
      const bool file = std::string_view(spec.key) == "extend";   // of the server's own, never a client's to name
      if (spec.describes_clip && !known && !file) all.push_back({spec.key, spec.key, nullptr, nullptr, nullptr});
    }
    return all;
  }();
  return table;
}

void apply_target(Reader& r, const Json& v, const std::string& where) { r.object(r.tree(v, where, false), where + ".", target_fields()); }

void apply_extra(Reader& r, const Json& v, const std::string& where) {
  const Json tree = r.tree(v, where, false);
  if (tree.contains("extra_params") || tree.contains("extra_body")) refuse(where, "{} holds another one of its kind", where);
  r.object(tree, where + ".", create_fields());
}

void Reader::object(const Json& fields, const std::string& prefix, const std::vector<Field>& table) {
  for (const auto& [key, value] : fields.items()) {
    const std::string where = prefix + key;
    const Field* field = nullptr;
    for (const Field& f : table)
      if (key == f.name) field = &f;
    if (!field) {
      const std::string shown = where.substr(0, 120);
      if (!rules_.lenient) throw HttpError(400, "unknown_field", shown, fmt::format("\"{}\" is no field of this request; see /openapi.json", shown));
      out.warnings.push_back(fmt::format("\"{}\" is no field of this request and was not used", shown));
      continue;
    }
    if (value.is_null()) continue;   // many clients send what they do not set as null
    if (field->apply) field->apply(*this, value, where);
    else set(field->option, convert(*find_option(field->option), value, where), where);
  }
}

void Reader::finish() {
  if (width.has_value() != height.has_value()) refuse(width_where, "width and height belong together; give both");
  if (width) set("size", fmt::format("{}x{}", *width, *height), "width");
  if (out.options.contains("aspect") && out.options["aspect"] == "auto") out.options.erase("aspect"), out.spelled.erase("aspect");
  if (out.options.contains("n") && out.options["n"] == 1) out.options.erase("n");
  if (out.stream && out.options.contains("n")) refuse("stream", "stream answers with one clip; ask for the {} clips without it", out.options["n"].get<int64_t>());
  if (out.model.empty()) out.model = rules_.models.front();
}

Json option_schema(const OptionSpec& s) {
  using O = GenerateOptions;
  Json out{{"description", s.help}};
  if (std::holds_alternative<std::optional<int64_t> O::*>(s.target)) out["type"] = "integer";
  else if (std::holds_alternative<std::optional<uint64_t> O::*>(s.target)) out["type"] = "integer", out["minimum"] = 0, out["maximum"] = ~uint64_t{0};
  else if (std::holds_alternative<std::optional<double> O::*>(s.target)) out["type"] = "number";
  else if (std::holds_alternative<bool O::*>(s.target)) out["type"] = "boolean";
  else out["type"] = "string";
  if (s.low != s.high) out["minimum"] = s.low, out["maximum"] = s.high;
  if (std::string_view(s.key) == "prompt") out["minLength"] = 1, out["maxLength"] = 32000;
  if (std::string_view(s.key) == "task") out["enum"] = {"t2va", "fl2va", "ref2va"};
  return out;
}

Json field_schema(const Field& f) {
  if (f.option && !(f.type && f.help)) {
    Json out = option_schema(*find_option(f.option));
    if (std::string_view(f.name) != f.option) out["description"] = fmt::format("as {}: {}", f.option, out["description"].get<std::string>());
    return out;
  }
  const std::string type = f.type;
  const Json medium{{"description", "a data: URI, or an http(s) URL where the operator allows them; in a multipart body also a file"},
                    {"anyOf", {{{"type", "string"}}, {{"type", "object"}, {"properties", {{"image_url", {{"type", "string"}}}}}, {"required", {"image_url"}}}}}};
  Json out{{"type", type}};
  if (std::string_view(f.name) == "seconds") out = {{"anyOf", {{{"type", "string"}}, {{"type", "number"}}}}};
  if (std::string_view(f.name) == "n" || std::string_view(f.name) == "num_outputs_per_prompt") out["minimum"] = 1, out["maximum"] = kMostClips;
  if (type == "media") out = medium;
  if (type == "media list") out = {{"anyOf", {medium, {{"type", "array"}, {"items", medium}, {"maxItems", 12}}}}};
  if (type == "conditions") {
    const Json item{{"type", "object"},
                    {"required", {"type", "uri"}},
                    {"additionalProperties", false},
                    {"properties",
                     {{"type", {{"type", "string"}, {"enum", {"image", "video", "audio", "video_audio"}}}},
                      {"uri", {{"type", "string"}}},
                      {"role", {{"type", "string"}, {"enum", {"keyframe", "reference"}}}},
                      {"frame_index", {{"type", "integer"}, {"enum", {0, -1}}}}}}};
    out = {{"type", "array"}, {"items", item}};
  }
  if (type == "target") {
    out = {{"type", "object"}, {"additionalProperties", false}, {"properties", Json::object()}};
    for (const Field& t : target_fields()) out["properties"][t.name] = field_schema(t);
  }
  out["description"] = f.help;
  return out;
}

}  // namespace

CreateFields read_fields(const Body& body, const FieldRules& rules) {
  Reader reader(rules, body.text);
  reader.object(body.fields, "", create_fields());
  reader.finish();
  return std::move(reader.out);
}

void rethrow_named(const std::string& message, const CreateFields& fields) {
  std::string text = message.substr(0, message.find(". A --config")), param;
  size_t first = std::string::npos;
  auto name = [&](const std::string& key) {
    auto it = fields.spelled.find(key);
    return it == fields.spelled.end() ? key : it->second;
  };
  for (const OptionSpec& s : generate_options()) {
    const std::string flag = long_flag(s);
    for (size_t at = 0; (at = text.find(flag, at)) != std::string::npos;) {
      const char next = at + flag.size() < text.size() ? text[at + flag.size()] : ' ';
      if (next == '-' || std::isalnum(static_cast<unsigned char>(next))) {
        at += flag.size();
        continue;
      }
      if (at <= first) first = at, param = name(s.key);
      text.replace(at, flag.size(), name(s.key));
    }
  }
  if (param.empty()) {   // sentences that name no option
    auto has = [&](const char* word) { return text.find(word) != std::string::npos; };
    if (text.starts_with("size") || has("aspect") || has("canvas")) param = fields.spelled.count("size") ? name("size") : name("aspect");
    else if (text.starts_with("the prompt")) param = "prompt";
    else if (has("frames")) param = fields.spelled.count("frames") ? name("frames") : name("seconds");
    else if (has("reference")) param = "references";
    else param = "body";
  }
  throw HttpError(400, "invalid_value", param, text);
}

Json create_schema() {
  Json properties = Json::object();
  for (const Field& f : create_fields()) properties[f.name] = field_schema(f);
  return {{"type", "object"}, {"additionalProperties", false}, {"required", {"prompt"}}, {"properties", properties}};
}

Json extension_schema() {
  auto object = [](const char* key) {
    return Json{{"type", "object"}, {"required", {key}}, {"additionalProperties", false}, {"properties", {{key, {{"type", "string"}}}}}};
  };
  const Json video{{"description", "what is extended: a completed video by its id, or a video file: a data: URI, or an http(s) URL where the operator allows them; in a "
                                   "multipart body also a file"},
                   {"anyOf", {object("id"), {{"type", "string"}}, object("video_url")}}};
  Json properties{{"video", video}};
  for (const Field& f : create_fields()) {
    const std::string_view type = f.type ? f.type : "", option = f.option ? f.option : "", name = f.name;
    const bool medium = type.starts_with("media") || type == "conditions" || type == "target";
    const bool shape = option == "size" || option == "short_edge" || option == "aspect" || name == "width" || name == "height";
    if (!medium && !shape && option != "task") properties[f.name] = field_schema(f);
  }
  return {{"type", "object"}, {"additionalProperties", false}, {"required", {"video", "prompt"}}, {"properties", properties}};
}

}  // namespace zt::http

#include "serve/http/media_inputs.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "formats/safetensors.h"
#include "serve/http/errors.h"
#include "serve/media_apart.h"
#include "serve/store/job_store.h"

namespace fs = std::filesystem;

namespace zt::http {

namespace {

constexpr int64_t kMostFrames = 100000;   // of a video whose header is believed; none that is taken has as many

std::string without_scheme(const std::string& text) {
  const size_t comma = text.find(',');
  if (comma == std::string::npos) return "";
  return text.substr(5, comma - 5);   // "image/png;base64"
}

std::string bytes_of(const MediaInput& m, bool allow_url, const FetchLimits& limits) {
  if (m.value.is_binary()) {
    const auto& b = m.value.get_binary();
    return {b.begin(), b.end()};
  }
  const auto& text = m.value.get_ref<const std::string&>();
  if (text.starts_with("data:")) {
    const std::string type = without_scheme(text);
    if (!type.ends_with(";base64")) refuse(m.where, "{} is a data: URI without ;base64, or without a comma; wanted data:image/png;base64,...", m.where);
    auto bytes = decode_base64(std::string_view(text).substr(text.find(',') + 1));
    if (!bytes) refuse(m.where, "{} is a data: URI whose base64 is damaged", m.where);
    return std::move(*bytes);
  }
  if (text.starts_with("http://") || text.starts_with("https://")) {
    if (!allow_url) refuse(m.where, "{} is a URL, which this server does not fetch; send the file or a data: URI (operators: --allow-url)", m.where);
    if (text.size() > 4096) refuse(m.where, "{} is a URL of {} bytes; at most 4096 are taken", m.where, text.size());
    return fetch_url(text, limits);
  }
  refuse(m.where, "{} is \"{}\"; wanted a file, a data: URI or an http(s) URL", m.where, text.substr(0, 40));
}

const char* kind_name(MediaKind kind) { return kind == MediaKind::image ? "image" : kind == MediaKind::video ? "video" : "audio"; }

// Judged by its header in a process of its own: FFmpeg reads no more than it needs to know the streams.
MediaInfo judge(const MediaInput& m, const std::string& bytes) {
  if (bytes.empty()) refuse(m.where, "{} holds no bytes", m.where);
  MediaLimits limits;
  limits.max_work = 10;
  limits.threads = 1;
  const MediaInfo info = probe_apart(MediaSource({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, m.where), limits);
  const std::string kind = kind_name(info.kind);
  if (!m.declared.empty() && kind != m.declared && !(m.declared == "audio" && info.has_sound))
    refuse(m.where, "{} holds {} ({}), wanted {}", m.where, kind == "image" ? "a picture" : kind == "video" ? "a video" : "sound", info.format, m.declared);
  const bool wide = info.kind != MediaKind::sound && (info.width > 4 * info.height || info.height > 4 * info.width);
  if (wide) refuse(m.where, "{} is {}x{}; its sides may differ by at most 4 to 1", m.where, info.width, info.height);
  return info;
}

void write_file(const fs::path& path, const std::string& bytes) {
  std::ofstream f(path, std::ios::binary);
  f.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  f.close();
  if (!f) fail(ErrorKind::resource, "an upload cannot be written to the data folder; is the disk full?");
}

}  // namespace

StoredMedia store_media(CreateFields& fields, const std::string& data, const std::string& job, bool allow_url, const FetchLimits& limits) {
  StoredMedia out;
  if (fields.media.empty()) return out;
  const std::string folder = job_folder(job) + "/input";
  fs::create_directories(fs::path(data) / folder);
  size_t count = 0;
  for (MediaInput& m : fields.media) {
    try {
      const std::string bytes = bytes_of(m, allow_url, limits);
      m.value = nullptr;   // the largest thing that the request holds
      const MediaInfo info = judge(m, bytes);
      using Use = MediaInput::Use;
      const char* stem = m.use == Use::first_frame ? "first_frame" : m.use == Use::last_frame ? "last_frame" : m.use == Use::start ? "extend" : "reference";
      const std::string path = fmt::format("{}/{}_{}.{}", folder, stem, count++, kind_name(info.kind));
      write_file(fs::path(data) / path, bytes);
      out.digest += sha256(bytes);
      out.files.emplace(path, info), out.fields.emplace(path, m.where);
      if (m.use == Use::reference) fields.options["references"].push_back(path);
      else fields.options[stem] = path;
    } catch (const Error& e) {
      if (e.kind != ErrorKind::request) throw;
      throw HttpError(400, "invalid_media", m.where, m.where + ": " + e.what());
    }
  }
  return out;
}

MediaReaders size_readers(const StoredMedia& media) {
  auto find = [&media](const std::string& path) {
    auto it = media.files.find(path);
    if (it == media.files.end()) fail(ErrorKind::internal, "{}: no medium of this request", path);
    return it->second;
  };
  auto picture = [find](const std::string& path) {
    const MediaInfo info = find(path);
    return Picture{info.width, info.height, {}};
  };
  auto reference = [find, picture](const std::string& path) -> Reference {
    switch (find(path).kind) {
      case MediaKind::image: return picture(path);
      case MediaKind::video: {
        const MediaInfo info = find(path);
        Clip clip{info.fps, {}, {}};
        if (info.fps > 0) clip.frames.resize(static_cast<size_t>(std::clamp<int64_t>(info.frames, 0, kMostFrames)), picture(path));
        return clip;
      }
      case MediaKind::sound: break;
    }
    return Sound{};
  };
  return {picture, reference, {}};
}

}  // namespace zt::http

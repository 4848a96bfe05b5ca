#include "serve/worker_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/json.h"
#include "formats/safetensors.h"

namespace fs = std::filesystem;

namespace zt {

namespace {

constexpr const char* kMagic = "zoetrope checkpoint 1\n";
constexpr uintmax_t kMaxCheckpoint = uintmax_t{8} << 30;   // bytes; a 33B job of 15 s at 768p has some 40 MB

[[noreturn]] void trouble(const std::string& path, const char* doing) {
  const int code = errno;
  throw FolderTrouble{fmt::format("{}: {} failed: {}; free space or make the folder writable", path, doing, std::strerror(code))};
}

struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) close(fd);
  }
};

void write_all(int fd, const char* data, size_t bytes, const std::string& path) {
  while (bytes > 0) {
    const ssize_t n = write(fd, data, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) trouble(path, "writing");
    data += n, bytes -= static_cast<size_t>(n);
  }
}

std::string_view bytes_of(const View& v) { return {static_cast<const char*>(v.data), static_cast<size_t>(v.bytes())}; }

std::optional<Tensor> take_tensor(const Json& shape, std::string_view& rest) {
  if (!shape.is_array() || shape.empty() || shape.size() > 4) return std::nullopt;
  Shape dims;
  uint64_t count = 1;
  for (const Json& d : shape) {
    if (!d.is_number_unsigned() || d.get<uint64_t>() == 0 || d.get<uint64_t>() > rest.size() / sizeof(float) / count) return std::nullopt;
    count *= d.get<uint64_t>();
    dims.push_back(d.get<int64_t>());
  }
  Tensor t(dims);
  const size_t bytes = static_cast<size_t>(count) * sizeof(float);
  std::memcpy(t.data(), rest.data(), bytes);
  rest.remove_prefix(bytes);
  return t;
}

}  // namespace

void probe_folder(const std::string& folder) {
  const std::string path = fmt::format("{}/.probe-{}-{}", folder, getpid(), static_cast<const void*>(&folder));
  const std::string bytes(64 << 10, 'z');
  struct Gone {
    const std::string& path;
    ~Gone() { unlink(path.c_str()); }
  } gone{path};
  Descriptor d{open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600)};
  if (d.fd < 0) trouble(folder, "writing");
  write_all(d.fd, bytes.data(), bytes.size(), folder);
  if (fsync(d.fd) != 0) trouble(folder, "writing");
}

void make_folder(const std::string& path) {
  std::error_code ec;
  fs::create_directories(path, ec);
  if (ec) errno = ec.value(), trouble(path, "making the folder");
}

void flush_to_disk(const std::string& path) {
  Descriptor d{open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (d.fd < 0 || fsync(d.fd) != 0) trouble(path, "flushing");
}

void write_file(const std::string& path, const void* data, size_t bytes, bool durable) {
  const std::string part = path + ".part";
  {
    Descriptor d{open(part.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644)};
    if (d.fd < 0) trouble(path, "writing");
    try {
      write_all(d.fd, static_cast<const char*>(data), bytes, path);
      if (durable && fsync(d.fd) != 0) trouble(path, "flushing");
    } catch (...) {
      unlink(part.c_str());
      throw;
    }
  }
  if (rename(part.c_str(), path.c_str()) != 0) trouble(path, "renaming");
}

void write_checkpoint(const std::string& path, const std::string& identity, const DenoiseState& s) {
  std::string payload(bytes_of(s.video_rows));
  payload += bytes_of(s.audio_rows);
  Json header = {{"identity", identity}, {"evaluations", s.evaluations}, {"segment", s.segment}, {"video", s.video_rows.shape}, {"audio", s.audio_rows.shape}};
  header["sha256"] = sha256(header.dump() + payload);
  const std::string file = kMagic + header.dump() + "\n" + payload;
  write_file(path, file.data(), file.size(), false);   // a loss of power may lose it; then the hash or the size tells
}

std::optional<Checkpoint> read_checkpoint(const std::string& path, const std::string& identity) {
  std::error_code ec;
  const uintmax_t size = fs::file_size(path, ec);
  if (ec || size > kMaxCheckpoint) return std::nullopt;
  std::string file(static_cast<size_t>(size), '\0');
  std::ifstream in(path, std::ios::binary);
  if (!in.read(file.data(), static_cast<std::streamsize>(size)) || !file.starts_with(kMagic)) return std::nullopt;
  const size_t start = std::strlen(kMagic), end = file.find('\n', start);
  if (end == std::string::npos) return std::nullopt;
  Json header = Json::parse(file.begin() + static_cast<ptrdiff_t>(start), file.begin() + static_cast<ptrdiff_t>(end), nullptr, false);
  std::string_view rest(file);
  rest.remove_prefix(end + 1);
  if (!header.is_object() || header.value("identity", Json()) != identity) return std::nullopt;
  const Json hash = header.value("sha256", Json());
  header.erase("sha256");
  if (hash != sha256(header.dump() + std::string(rest))) return std::nullopt;
  const Json evaluations = header.value("evaluations", Json()), segment = header.value("segment", Json(0u));
  for (const Json& n : {evaluations, segment})
    if (!n.is_number_unsigned() || n.get<uint64_t>() > INT32_MAX) return std::nullopt;
  auto video = take_tensor(header.value("video", Json()), rest), audio = take_tensor(header.value("audio", Json()), rest);
  if (!video || !audio || !rest.empty()) return std::nullopt;
  return Checkpoint{std::move(*video), std::move(*audio), evaluations.get<int64_t>(), segment.get<int64_t>()};
}

void write_segment(const std::string& path, const std::string& identity, int64_t segment, const Latents& l) {
  write_checkpoint(path, identity + " made", {0, l.video.view(), l.sound.view(), segment});
}

std::optional<Latents> read_segment(const std::string& path, const std::string& identity, int64_t segment) {
  auto saved = read_checkpoint(path, identity + " made");
  if (!saved || saved->segment != segment) return std::nullopt;
  return Latents{std::move(saved->video_rows), std::move(saved->audio_rows)};
}

std::string inside_job_folder(const std::string& data, const std::string& job_folder, const std::string& relative) {
  std::error_code ec;
  const fs::path home = fs::weakly_canonical(fs::path(data) / job_folder, ec), path = fs::weakly_canonical(fs::path(data) / relative, ec);
  const std::string inside = path.string();
  if (relative.empty() || fs::path(relative).is_absolute() || !inside.starts_with(home.string() + "/"))
    fail(ErrorKind::request, "the job names the file \"{}\"; wanted one of its own folder {}", relative, job_folder);
  return inside;
}

}  // namespace zt

#include <openssl/evp.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <set>

#include "base/json.h"
#include "formats/safetensors.h"

namespace zt {

namespace {

// Removes the half-written file unless it was renamed into place.
struct TemporaryFile {
  std::string path;
  std::FILE* file = nullptr;
  ~TemporaryFile() {
    if (file) std::fclose(file);
    if (!path.empty()) std::remove(path.c_str());
  }
};

void write(TemporaryFile& t, const void* data, size_t bytes, const std::string& path) {
  if (bytes && std::fwrite(data, 1, bytes, t.file) != bytes)
    fail(ErrorKind::request, "{}: cannot write: {}; free some space or choose another place", path, std::strerror(errno));
}

std::string header_of(const std::vector<const NamedView*>& order, const StringMap& metadata, const std::string& path) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::set<std::string_view> seen;
  int64_t at = 0;
  for (const NamedView* t : order) {
    if (!seen.insert(t->name).second || t->name == "__metadata__")
      fail(ErrorKind::request, "{}: tensor {} cannot be written: the name stands twice or is reserved", path, t->name);
    int64_t end = at + t->view.bytes();
    header[t->name] = {{"dtype", dtype_name(t->view.dtype)}, {"shape", t->view.shape}, {"data_offsets", {at, end}}};
    at = end;
  }
  std::string text = header.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  return text.append((8 - text.size() % 8) % 8, ' ');  // the data starts aligned
}

}  // namespace

void save_safetensors(const std::string& path, const std::vector<NamedView>& tensors, const StringMap& metadata) {
  std::vector<const NamedView*> order;
  for (const NamedView& t : tensors) order.push_back(&t);
  std::stable_sort(order.begin(), order.end(),
                   [](const NamedView* a, const NamedView* b) { return dtype_bytes(a->view.dtype) > dtype_bytes(b->view.dtype); });
  std::string header = header_of(order, metadata, path);

  TemporaryFile t;
  std::string temporary = fmt::format("{}.tmp{}", path, getpid());
  t.file = std::fopen(temporary.c_str(), "wb");
  if (!t.file) fail(ErrorKind::request, "{}: cannot write: {}; choose another place", path, std::strerror(errno));
  t.path = temporary;
  unsigned char length[8];
  for (int i = 0; i < 8; ++i) length[i] = static_cast<unsigned char>(static_cast<uint64_t>(header.size()) >> (8 * i));
  write(t, length, 8, path);
  write(t, header.data(), header.size(), path);
  for (const NamedView* v : order) write(t, v->view.data, static_cast<size_t>(v->view.bytes()), path);
  int closed = std::fclose(t.file);
  t.file = nullptr;
  if (closed != 0) fail(ErrorKind::request, "{}: cannot write: {}; free some space or choose another place", path, std::strerror(errno));
  if (std::rename(temporary.c_str(), path.c_str()) != 0)
    fail(ErrorKind::request, "{}: cannot be replaced: {}; choose another place", path, std::strerror(errno));
  t.path.clear();
}

std::string sha256(std::string_view bytes) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned length = 0;
  if (EVP_Digest(bytes.data(), bytes.size(), digest, &length, EVP_sha256(), nullptr) != 1)
    fail(ErrorKind::internal, "SHA-256 is not available in this OpenSSL");
  std::string hex;
  for (unsigned i = 0; i < length; ++i) hex += fmt::format("{:02x}", digest[i]);
  return hex;
}

std::string sha256_file(const std::string& path) {
  MappedFile file(path);
  const auto bytes = file.bytes();
  return sha256({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

}  // namespace zt

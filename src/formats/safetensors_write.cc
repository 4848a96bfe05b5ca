#include "formats/safetensors_write.h"

#include <openssl/evp.h>

#include <algorithm>
#include <set>

#include "base/json.h"

namespace zt {

namespace {

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

SafetensorsWriter::SafetensorsWriter(const std::string& path, const std::vector<NamedView>& tensors, const StringMap& metadata) : file_(path) {
  std::vector<const NamedView*> order;
  for (const NamedView& t : tensors) order.push_back(&t), left_.push_back(t.view.bytes());
  std::stable_sort(order.begin(), order.end(),
                   [](const NamedView* a, const NamedView* b) { return dtype_bytes(a->view.dtype) > dtype_bytes(b->view.dtype); });
  const std::string header = header_of(order, metadata, path);
  unsigned char length[8];
  for (int i = 0; i < 8; ++i) length[i] = static_cast<unsigned char>(static_cast<uint64_t>(header.size()) >> (8 * i));
  file_.write(length, 8);
  file_.write(header.data(), header.size());
  at_.resize(tensors.size());
  int64_t at = 8 + static_cast<int64_t>(header.size());
  for (const NamedView* t : order) at_[static_cast<size_t>(t - tensors.data())] = at, at += t->view.bytes();
}

void SafetensorsWriter::begin(size_t tensor) {
  current_ = tensor;
  file_.seek(at_[tensor]);
}

void SafetensorsWriter::write(const void* data, size_t bytes) {
  if (static_cast<int64_t>(bytes) > left_[current_]) fail(ErrorKind::internal, "{}: more bytes than tensor {} has", file_.path(), current_);
  left_[current_] -= static_cast<int64_t>(bytes);
  file_.write(data, bytes);
}

void SafetensorsWriter::commit() {
  for (int64_t left : left_)
    if (left) fail(ErrorKind::internal, "{}: {} bytes of a tensor were not written", file_.path(), left);
  file_.commit();
}

void save_safetensors(const std::string& path, const std::vector<NamedView>& tensors, const StringMap& metadata) {
  SafetensorsWriter writer(path, tensors, metadata);
  for (size_t i = 0; i < tensors.size(); ++i) {
    writer.begin(i);
    writer.write(tensors[i].view.data, static_cast<size_t>(tensors[i].view.bytes()));
  }
  writer.commit();
}

void save_index(const std::string& path, const std::string& shard, const std::vector<NamedView>& tensors) {
  Json map = Json::object();
  int64_t bytes = 0;
  for (const NamedView& t : tensors) map[t.name] = shard, bytes += t.view.bytes();
  const std::string text = Json{{"metadata", {{"total_size", bytes}}}, {"weight_map", map}}.dump(1) + "\n";
  OutputFile f(path);
  f.write(text.data(), text.size());
  f.commit();
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

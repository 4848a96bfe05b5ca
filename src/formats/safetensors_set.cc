#include <algorithm>
#include <filesystem>
#include <regex>
#include <set>

#include "base/json.h"
#include "formats/safetensors.h"

namespace fs = std::filesystem;

namespace zt {

namespace {

constexpr std::string_view kSuffix = ".safetensors", kIndexSuffix = ".safetensors.index.json";

bool ends_with(std::string_view s, std::string_view end) { return s.size() >= end.size() && s.substr(s.size() - end.size()) == end; }

bool exists(const fs::path& p) {
  std::error_code e;
  return fs::exists(p, e);
}

// "X" of "X-00002-of-00005.safetensors"; empty if `file` is not named like a shard.
std::string shard_stem(const std::string& file) {
  static const std::regex pattern(R"(([^/]{1,200})-\d{1,9}-of-\d{1,9}\.safetensors)");
  std::smatch m;
  return file.size() < 240 && std::regex_match(file, m, pattern) ? m[1].str() : "";
}

std::vector<std::string> weight_files(const std::string& folder) {
  std::vector<std::string> out;
  std::error_code e;
  for (fs::directory_iterator it(folder, e), end; !e && it != end; it.increment(e)) {
    std::string name = it->path().filename().string();
    if (ends_with(name, kSuffix)) out.push_back(name);
  }
  if (e) fail(ErrorKind::model, "{}: cannot be listed: {}", folder, e.message());
  std::sort(out.begin(), out.end());
  return out;
}

// The weights file or the index of a component's folder.
std::string pick(const std::string& folder, const std::string& stem) {
  std::vector<std::string> stems =
      stem.empty() ? std::vector<std::string>{"diffusion_pytorch_model", "model"} : std::vector<std::string>{stem};
  std::vector<std::string> found;
  for (const std::string& s : stems)
    for (std::string_view suffix : {kSuffix, kIndexSuffix}) {
      std::string p = folder + "/" + s + std::string(suffix);
      if (exists(p)) found.push_back(p);
    }
  if (found.size() > 1)
    fail(ErrorKind::model, "{}: found both {} and {}, wanted one of them; remove the other", folder, found[0], found[1]);
  if (found.size() == 1) return found[0];
  std::vector<std::string> files = weight_files(folder);
  for (const std::string& f : files)
    if (std::string s = shard_stem(f); !s.empty())
      fail(ErrorKind::model, "{}/{}: a shard without its index: {}{} is missing; copy it from where the shards came from", folder, f, s,
           kIndexSuffix);
  if (stem.empty() && files.size() == 1) return folder + "/" + files[0];
  if (files.size() > 1 && stem.empty())
    fail(ErrorKind::model, "{}: found {} and {} more .safetensors, wanted one, or an index", folder, files[0], files.size() - 1);
  fail(ErrorKind::model, "{}: no weights: wanted {}{} or {}{}", folder, stems[0], kSuffix, stems[0], kIndexSuffix);
}

// What an index says, its form checked.
struct Index {
  StringMap file_of;               // tensor -> file name
  std::vector<std::string> files;  // sorted, each once
  StringMap sha256;
  int64_t total_size = -1;
};

Index read_index(const std::string& path) {
  Json json = read_json(path);
  JsonView view(json, path);
  Index out;
  std::set<std::string> files;
  for (const auto& [tensor, file] : view.child("weight_map").json().items()) {
    std::string name = file.is_string() ? file.get<std::string>() : "";
    // A name with a folder in it could lead anywhere on this machine.
    if (name.find('/') != std::string::npos || name.find('\\') != std::string::npos || name.find('\0') != std::string::npos ||
        !ends_with(name, kSuffix))
      fail(ErrorKind::model, "{}: tensor {}: found the file name {}, wanted the plain name of a .safetensors beside the index", path,
           tensor, file.dump(-1, ' ', true, Json::error_handler_t::replace));
    out.file_of[tensor] = name;
    files.insert(name);
  }
  if (files.empty()) fail(ErrorKind::model, "{}: weight_map names no tensor", path);
  out.files.assign(files.begin(), files.end());
  if (view.has("metadata")) {
    JsonView metadata = view.child("metadata");
    if (metadata.has("total_size")) out.total_size = metadata.integer("total_size", 0, int64_t{1} << 50);
    if (metadata.has("sha256")) {
      JsonView hashes = metadata.child("sha256");
      for (const auto& [file, unused] : hashes.json().items()) out.sha256[file] = hashes.text(file);
    }
  }
  return out;
}

void check_index(const Index& index, const SafetensorsSet& set, const std::string& path) {
  for (const auto& [tensor, file] : index.file_of) {
    if (!set.find(tensor)) fail(ErrorKind::model, "{}: tensor {} should be in {}, but is not there", path, tensor, file);
    if (fs::path(set.file_of(tensor)).filename() != file)
      fail(ErrorKind::model, "{}: tensor {} should be in {}, but is in {}", path, tensor, file, set.file_of(tensor));
  }
  for (const std::string& name : set.names())
    if (!index.file_of.count(name)) fail(ErrorKind::model, "{}: tensor {} of {} is not named by the index", path, name, set.file_of(name));
  if (index.total_size >= 0 && index.total_size != set.total_bytes())
    fail(ErrorKind::model, "{}: found {} bytes of tensors in the shards, wanted the total_size {}", path, set.total_bytes(),
         index.total_size);
}

std::string checked_hash(std::string text, const std::string& origin) {
  text = text.substr(0, text.find_first_of(" \t\r\n*"));
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (text.size() != 64 || text.find_first_not_of("0123456789abcdef") != std::string::npos)
    fail(ErrorKind::model, "{}: does not begin with the 64 hex digits of a SHA-256", origin);
  return text;
}

}  // namespace

void SafetensorsSet::add(SafetensorsFile file) {
  const size_t f = files_.size();
  for (size_t i = 0; i < file.tensors().size(); ++i) {
    const std::string& name = file.tensors()[i].name;
    auto [it, fresh] = where_.try_emplace(name, f, i);
    if (!fresh) fail(ErrorKind::model, "{}: tensor {} is in {} too", file.path(), name, files_[it->second.first].path());
  }
  files_.push_back(std::move(file));
}

std::vector<std::string> SafetensorsSet::names() const {
  std::vector<std::string> out;
  for (const SafetensorsFile& f : files_)
    for (const NamedView& t : f.tensors()) out.push_back(t.name);
  return out;
}

const View* SafetensorsSet::find(std::string_view name) const {
  auto it = where_.find(std::string(name));
  return it == where_.end() ? nullptr : &files_[it->second.first].tensors()[it->second.second].view;
}

const std::string& SafetensorsSet::file_of(std::string_view name) const {
  auto it = where_.find(std::string(name));
  if (it == where_.end()) fail(ErrorKind::model, "{}: tensor {} is missing", origin_, name);
  return files_[it->second.first].path();
}

int64_t SafetensorsSet::total_bytes() const {
  int64_t n = 0;
  for (const SafetensorsFile& f : files_) n += f.total_bytes();
  return n;
}

std::vector<SafetensorsSet::FileHash> SafetensorsSet::sha256() const {
  std::vector<FileHash> out;
  for (const SafetensorsFile& f : files_) {
    std::string beside = f.path() + ".sha256";
    std::string wanted;
    if (auto it = stated_.find(f.path()); it != stated_.end()) {
      wanted = checked_hash(it->second, origin_ + ": sha256 of " + f.path());
    } else if (exists(beside)) {
      MappedFile text(beside);
      wanted = checked_hash({reinterpret_cast<const char*>(text.bytes().data()), std::min<size_t>(text.bytes().size(), 200)}, beside);
    } else {
      continue;
    }
    out.push_back({f.path(), wanted, sha256_file(f.path())});
  }
  return out;
}

SafetensorsSet open_weights(const std::string& path, const std::string& stem) {
  std::error_code e;
  if (!fs::exists(path, e)) fail(ErrorKind::model, "{}: no such file or folder", path);
  std::string file = fs::is_directory(path, e) ? pick(path, stem) : path;
  const fs::path folder = fs::path(file).parent_path();
  if (std::string s = shard_stem(fs::path(file).filename().string()); !s.empty()) {
    std::string index = (folder / (s + std::string(kIndexSuffix))).string();
    if (!exists(index))
      fail(ErrorKind::model, "{}: a shard without its index: {} is missing; copy it from where the shards came from", file, index);
    file = index;
  }
  SafetensorsSet set;
  set.origin_ = file;
  if (!ends_with(file, ".json")) {
    set.add(SafetensorsFile(file));
    return set;
  }
  Index index = read_index(file);
  for (const std::string& name : index.files) {
    std::string shard = (folder / name).string();
    if (!exists(shard)) fail(ErrorKind::model, "{}: shard {} is missing; the index names it", file, shard);
    set.add(SafetensorsFile(shard));
  }
  check_index(index, set, file);
  for (const auto& [name, hash] : index.sha256) set.stated_[(folder / name).string()] = hash;
  return set;
}

}  // namespace zt

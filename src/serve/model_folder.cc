#include "serve/model_folder.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "media/part_file.h"

namespace fs = std::filesystem;

namespace zt {

namespace {

constexpr int kMaxDepth = 8;                       // a link may lead back up
constexpr uintmax_t kLinked = uintmax_t{1} << 20;  // smaller files are copied: people edit them in place

bool is_weights(const std::string& name) {
  for (const char* end : {".safetensors", ".safetensors.index.json", ".gguf", ".sha256"})
    if (name.ends_with(end)) return true;
  return false;
}

void link_or_copy(const fs::path& from, const fs::path& to) {
  std::error_code e;
  const fs::path file = fs::canonical(from, e);    // the file itself, not a link to it
  if (!e && fs::file_size(file, e) >= kLinked && !e) {
    fs::create_hard_link(file, to, e);
    if (!e) return;                                // another disk, or one without links: a copy does
  }
  e.clear();
  fs::copy_file(from, to, e);
  if (e) fail(ErrorKind::request, "{}: cannot be copied to {}: {}", from.string(), to.string(), e.message());
}

void copy_tree(const fs::path& from, const fs::path& to, const std::set<std::string>& rewritten, bool weights, int depth, const std::atomic<bool>& cancel) {
  std::error_code e;
  if (depth > kMaxDepth) fail(ErrorKind::request, "{}: more than {} folders within each other; does a link lead back?", from.string(), kMaxDepth);
  fs::create_directory(to, e);                     // no error if it is there: the outermost is
  if (e) fail(ErrorKind::request, "{}: cannot be made: {}", to.string(), e.message());
  fs::directory_iterator it(from, e);
  for (const fs::directory_iterator end; !e && it != end; it.increment(e)) {
    if (cancel) throw Cancelled();
    const std::string name = it->path().filename().string();
    if (name.starts_with(".") || (!weights && is_weights(name))) continue;
    std::error_code kind;
    if (it->is_directory(kind)) copy_tree(it->path(), to / name, {}, !rewritten.count(name), depth + 1, cancel);
    else link_or_copy(it->path(), to / name);
  }
  if (e) fail(ErrorKind::request, "{}: cannot be read: {}", from.string(), e.message());
}

}  // namespace

NewModelFolder::NewModelFolder(const std::string& model, const std::string& out) : model_(model) {
  fs::path p = fs::path(out).lexically_normal();
  if (!p.has_filename()) p = p.parent_path();      // "folder/"
  const std::string name = p.filename().string();
  if (name.empty() || name == "." || name == "..") fail(ErrorKind::request, "--output \"{}\": wanted the name of a folder to make", out);
  std::error_code e;
  if (fs::symlink_status(p, e).type() != fs::file_type::not_found) fail(ErrorKind::request, "--output {}: is there already; choose another name or remove it", out);
  const fs::path parent = p.has_parent_path() ? p.parent_path() : fs::path(".");
  if (!fs::is_directory(parent, e)) fail(ErrorKind::request, "--output {}: found no folder {}, wanted one; make it first", out, parent.string());
  const fs::path inside = fs::canonical(parent, e).lexically_relative(fs::canonical(model, e));
  if (!inside.empty() && *inside.begin() != "..") fail(ErrorKind::request, "--output {}: lies in the model {}; choose another place", out, model);
  out_ = p.string();
  const std::string part = part_name(out_);
  if (mkdir(part.c_str(), 0777) != 0)
    fail(ErrorKind::request, "--output {}: {} cannot be made: {}{}", out, part, std::strerror(errno),
         errno == EEXIST ? "; another run is at work, or one was killed: remove it" : "; choose another place");
  part_ = part;
}

NewModelFolder::~NewModelFolder() {
  std::error_code e;
  if (!part_.empty()) fs::remove_all(part_, e);
}

void NewModelFolder::copy_rest(const std::set<std::string>& rewritten, const std::atomic<bool>& cancel) {
  copy_tree(model_, part_, rewritten, true, 0, cancel);
}

std::string NewModelFolder::component(const std::string& name) { return part_ + "/" + name; }

void NewModelFolder::commit() {
  std::error_code e;
  if (fs::symlink_status(out_, e).type() != fs::file_type::not_found) fail(ErrorKind::request, "--output {}: was made meanwhile; choose another name", out_);
  if (std::rename(part_.c_str(), out_.c_str()) != 0) fail(ErrorKind::request, "--output {}: cannot be made: {}; choose another place", out_, std::strerror(errno));
  part_.clear();
}

}  // namespace zt

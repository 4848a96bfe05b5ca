#include "media/part_file.h"

#include <filesystem>

#include "base/error.h"

namespace zt {

std::string part_name(const std::string& path) {
  std::filesystem::path p(path);
  return (p.parent_path() / ("." + p.filename().string() + ".part")).string();
}

void check_output(const std::string& path) {
  using std::filesystem::file_type;
  std::error_code ignored;
  const std::filesystem::path p(path);
  if (!p.has_filename()) fail(ErrorKind::request, "output \"{}\": found no file name, wanted one such as clip.mp4", path);
  const file_type kind = std::filesystem::status(p, ignored).type();
  if (kind != file_type::not_found && kind != file_type::none && kind != file_type::regular)
    fail(ErrorKind::request, "output {}: found a folder or a device, wanted the name of a file; choose another", path);
  const auto folder = p.has_parent_path() ? p.parent_path() : std::filesystem::path(".");
  if (!std::filesystem::is_directory(folder, ignored))
    fail(ErrorKind::request, "output {}: found no folder {}, wanted one; make it first", path, folder.string());
}

}  // namespace zt

#pragma once
// Where an output is written before it gets its name.
#include <string>

namespace zt {

// ".NAME.part" in the same folder, so that the rename at the end stays on one disk.
std::string part_name(const std::string& path);
// Errors (request): no file name, no such folder, a folder or device in its place.
void check_output(const std::string& path);

}  // namespace zt

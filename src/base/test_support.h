#pragma once
// What tests of refusals and of files share.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <initializer_list>
#include <string>

#include "base/error.h"

namespace zt {

// The text of the Error that `body` throws; a failure of the test if there is none, or one of another kind.
template <class Body>
std::string message(Body&& body, ErrorKind kind = ErrorKind::request) {
  try {
    body();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, kind) << e.what();
    return e.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

inline void expect_words(const std::string& text, std::initializer_list<const char*> words) {
  for (const char* word : words) EXPECT_NE(text.find(word), std::string::npos) << "\"" << word << "\" is not in: " << text;
}

// An empty folder, gone with this object.
class TestFolder {
 public:
  TestFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "zt_test_XXXXXX").string();
    if (!mkdtemp(name.data())) fail(ErrorKind::resource, "{}: cannot make a folder; free space there or set TMPDIR", name);
    path_ = name;
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;
  ~TestFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }
  std::string file(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace zt

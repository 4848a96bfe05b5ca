#include "base/mapped_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/error.h"

namespace zt {
namespace {

class MappedFiles : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/zt_mapped_XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string file(const std::string& name, const std::string& text) {
    std::ofstream(folder_ + "/" + name, std::ios::binary) << text;
    return folder_ + "/" + name;
  }
  std::string refusal(const std::string& path) {
    try {
      MappedFile f(path);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind, ErrorKind::model);
      return e.what();
    }
    return "no error";
  }
  std::string folder_;
};

TEST_F(MappedFiles, HoldTheBytesAndMove) {
  std::string text("a\0b", 3);
  MappedFile f(file("x", text));
  EXPECT_EQ(f.path(), folder_ + "/x");
  MappedFile g(std::move(f));
  ASSERT_EQ(g.bytes().size(), 3u);
  EXPECT_EQ(std::memcmp(g.bytes().data(), text.data(), 3), 0);
  EXPECT_TRUE(f.bytes().empty());   // NOLINT: what is left must be harmless
  EXPECT_TRUE(MappedFile(file("empty", "")).bytes().empty());
}

TEST_F(MappedFiles, WhatIsNoFileIsRefused) {
  EXPECT_NE(refusal(folder_ + "/none").find("No such file"), std::string::npos);
  EXPECT_NE(refusal(folder_).find("not a regular file"), std::string::npos);
  std::string fifo = folder_ + "/fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_NE(refusal(fifo).find("not a regular file"), std::string::npos);   // and doesn't wait for a writer
  EXPECT_NE(refusal("").find("cannot open"), std::string::npos);
}

}  // namespace
}  // namespace zt

#include "base/mapped_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/test_support.h"

namespace zt {
namespace {

class MappedFiles : public testing::Test {
 protected:
  std::string file(const std::string& name, const std::string& text) {
    std::ofstream(folder_.file(name), std::ios::binary) << text;
    return folder_.file(name);
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
  const TestFolder folder_;
};

TEST_F(MappedFiles, HoldTheBytesAndMove) {
  std::string text("a\0b", 3);
  MappedFile f(file("x", text));
  EXPECT_EQ(f.path(), folder_.file("x"));
  MappedFile g(std::move(f));
  ASSERT_EQ(g.bytes().size(), 3u);
  EXPECT_EQ(std::memcmp(g.bytes().data(), text.data(), 3), 0);
  EXPECT_TRUE(f.bytes().empty());   // NOLINT: what is left must be harmless
  EXPECT_TRUE(MappedFile(file("empty", "")).bytes().empty());
}

TEST_F(MappedFiles, WhatIsNoFileIsRefused) {
  EXPECT_NE(refusal(folder_.file("none")).find("No such file"), std::string::npos);
  EXPECT_NE(refusal(folder_.path()).find("not a regular file"), std::string::npos);
  std::string fifo = folder_.file("fifo");
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_NE(refusal(fifo).find("not a regular file"), std::string::npos);   // and doesn't wait for a writer
  EXPECT_NE(refusal("").find("cannot open"), std::string::npos);
}

// Past the mapping: what was cut off the file is an error with its name, not a signal.
TEST_F(MappedFiles, ReadPieces) {
  std::string text(100000, 'x');
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 7 % 251);
  const std::string path = file("x", text);
  const MappedFile f(path);
  const std::atomic<bool> go{false}, stop{true};
  std::string out(70001, 0);
  for (bool forget : {false, true}) {
    std::fill(out.begin(), out.end(), 0);
    f.read(f.bytes().subspan(123, out.size()), out.data(), forget, go);
    EXPECT_EQ(out, text.substr(123, out.size()));
  }
  std::fill(out.begin(), out.end(), 0);
  f.read(f.bytes().subspan(0, out.size()), out.data(), true, stop);
  EXPECT_EQ(out, std::string(out.size(), 0));
  std::filesystem::resize_file(path, 50000);
  f.read(f.bytes().subspan(0, 50000), out.data(), true, go);
  const std::string refused = message([&] { f.read(f.bytes().subspan(40000, 20000), out.data(), true, go); }, ErrorKind::model);
  expect_words(refused, {path.c_str(), "ends at byte 50000", "had 100000", "cut short"});
}

}  // namespace
}  // namespace zt

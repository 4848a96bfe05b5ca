// Large files in an S3-compatible store. tests/results.py starts one and runs these; they skip where the environment names none.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/environment.h"
#include "base/error.h"
#include "formats/safetensors.h"
#include "serve/store/result_store.h"

namespace zt {
namespace {

namespace fs = std::filesystem;

constexpr size_t kBytes = (size_t{70} << 20) + 12345;   // five parts, the last one short
const std::string kName = "jobs/video_large/run.1/video.mp4";

class S3Results : public testing::Test {
 protected:
  void SetUp() override {
    if (aws_environment().endpoint.empty()) GTEST_SKIP() << "no store; tests/results.py has one";
    folder_ = fs::temp_directory_path() / ("zt_s3_" + std::to_string(getpid()));
    fs::create_directories((folder_ / kName).parent_path());
    bytes_.resize(kBytes);
    uint32_t x = 1;
    for (char& c : bytes_) x = x * 1664525 + 1013904223, c = static_cast<char>(x >> 24);
    std::ofstream(folder_ / kName, std::ios::binary) << bytes_;
    sha256_ = sha256(bytes_);
    store_ = open_results("s3://clips/zt/one", folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path folder_;
  std::string bytes_, sha256_;
  std::unique_ptr<ResultStore> store_;
};

TEST_F(S3Results, ALargeFileIsKeptInParts) {
  ASSERT_TRUE(store_->keep(kName, "video/mp4", sha256_, nullptr));
  const auto kept = store_->open(kName);
  ASSERT_TRUE(kept);
  ASSERT_EQ(kept->bytes, kBytes);
  for (const size_t at : {size_t{0}, (size_t{16} << 20) - 7, (size_t{64} << 20) + 1, kBytes - 100}) {
    const size_t n = std::min<size_t>(1000, kBytes - at);
    EXPECT_TRUE(kept->read(at, n) == bytes_.substr(at, n)) << at;
  }
  ASSERT_TRUE(store_->fetch(kName, folder_ / "back"));
  std::ifstream f(folder_ / "back", std::ios::binary);
  EXPECT_TRUE(std::string(std::istreambuf_iterator<char>(f), {}) == bytes_);
}

TEST_F(S3Results, ALargeFileOnABrokenStoreIsAnError) {
  EXPECT_THROW(store_->keep(kName, "video/mp4", sha256_, nullptr), Error);
}

TEST_F(S3Results, AnotherFileThanWasMadeIsRefused) {
  sha256_[0] = sha256_[0] == '0' ? '1' : '0';
  EXPECT_THROW(store_->keep(kName, "video/mp4", sha256_, nullptr), Error);
  EXPECT_FALSE(store_->open(kName));
}

TEST_F(S3Results, ALargeFileCanBeCancelled) {
  std::atomic<bool> cancel{false};
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(1500));   // the store stalls at a part
    cancel = true;
  });
  EXPECT_FALSE(store_->keep(kName, "video/mp4", sha256_, &cancel));
  later.join();
}

TEST_F(S3Results, WhatAKilledProcessBeganIsSwept) {
  store_->sweep([](const std::string&, const std::string&) { return true; });
}

}  // namespace
}  // namespace zt

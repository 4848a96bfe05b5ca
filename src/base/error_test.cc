#include "base/error.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/environment.h"

namespace zt {
namespace {

TEST(Error, KindsMapToExitCodesAndHttp) {
  EXPECT_EQ(exit_code(ErrorKind::request), 2);
  EXPECT_EQ(exit_code(ErrorKind::model), 3);
  EXPECT_EQ(exit_code(ErrorKind::resource), 4);
  EXPECT_EQ(exit_code(ErrorKind::internal), 1);
  EXPECT_EQ(http_status(ErrorKind::request), 400);
  EXPECT_EQ(http_status(ErrorKind::model), 422);
  EXPECT_EQ(http_status(ErrorKind::resource), 503);
  EXPECT_EQ(http_status(ErrorKind::internal), 500);
}

TEST(Error, CarriesKindAndText) {
  try {
    fail(ErrorKind::model, "{}: found {}, wanted {}", "x", 1, 2);
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, ErrorKind::model);
    EXPECT_STREQ(e.what(), "x: found 1, wanted 2");
  }
}

TEST(Environment, EmptyIsUnset) {
  setenv("ZT_ISA", "avx2", 1);
  EXPECT_STREQ(wanted_isa(), "avx2");
  setenv("ZT_ISA", "", 1);
  EXPECT_EQ(wanted_isa(), nullptr);
  unsetenv("ZT_ISA");
  EXPECT_EQ(wanted_isa(), nullptr);
}

}  // namespace
}  // namespace zt

#pragma once
// What tests of refusals share.
#include <gtest/gtest.h>

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

}  // namespace zt

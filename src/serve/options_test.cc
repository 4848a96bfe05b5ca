#include "serve/options.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "base/error.h"

namespace zt {
namespace {

TEST(Options, TheDocumentedTableIsThisTable) {
  std::ifstream file(std::string(ZT_SOURCE_DIR) + "/docs/cli.md");
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  EXPECT_NE(text.find(options_markdown()), std::string::npos) << "docs/cli.md does not hold this table:\n" << options_markdown();
}

TEST(Options, ComeBackFromTheirJson) {
  GenerateOptions o;
  o.prompt = "waves \"and\" gulls";
  o.references = {"a.png", "b.mp4"};
  o.seed = ~uint64_t{0};
  o.frames = 22;
  o.seconds = 1.5;
  GenerateOptions back;
  back.frames = 39;   // what is already given stays
  fill_from_json(options_to_json(o), back);
  EXPECT_EQ(back.prompt, o.prompt);
  EXPECT_EQ(back.references, o.references);
  EXPECT_EQ(back.seed, o.seed);
  EXPECT_EQ(back.seconds, o.seconds);
  EXPECT_EQ(back.frames, 39);
  EXPECT_FALSE(back.steps.has_value());
}

TEST(Options, RefuseJsonOfAnotherType) {
  GenerateOptions o;
  try {
    fill_from_json(Json{{"prompt", 3}}, o);
    FAIL() << "a number was taken for a prompt";
  } catch (const Error& e) {
    EXPECT_EQ(static_cast<int>(e.kind), static_cast<int>(ErrorKind::request));
    EXPECT_NE(std::string(e.what()).find("\"prompt\" is 3"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace zt

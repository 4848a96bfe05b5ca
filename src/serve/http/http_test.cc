#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "serve/http/body.h"
#include "serve/http/errors.h"
#include "serve/http/fields.h"
#include "serve/http/keys.h"
#include "serve/http/metrics.h"
#include "serve/http/multipart.h"
#include "serve/http/url_fetch.h"

namespace zt::http {
namespace {

std::string param_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const HttpError& e) {
    return fmt::format("{} {}", e.status, e.param);
  }
  return "nothing was refused";
}

TEST(Multipart, PartsComeWithTheirBytes) {
  const std::string body =
      "preamble\r\n--B\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\none\r\n--B  \r\ncontent-disposition: FORM-DATA; filename=\"x\\\"y.png\"; name=b\r\n"
      "Content-Type: image/PNG\r\n\r\n\r\n--C\r\ntwo\r\n--B--\r\nepilogue";
  const auto parts = parse_multipart(body, "B");
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[0].name, "a");
  EXPECT_FALSE(parts[0].is_file);
  EXPECT_EQ(parts[0].data, "one");
  EXPECT_EQ(parts[1].name, "b");
  EXPECT_TRUE(parts[1].is_file);
  EXPECT_EQ(parts[1].type, "image/png");
  EXPECT_TRUE(parts[1].data.starts_with("\r\n--C\r\n"));   // not our boundary
}

TEST(Multipart, BoundariesAreThoseOfTheStandard) {
  EXPECT_EQ(multipart_boundary("multipart/form-data; charset=x; boundary=\"a b\""), "a b");
  EXPECT_EQ(multipart_boundary("Multipart/Form-Data;boundary=x"), "x");
  EXPECT_FALSE(multipart_boundary("multipart/form-data"));
  EXPECT_FALSE(multipart_boundary("multipart/mixed; boundary=x"));
  EXPECT_FALSE(multipart_boundary("multipart/form-data; boundary=" + std::string(71, 'x')));
  EXPECT_FALSE(multipart_boundary("multipart/form-data; boundary=\"x"));
}

TEST(Multipart, EveryPrefixOfABodyIsRefused) {
  const std::string body = "--B\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\none\r\n--B--";
  for (size_t n = 0; n < body.size(); ++n) EXPECT_EQ(param_of([&] { parse_multipart(body.substr(0, n), "B"); }), "400 body") << n;
  EXPECT_EQ(parse_multipart(body, "B").size(), 1u);
}

TEST(Body, BracketsNestAndAppend) {
  Request r;
  r.headers = {{"content-type", "application/x-www-form-urlencoded"}};
  r.body = "conditions[][type]=image&conditions[][uri]=u&conditions[][type]=audio&references[]=a&references[]=b&target[fps]=24";
  const Json f = read_body(r).fields;
  EXPECT_EQ(f["conditions"], (Json{{{"type", "image"}, {"uri", "u"}}, {{"type", "audio"}}}));
  EXPECT_EQ(f["references"], (Json{"a", "b"}));
  EXPECT_EQ(f["target"]["fps"], "24");
}

TEST(Body, Base64) {
  EXPECT_EQ(decode_base64("aGVsbG8="), "hello");
  EXPECT_EQ(decode_base64("aGVs\nbG8"), "hello");
  EXPECT_EQ(decode_base64("_-8="), "\xff\xef");
  for (const char* bad : {"a", "aGVsbG8==", "aGVs=bG8", "a===", "aG Vs!", "="}) EXPECT_FALSE(decode_base64(bad)) << bad;
}

CreateFields fields_of(const Json& body, bool lenient = false) {
  static const h3::ModelIndex index{};
  return read_fields({body, false}, {index, {"MiniMax-H3", "sora-2"}, "exact", lenient});
}

TEST(Fields, EverySpellingMeansAnOption) {
  const CreateFields f = fields_of({{"prompt", "p"},
                                    {"num_inference_steps", 8},
                                    {"target", {{"short_edge", 768}, {"aspect_ratio", "auto"}, {"duration_seconds", 5}}},
                                    {"extra_params", {{"seed", 18446744073709551615u}}},
                                    {"conditions", {{{"type", "image"}, {"uri", "data:x"}, {"role", "keyframe"}, {"frame_index", -1}}}}});
  EXPECT_EQ(f.options, (Json{{"prompt", "p"}, {"steps", 8}, {"short_edge", 768}, {"seconds", 5.0}, {"seed", 18446744073709551615u}}));
  ASSERT_EQ(f.media.size(), 1u);
  EXPECT_EQ(static_cast<int>(f.media[0].use), static_cast<int>(MediaInput::Use::last_frame));
  EXPECT_EQ(f.media[0].where, "conditions[0].uri");
  EXPECT_EQ(f.spelled.at("seconds"), "target.duration_seconds");
}

TEST(Fields, OpenAisSizesBecomeTheModelsCanvas) {
  const CreateFields f = fields_of({{"prompt", "p"}, {"size", "1280x720"}, {"seconds", "4"}});
  EXPECT_EQ(f.options["size"], "1344x768");
  EXPECT_EQ(f.options["seconds"], 4.0);
  EXPECT_EQ(f.seconds, "4");
  EXPECT_EQ(f.warnings.size(), 1u);
}

TEST(Fields, UnknownOnesAreRefusedOrWarnedAbout) {
  EXPECT_EQ(param_of([] { fields_of({{"prompt", "p"}, {"colour", 1}}); }), "400 colour");
  EXPECT_EQ(param_of([] { fields_of({{"target", {{"colour", 1}}}}); }), "400 target.colour");
  EXPECT_EQ(fields_of({{"prompt", "p"}, {"colour", 1}}, true).warnings.size(), 1u);
}

TEST(Fields, AdaptersAreTheModelsOwn) {
  for (const Json& lora : {Json("../model"), Json("/etc/passwd"), Json("none"), Json::array({"none:0.5"}), Json::array({{{"name", "none"}, {"strength", 2}}}),
                           Json::array({1}), Json::array({Json::array()}), Json(""), Json(".")})
    EXPECT_EQ(param_of([&] { fields_of({{"prompt", "p"}, {"lora", lora}}); }).substr(0, 8), "400 lora") << lora.dump();
}

TEST(Fields, ErrorsOfTheEngineNameTheClientsField) {
  const CreateFields f = fields_of({{"prompt", "p"}, {"num_inference_steps", 1}, {"target", {{"duration_seconds", 99}}}});
  EXPECT_EQ(param_of([&] { rethrow_named("--steps is 1; wanted 2 to 1001", f); }), "400 num_inference_steps");
  EXPECT_EQ(param_of([&] { rethrow_named("2376 frames are 99 s. A --config with max_duration_s moves the limits", f); }), "400 target.duration_seconds");
  EXPECT_EQ(param_of([&] { rethrow_named("--size and --short-edge say the same", f); }), "400 size");
}

TEST(UrlFetch, OnlyPublicAddressesAreSpokenTo) {
  for (const char* ip : {"127.0.0.1", "127.9.9.9", "0.0.0.0", "10.1.2.3", "100.64.0.1", "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.168.1.1", "192.0.0.8",
                         "198.18.0.1", "224.0.0.1", "255.255.255.255", "::", "::1",
                         "::ffff:127.0.0.1", "::ffff:8.8.8.8", "fe80::1", "fc00::1", "fd12::1", "ff02::1",
                         "64:ff9b::7f00:1", "2001:db8::1", "2002:7f00:1::", "2002:a00:1::", "2001::1", "", "x", "8.8.8", "0x7f000001"})
    EXPECT_FALSE(is_public_address(ip)) << ip;
  for (const char* ip : {"8.8.8.8", "1.1.1.1", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "2a00:1450::1", "2002:808:808::"})
    EXPECT_TRUE(is_public_address(ip)) << ip;
  EXPECT_THROW(fetch_url("http://127.0.0.1:1/x", {}), Error);
  EXPECT_THROW(fetch_url("file:///etc/hostname", {}), Error);
}

TEST(Keys, AreKnownByTheirHashAlone) {
  const std::string path = testing::TempDir() + "keys.json";
  std::ofstream(path) << R"({"keys": [{"id": "ann", "sha256":
    "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824", "scopes": ["read"], "per_minute": 2}]})";
  Keys keys(path);
  const Key* ann = keys.identify("hello");
  ASSERT_TRUE(ann);
  EXPECT_EQ(ann->scopes, static_cast<unsigned>(kRead));
  EXPECT_FALSE(keys.identify("Hello"));
  EXPECT_FALSE(keys.identify(""));
  EXPECT_EQ(keys.take(*ann), 0);
  EXPECT_EQ(keys.take(*ann), 0);
  EXPECT_NEAR(keys.take(*ann), 30, 1);
  std::ofstream(path) << R"({"keys": [{"id": "ann", "sha256": "secret"}]})";
  EXPECT_THROW(Keys{path}, Error);
}

TEST(Metrics, TheDocumentedTableIsThisTable) {
  std::ifstream file(std::string(ZT_SOURCE_DIR) + "/docs/server.md");
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  EXPECT_NE(text.find(metrics_markdown()), std::string::npos) << "docs/server.md does not hold this table:\n" << metrics_markdown();
}

}  // namespace
}  // namespace zt::http

// Adapters come and go with requests, and leave nothing behind.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "formats/safetensors.h"
#include "pipeline/test_support.h"

namespace zt {
namespace {

std::vector<float> made(Engine& engine, const std::vector<AdapterUse>& adapters) {
  Request r = small_request(engine, "a red circle bounces", 64, 22);
  r.adapters = adapters;
  return clip_of(engine, r);
}

TEST(Adapters, AreSwappedByRequestAndLeaveTheBaseAsItWas) {
  const std::string path = (std::filesystem::temp_directory_path() / fmt::format("zt_adapter_{}.safetensors", getpid())).string();
  Engine engine(std::string(ZT_SOURCE_DIR) + "/models/h3-nano", fast_plan(), 2);
  const std::vector<float> plain = made(engine, {});
  const SafetensorsFile base(engine.index().folder + "/transformer/diffusion_pytorch_model.safetensors");
  const View* q = base.find("transformer_blocks.0.attn.to_out.0.weight");
  ASSERT_NE(q, nullptr);
  std::vector<float> down(static_cast<size_t>(q->shape[1]), 0.2f), up(static_cast<size_t>(q->shape[0]), 0.1f);
  save_safetensors(path, {{"transformer_blocks.0.attn.to_out.0.lora_A.weight", {down.data(), DType::f32, {1, q->shape[1]}}},
                          {"transformer_blocks.0.attn.to_out.0.lora_B.weight", {up.data(), DType::f32, {q->shape[0], 1}}}});
  const std::vector<float> with = made(engine, {{path, 1}});
  EXPECT_NE(with, plain);
  EXPECT_EQ(made(engine, {{path, 1}}), with);      // the resident one again
  EXPECT_NE(made(engine, {{path, 0.5}}), with);
  EXPECT_EQ(made(engine, {}), plain);
  save_safetensors(path, {{"other.lora_A.weight", {down.data(), DType::f32, {1, 4}}}});
  EXPECT_THROW(made(engine, {{path, 1}}), Error);
  EXPECT_EQ(made(engine, {}), plain);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace zt

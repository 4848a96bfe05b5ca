// Transformers whose blocks come from disk give the bytes of those that stay in memory, whatever the files are written in.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/test_support.h"
#include "formats/safetensors.h"
#include "pipeline/quantize.h"
#include "pipeline/test_support.h"

namespace fs = std::filesystem;

namespace zt {
namespace {

class Streaming : public testing::Test {
 protected:
  // The model with a transformer of its own: a copy, or its matrices in `type`.
  std::string model(const std::string& from, const std::string& type) {
    const fs::path source = fs::path(ZT_SOURCE_DIR) / from, out = folder_.path() / "model";
    fs::remove_all(out);
    fs::create_directories(out);
    for (const auto& entry : fs::directory_iterator(source))
      if (entry.path().filename() != "transformer") fs::create_symlink(entry.path(), out / entry.path().filename());
    fs::copy(source / "transformer", out / "transformer");
    if (!type.empty()) {
      fs::remove(weights());
      quantize_component(source.string(), "transformer", type, (out / "transformer").string(), std::atomic<bool>{false}, [](const QuantizedTensor&) {});
    }
    return out.string();
  }
  fs::path weights() const { return folder_.path() / "model/transformer/diffusion_pytorch_model.safetensors"; }

  // Of rank 1, on every kind of matrix that is streamed. The shapes are those of the plain model.
  std::string adapter(const std::string& from) {
    const std::string path = folder_.file("adapter.safetensors");
    const SafetensorsFile base((fs::path(ZT_SOURCE_DIR) / from / "transformer/diffusion_pytorch_model.safetensors").string());
    std::vector<std::vector<float>> kept;
    std::vector<NamedView> views;
    for (const char* part : {"0.attn.to_k", "1.ff.net.2", "1.ff.net.0.proj", "1.adaln_proj.linear"}) {
      const std::string layer = std::string("transformer_blocks.") + part;
      const View* w = base.find(layer + ".weight");
      if (!w) ADD_FAILURE() << layer;
      for (const int side : {1, 0}) {
        const int64_t n = w->shape[static_cast<size_t>(side)];
        kept.emplace_back(static_cast<size_t>(n));
        for (size_t i = 0; i < kept.back().size(); ++i) kept.back()[i] = 0.1f + 0.01f * static_cast<float>(i % 7);
        views.push_back({fmt::format("{}.lora_{}.weight", layer, side ? "A" : "B"), {kept.back().data(), DType::f32, side ? Shape{1, n} : Shape{n, 1}}});
      }
    }
    save_safetensors(path, views);
    return path;
  }

  static std::vector<float> made(Engine& engine, const std::vector<AdapterUse>& adapters, const Hooks& hooks = {}) {
    Request r = small_request(engine, "a red circle bounces", 64, 22);
    r.adapters = adapters;
    return clip_of(engine, r, hooks);
  }

  // The same clip with every part of the blocks in memory, twice over (what is read ahead belongs to the next request).
  void expect_same_bytes(const std::string& from, const std::string& type, const Plan& plan) {
    SCOPED_TRACE(fmt::format("{} {} {}", from, type, plan.name));
    const std::string folder = model(from, type), lora = adapter(from);
    std::vector<float> plain, edited;
    for (const int64_t blocks : {-1, 0, 1, 3}) {
      Engine engine(folder, plan, 2);
      engine.keep_blocks(blocks);
      const std::vector<float> first = made(engine, {}), with = made(engine, {{lora, 1}});
      if (blocks < 0) plain = first, edited = with;
      EXPECT_TRUE(first == plain) << blocks;
      EXPECT_TRUE(with == edited) << blocks;
      EXPECT_TRUE(made(engine, {{lora, 1}}) == edited) << blocks;
      EXPECT_TRUE(made(engine, {}) == plain) << blocks;
    }
    EXPECT_FALSE(plain.empty());
    EXPECT_NE(plain, edited);
  }

  const TestFolder folder_;
};

constexpr const char* kNano = "models/h3-nano";

TEST_F(Streaming, SameBytesOfEveryKindOfFile) {
  for (const char* type : {"", "fp8", "Q8_0", "Q4_0"}) expect_same_bytes(kNano, type, fast_plan());
}

TEST_F(Streaming, SameBytesUnderExact) { expect_same_bytes(kNano, "", exact_plan()); }

TEST_F(Streaming, SameBytesOfOtherDimensions) {
  for (const char* from : {"tests/golden/a/model", "tests/golden/b/model"}) expect_same_bytes(from, "", fast_plan());
}

// Weights packed as codes, whose memory is used again.
TEST_F(Streaming, SameBytesInBlockFormats) {
  Plan plan = fast_plan();
  plan.denoiser = Compute::mxfp4;
  expect_same_bytes(kNano, "", plan);
}

// A trace asks for the modulations in every evaluation.
TEST_F(Streaming, SameTrace) {
  const std::string folder = model(kNano, "");
  std::vector<float> wanted;
  for (const int64_t blocks : {-1, 2}) {
    Engine engine(folder, fast_plan(), 2);
    engine.keep_blocks(blocks);
    Hooks hooks;
    std::vector<float> hidden;
    hooks.tap = [&](std::string_view name, const View& v) {
      if (!name.starts_with("dit.")) return;
      const std::vector<float> values = to_float32(v);
      hidden.insert(hidden.end(), values.begin(), values.end());
    };
    made(engine, {}, hooks);
    if (blocks < 0) wanted = hidden;
    EXPECT_TRUE(hidden == wanted) << blocks;
  }
  EXPECT_FALSE(wanted.empty());
}

// Not a signal; and the file as it was gives the clip again.
TEST_F(Streaming, FileCutShort) {
  for (const char* type : {"", "Q8_0"}) {
    const std::string folder = model(kNano, type);
    fs::path file = weights();
    for (const auto& entry : fs::directory_iterator(file.parent_path()))
      if (entry.path().extension() == ".gguf") file = entry.path();
    Engine engine(folder, fast_plan(), 2);
    engine.keep_blocks(1);
    const std::vector<float> plain = made(engine, {});
    const auto size = fs::file_size(file);
    fs::copy_file(file, folder_.path() / "whole", fs::copy_options::overwrite_existing);
    fs::resize_file(file, size / 4);
    for (int again = 0; again < 2; ++again)
      expect_words(message([&] { made(engine, {}); made(engine, {}); }, ErrorKind::model), {file.c_str(), "cut short", "(tensor "});
    std::ofstream(file, std::ios::binary | std::ios::in) << std::ifstream(folder_.path() / "whole", std::ios::binary).rdbuf();
    EXPECT_TRUE(made(engine, {}) == plain);
  }
}

// As the limit says: mixed, fewer blocks for a request that needs more beside them, and the same bytes.
TEST_F(Streaming, WithinALimit) {
  const std::string folder = model(kNano, "");
  Engine whole(folder, fast_plan(), 2), engine(folder, fast_plan(), 2);
  const std::vector<float> plain = made(whole, {});
  engine.limit_memory(int64_t{1} << 40, false);
  EXPECT_TRUE(made(engine, {}) == plain);
  EXPECT_STREQ(engine.memory_use().mode, "resident");
  engine.limit_memory(engine.memory_use().bytes - 1, false);
  EXPECT_TRUE(made(engine, {}) == plain);
  const int64_t blocks = engine.memory_use().resident_blocks;
  EXPECT_STREQ(engine.memory_use().mode, "mixed");
  EXPECT_TRUE(made(engine, {{adapter(kNano), 1}}) == made(whole, {{adapter(kNano), 1}}));
  EXPECT_LE(engine.memory_use().resident_blocks, blocks);
  engine.limit_memory(1, false);
  EXPECT_TRUE(made(engine, {}) == plain);
  EXPECT_FALSE(engine.memory_use().fits);
  EXPECT_EQ(engine.memory_use().resident_blocks, 0);
  engine.limit_memory(1, true);
  try {
    made(engine, {});
    ADD_FAILURE() << "made in no memory";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, ErrorKind::resource);
    expect_words(e.what(), {"--memory is 0 MiB", "even with every block", "smaller"});
  }
}

// Of two transformers one at a time stays, where both do not fit.
TEST_F(Streaming, OneTransformerAtATime) {
  const std::string folder = std::string(ZT_SOURCE_DIR) + "/tests/golden/a/model";
  Engine engine(folder, fast_plan(), 2);
  Request r, ref;
  for (Request* q : {&r, &ref}) {
    q->prompt = "x", q->width = q->height = 64, q->num_frames = 22, q->config = engine.index().config;
    q->config.min_duration_s = 0;
  }
  ref.task = Task::ref2va, ref.references.emplace_back(Picture{64, 64, std::vector<uint8_t>(64 * 64 * 3)});
  const MemoryNeeds needs = memory_needs(inspect_model(folder, false), fast_plan(), "transformer");
  engine.limit_memory(needs.fixed + (int64_t{1} << 30), false);
  Denoiser* first = &engine.denoiser(r);
  engine.denoiser(ref);
  EXPECT_EQ(&engine.denoiser(r), first);   // both fit
  engine.limit_memory(1, false);
  engine.denoiser(ref), engine.denoiser(r);
  EXPECT_EQ(engine.memory_use().resident_blocks, 0);
}

TEST_F(Streaming, StopsAndGoesOn) {
  Engine engine(model(kNano, ""), fast_plan(), 2);
  engine.keep_blocks(0);
  const std::vector<float> plain = made(engine, {});
  std::atomic<bool> cancel{false};
  Hooks hooks;
  hooks.cancel = &cancel;
  hooks.step_done = [&](const DenoiseState&) { cancel = true; };
  EXPECT_THROW(made(engine, {}, hooks), Cancelled);
  EXPECT_TRUE(made(engine, {}) == plain);
}

}  // namespace
}  // namespace zt

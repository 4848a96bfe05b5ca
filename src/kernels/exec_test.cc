// Selection of the table: the wish is obeyed, an absent or unknown one is refused with what there is.
#include "kernels/exec.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "kernels/ops.h"

namespace zt {
namespace {

struct WithIsa {
  explicit WithIsa(const char* value) { setenv("ZT_ISA", value, 1); }
  ~WithIsa() { unsetenv("ZT_ISA"); }
};

TEST(Exec, PortableTableIsAlwaysThereAndFirst) {
  ASSERT_FALSE(available_ops().empty());
  EXPECT_STREQ(available_ops()[0], "ref");
  unsetenv("ZT_ISA");
  EXPECT_STREQ(ops_name(select_ops()), available_ops().back());
}

TEST(Exec, ZtIsaForcesATable) {
  for (const char* name : available_ops()) {
    const WithIsa set(name);
    EXPECT_STREQ(ops_name(select_ops()), name);
  }
}

TEST(Exec, AbsentOrUnknownTableIsRefusedByName) {
  const auto have = available_ops();
  for (const char* name : {"avx2", "avx512", "amx", "neon", "AVX2", "avx"}) {
    const bool there = std::any_of(have.begin(), have.end(), [&](const char* h) { return !std::strcmp(h, name); });
    if (there) continue;
    const WithIsa set(name);
    try {
      select_ops();
      FAIL() << name << " was accepted";
    } catch (const Error& e) {
      EXPECT_EQ(e.kind, ErrorKind::request);
      EXPECT_NE(std::string(e.what()).find(name), std::string::npos) << e.what();
      for (const char* h : have) EXPECT_NE(std::string(e.what()).find(h), std::string::npos) << e.what();
    }
  }
}

TEST(Exec, EveryTableIsComplete) {
  for (const char* name : available_ops()) {
    const Ops& t = ops_by_name(name);
    EXPECT_TRUE(t.gemm_f32 && t.finish && t.softmax && t.transpose_f32 && t.rms_norm && t.layer_norm && t.rms_norm_modulate &&
                t.head_norm_rope && t.swiglu && t.activation && t.add_scaled && t.snake && t.snake_anti_aliased && t.column_stats &&
                t.affine && t.all_finite)
        << name;
    EXPECT_EQ(t.f32_cols % t.f32_lane, 0) << name;
    EXPECT_EQ(t.gemm_bf16 != nullptr, t.to_bf16 != nullptr && t.to_bf16_tiles != nullptr) << name;
    EXPECT_EQ(t.bf16_attention != nullptr, t.bf16_pack_keys != nullptr && t.bf16_attention_scratch != nullptr) << name;
  }
}

}  // namespace
}  // namespace zt

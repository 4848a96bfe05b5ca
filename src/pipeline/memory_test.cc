#include "pipeline/memory.h"

#include <gtest/gtest.h>

#include "base/test_support.h"
#include "pipeline/conditions.h"

namespace zt {
namespace {

// In MiB: 10 blocks of 100 and 30, on disk 50 and 15.
MemoryNeeds needs() {
  MemoryNeeds n;
  n.hidden = 64, n.blocks = 10, n.fixed = 200, n.block = 100, n.adaln = 30, n.file_block = 50, n.file_adaln = 15, n.edited = 40;
  return n;
}

TEST(Memory, StaysWholeWhereItFits) {
  for (const int64_t limit : {int64_t{0}, int64_t{1510}, int64_t{5000}}) {
    const MemoryUse use = fit_memory(needs(), 10, false, limit);
    EXPECT_STREQ(use.mode, "resident");
    EXPECT_EQ(use.resident_blocks, 10);
    EXPECT_EQ(use.bytes, 200 + 10 * 130 + 10);
    EXPECT_EQ(use.streamed_bytes, 0);
    EXPECT_EQ(memory_text(use), "");
  }
}

TEST(Memory, AsManyBlocksAsFit) {
  // Beside 200 of other weights, 10 of work, 2 x 50 read, 100 packed and the 20 of a modulation matrix that do not fit into the work's: 430.
  EXPECT_EQ(fit_memory(needs(), 10, false, 430).resident_blocks, 0);
  EXPECT_STREQ(fit_memory(needs(), 10, false, 430).mode, "streamed");
  EXPECT_EQ(fit_memory(needs(), 10, false, 529).resident_blocks, 0);
  EXPECT_EQ(fit_memory(needs(), 10, false, 530).resident_blocks, 1);
  EXPECT_STREQ(fit_memory(needs(), 10, false, 530).mode, "mixed");
  EXPECT_EQ(fit_memory(needs(), 10, true, 530).resident_blocks, 0);   // an adapter's tensor takes 40
  EXPECT_EQ(fit_memory(needs(), 110, false, 530).resident_blocks, 0);
  EXPECT_EQ(fit_memory(needs(), 10, false, 1500).resident_blocks, 9);   // never all: that would not be streaming
  int64_t before = -1;
  for (int64_t limit = 430; limit < 1510; limit += 7) {
    const MemoryUse use = fit_memory(needs(), 10, false, limit);
    EXPECT_TRUE(use.fits);
    EXPECT_LE(use.bytes, limit);
    EXPECT_GE(use.resident_blocks, before);
    EXPECT_EQ(use.streamed_bytes, 50 * (10 - use.resident_blocks));
    before = use.resident_blocks;
  }
}

// Ten blocks of 64 MiB of parameters each in matrices, nothing else.
ModelReport report() {
  constexpr int64_t kBlock = 64 << 20;
  ComponentReport c;
  c.name = "transformer", c.hidden_size = 64, c.blocks = 10;
  c.matrices = 10 * kBlock, c.block.matrices = kBlock, c.block.file_bytes = kBlock / 2;
  ModelReport r;
  r.components.push_back(c);
  return r;
}

TEST(Memory, NamesThePlanUnderWhichAllWouldStay) {
  const ModelReport r = report();
  const int64_t fast = fit_memory(r, fast_plan(), "transformer", 0, false, 0).bytes;
  EXPECT_EQ(fit_memory(r, fast_plan(), "transformer", 0, false, fast).instead, "");   // all stays
  int64_t larger = fast;
  for (const Plan& p : compact_plans()) {
    const int64_t bytes = fit_memory(r, p, "transformer", 0, false, 0).bytes;
    if (bytes >= larger) continue;   // this instruction set keeps such weights in float32
    for (const int64_t limit : {bytes, larger - 1}) {
      const MemoryUse use = fit_memory(r, fast_plan(), "transformer", 0, false, limit);
      EXPECT_EQ(use.instead, p.name) << limit;
      EXPECT_EQ(use.instead_bytes, bytes);
      expect_words(memory_text(use), {("--plan " + p.name).c_str()});
    }
    larger = bytes;
  }
  const MemoryUse use = fit_memory(r, fast_plan(), "transformer", 0, false, larger - 1);
  EXPECT_EQ(use.instead, "");
  EXPECT_EQ(memory_text(use).find("--plan"), std::string::npos);
  EXPECT_GT(use.streamed_bytes, 0);
}

TEST(Memory, SaysWhatDoesNotFit) {
  const MemoryUse use = fit_memory(needs(), 10, false, 429);
  EXPECT_FALSE(use.fits);
  EXPECT_EQ(use.bytes, 430);
  expect_words(memory_text(use), {"even with every block", "--memory"});
  MemoryNeeds none = needs();
  none.blocks = 0;
  EXPECT_FALSE(fit_memory(none, 10, false, 100).fits);
  EXPECT_EQ(memory_text(fit_memory(none, 10, false, 100)).find("even with"), std::string::npos);
  expect_words(memory_text(fit_memory(needs(), 10, false, 700)), {"2 of 10 blocks", "--memory"});
}

// The parts of h3-nano add up, and a request's rows grow with what it asks.
TEST(Memory, OfAModel) {
  const ModelReport report = inspect_model(std::string(ZT_SOURCE_DIR) + "/models/h3-nano", false);
  const MemoryNeeds n = memory_needs(report, exact_plan(), "transformer"), none = memory_needs(report, exact_plan(), "transformer_ref");
  EXPECT_EQ(n.blocks, 6);
  EXPECT_EQ(n.hidden, 192);
  EXPECT_EQ(none.all_blocks(), 0);
  int64_t all = kProcessBytes;
  for (const ComponentReport& c : report.components) all += prepared_bytes(c, compute_of(exact_plan(), c.name));
  EXPECT_EQ(n.fixed + n.all_blocks(), all);
  EXPECT_GT(n.block, 0);
  EXPECT_GT(n.adaln, 0);
  EXPECT_GT(n.fixed, none.fixed);
  Request r;
  r.config = report.index.config;
  r.width = r.height = 64, r.num_frames = 22;
  const int64_t rows = request_rows(r, resolve_geometry(r, report.index.canvas_multiple()), report.index);
  r.width = 128;
  EXPECT_GT(request_rows(r, resolve_geometry(r, report.index.canvas_multiple()), report.index), rows);
}

}  // namespace
}  // namespace zt

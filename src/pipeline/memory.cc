#include "pipeline/memory.h"

#include <algorithm>

#include "models/minimax_h3/layout.h"
#include "pipeline/channel.h"
#include "pipeline/conditions.h"

namespace zt {

const char* transformer_of(Task task) { return task == Task::ref2va ? "transformer_ref" : "transformer"; }

MemoryNeeds memory_needs(const ModelReport& report, const Plan& plan, const std::string& transformer) {
  MemoryNeeds n;
  n.fixed = kProcessBytes;
  for (const ComponentReport& c : report.components) {
    const bool of_blocks = c.name.starts_with("transformer");
    if (of_blocks && c.name != transformer) continue;
    const Compute compute = compute_of(plan, c.name);
    n.fixed += prepared_bytes(c, compute);
    if (!of_blocks) continue;
    n.hidden = c.hidden_size, n.blocks = c.blocks;
    n.block = prepared_bytes(c.block, compute), n.adaln = prepared_bytes(c.block_adaln, compute);
    n.file_block = c.block.file_bytes, n.file_adaln = c.block_adaln.file_bytes;
    n.edited = 4 * c.block.largest;
    n.fixed -= n.all_blocks();
  }
  return n;
}

MemoryUse fit_memory(const MemoryNeeds& n, int64_t working, bool adapters, int64_t limit) {
  const int64_t edited = adapters ? n.edited : 0;
  MemoryUse all;
  all.resident_blocks = all.blocks = n.blocks, all.bytes = n.fixed + n.all_blocks() + working + edited;
  all.fits = !limit || all.bytes <= limit;
  if (all.fits || !n.blocks) return all;
  // Two groups as the file has them, one packed block and one packed modulation matrix, which is gone when the steps begin.
  const int64_t buffers = 2 * std::max(n.file_block, n.file_adaln) + n.block + std::max<int64_t>(0, n.adaln - working);
  const int64_t least = n.fixed + buffers + working + edited;
  MemoryUse use;
  use.blocks = n.blocks;
  use.resident_blocks = std::clamp<int64_t>(n.block > 0 ? (limit - least) / n.block : 0, 0, n.blocks - 1);
  if (limit < least) use.resident_blocks = 0;
  use.bytes = least + use.resident_blocks * n.block;
  use.streamed_bytes = (n.blocks - use.resident_blocks) * n.file_block;
  use.fits = use.bytes <= limit;
  use.mode = use.resident_blocks ? "mixed" : "streamed";
  return use;
}

MemoryUse fit_memory(const ModelReport& report, const Plan& plan, const std::string& transformer, int64_t working, bool adapters, int64_t limit) {
  MemoryUse use = fit_memory(memory_needs(report, plan, transformer), working, adapters, limit);
  if (!use.streamed_bytes) return use;
  for (const Plan& smaller : compact_plans()) {
    const MemoryUse then = fit_memory(memory_needs(report, smaller, transformer), working, adapters, limit);
    if (then.streamed_bytes || !then.fits) continue;
    use.instead = smaller.name, use.instead_bytes = then.bytes;
    break;
  }
  return use;
}

MemoryUse fit_request(const ModelReport& report, const Plan& plan, const std::string& transformer, const Request& request, const Geometry& g, int64_t limit) {
  const auto c = std::find_if(report.components.begin(), report.components.end(), [&](const ComponentReport& r) { return r.name == transformer; });
  const int64_t hidden = c == report.components.end() ? 0 : c->hidden_size;
  const int64_t working = working_bytes(request_rows(request, g, report.index), hidden, g.width, g.height);
  return fit_memory(report, plan, transformer, working, !request.adapters.empty(), limit);
}

std::string memory_text(const MemoryUse& use) {
  auto mib = [](int64_t bytes) { return (bytes + (1 << 20) - 1) >> 20; };
  if (!use.fits)
    return fmt::format("this needs about {} MiB of memory{}; give more (--memory) or ask for a smaller or shorter clip", mib(use.bytes),
                       use.streamed_bytes ? " even with every block of the transformer read from disk" : "");
  if (!use.streamed_bytes) return "";
  return fmt::format("{} of {} blocks of the transformer stay in memory, the others are read from disk in every evaluation ({} MiB); more memory (--memory) is faster{}",
                     use.resident_blocks, use.blocks, mib(use.streamed_bytes),
                     use.instead.empty() ? "" : fmt::format(", and --plan {} keeps all of it in {} MiB, with weights rounded", use.instead, mib(use.instead_bytes)));
}

int64_t request_rows(const Request& request, const Geometry& g, const h3::ModelIndex& index) {
  const int64_t canvas = (g.width / index.spatial_ratio / index.patch_w) * (g.height / index.spatial_ratio / index.patch_h);
  const int64_t window = request.long_video ? first_clip_frames(request.config) : g.num_frames;   // rows are those of one window
  const int64_t frames = h3::video_latent_frames(window);
  int64_t rows = static_cast<int64_t>(request.prompt.size()) / 3 + frames * canvas + 2 * h3::audio_latents(window);
  rows += (request.first_frame.has_value() + request.last_frame.has_value()) * 2 * canvas;
  for (const Reference& r : request.references)
    rows += std::holds_alternative<Picture>(r) ? 2 * canvas : std::holds_alternative<Clip>(r) ? frames * canvas * 2 : 2 * h3::audio_latents(g.num_frames);
  return rows;
}

int64_t usable_bytes() { return machine_bytes() / 10 * 9; }

}  // namespace zt

#pragma once
// Fragmented MP4 files (ISO 14496-12) as HLS needs them: where the fragments lie in a file that may still grow, and a whole file made into
// fragments.
#include <cstdint>
#include <string>
#include <vector>

namespace zt {

constexpr int64_t kFragmentMicroseconds = 500'000;   // a fragment of Mp4Writer's stream, or less where a keyframe begins the next

struct FragmentSpan {
  uint64_t offset = 0, bytes = 0;   // moof and mdat
  double seconds = 0;               // of its pictures
  bool independent = false;         // its first picture needs none before
};

struct FragmentIndex {
  uint64_t init_bytes = 0;          // ftyp and moov, from the start of the file; 0: not there yet
  std::vector<FragmentSpan> spans;  // the complete ones, in order
};

// Of an open file, from its first byte. Takes any bytes: what is no such file, or not yet, has an empty index. Errors (resource): the disk fails.
FragmentIndex index_fragments(int fd);

// The packets of an MP4 that Mp4Writer finished, as fragments at `to`, which has its name only when it is whole. Errors: request (no such
// file, not media; a full disk), resource (no memory).
void write_fragments(const std::string& mp4, const std::string& to);

}  // namespace zt

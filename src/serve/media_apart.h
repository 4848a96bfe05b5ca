#pragma once
// Media of strangers, looked at and decoded in a process of their own: this program again (`zoetrope decode-medium`), which starts with an empty
// environment and the medium alone, gives up what it does not need (confine.h) and answers through a pipe. A medium that takes over its decoder
// finds no secret, no file and no network there; one that crashes, exhausts or stalls it is refused.
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "media/decode.h"
#include "serve/job.h"

namespace zt {

struct DecoderProcess {
  std::vector<std::string> command = {"/proc/self/exe", "decode-medium"};   // this program, whatever its file is called by now
  int64_t memory_bytes = int64_t{4} << 30;                                  // of address space; 144 million pixels of 16-bit RGBA take 2.1 GiB
  double grace_seconds = 5;                                                 // for starting and answering, beside MediaLimits::max_work
  const std::atomic<bool>* cancel = nullptr;                                // ends the process
};

// As probe() and load_picture(), to the byte. Errors: as theirs; request (the process crashed, took too long or too much memory, or its answer is
// no picture); resource (no process can be started). Throws Cancelled within a tenth of a second after `cancel` was set.
MediaInfo probe_apart(const MediaSource& source, const MediaLimits& limits = {}, const DecoderProcess& process = {});
Picture load_picture_apart(const MediaSource& source, const MediaLimits& limits = {}, const DecoderProcess& process = {});
// As load_picture(), load_clip() or load_sound(), whichever probe() tells. `fit` is applied here, to frames as they come; all must be of one size before it.
Reference load_reference_apart(const MediaSource& source, const MediaLimits& limits = {}, const DecoderProcess& process = {});

// For build_request() of a stranger's request.
MediaReaders apart_readers(const std::atomic<bool>* cancel = nullptr);

}  // namespace zt

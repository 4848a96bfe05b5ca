#pragma once
// What a worker keeps in the data folder: finished files, and the saved state of a running job.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "pipeline/request.h"

namespace zt {

// The data folder cannot be written (disk full, read-only, gone): nothing is wrong with the job in hand, which waits for better times.
struct FolderTrouble {
  std::string message;
};

// Writes and removes 64 KiB; throws FolderTrouble if that fails.
void probe_folder(const std::string& folder);
void make_folder(const std::string& path);                                    // throws FolderTrouble
// Beside its name, flushed to the disk if `durable`, then renamed. Throws FolderTrouble.
void write_file(const std::string& path, const void* data, size_t bytes, bool durable);
void flush_to_disk(const std::string& file_or_folder);                        // throws FolderTrouble

// A denoise state that owns its rows.
struct Checkpoint {
  Tensor video_rows, audio_rows;
  int64_t evaluations = 0, segment = 0;
  DenoiseState state() const { return {evaluations, video_rows.view(), audio_rows.view(), segment}; }
};

// `identity` says what the state belongs to: same model, plan, instruction set and options, or other bytes would come out.
void write_checkpoint(const std::string& path, const std::string& identity, const DenoiseState& state);   // throws FolderTrouble
// nullopt: no file, or one that is damaged, cut short or of another identity. A job then begins anew.
std::optional<Checkpoint> read_checkpoint(const std::string& path, const std::string& identity);

// The same of a segment of a long video.
void write_segment(const std::string& path, const std::string& identity, int64_t segment, const Latents& latents);   // throws FolderTrouble
std::optional<Latents> read_segment(const std::string& path, const std::string& identity, int64_t segment);

// `relative` under `data`, for a path that a job gives: it must lie in the job's own folder and may not climb out of it (links included).
// Errors (request).
std::string inside_job_folder(const std::string& data, const std::string& job_folder, const std::string& relative);

}  // namespace zt

#include "models/minimax_h3/audio_track.h"

#include <algorithm>

namespace zt::h3 {

Track::Track(int64_t channels, int64_t length, int64_t padding)
    : channels_(channels), length_(length), padding_(padding), begin_(-padding), tail_(static_cast<size_t>(padding * channels), 0.0f) {
  data_ = tail_.data();
}

void Track::open(Arena& arena, int64_t n) {
  const int64_t held = filled_ - begin_;
  float* room = arena.take<float>((held + n + padding_) * channels_);
  std::copy_n(data_, held * channels_, room);
  data_ = room;
}

Mat Track::append(int64_t n) {
  Mat fresh{data_ + (filled_ - begin_) * channels_, n, channels_, channels_};
  filled_ += n;
  if (complete()) std::fill_n(fresh.row(n), padding_ * channels_, 0.0f);
  return fresh;
}

ConstMat Track::rows(int64_t first, int64_t n) const { return {data_ + (first - begin_) * channels_, n, channels_, channels_}; }

Mat Track::rows(int64_t first, int64_t n) { return {data_ + (first - begin_) * channels_, n, channels_, channels_}; }

void Track::drop_before(int64_t row) {
  const int64_t n = std::min(row, filled_) - begin_;
  if (n > 0) data_ += n * channels_, begin_ += n;
}

void Track::settle() {
  tail_.assign(data_, data_ + (available() - begin_) * channels_);
  data_ = tail_.data();
}

}  // namespace zt::h3

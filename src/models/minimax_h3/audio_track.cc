#include "models/minimax_h3/audio_track.h"

#include <algorithm>

namespace zt::h3 {

Track::Track(int64_t channels, int64_t length, int64_t padding) : channels_(channels), length_(length), padding_(padding), begin_(-padding) {
  grow(padding);
}

// Makes room for `rows` more, zeroed only where memory is new or was used before: callers overwrite them.
void Track::grow(int64_t rows) {
  if (stale_ > 0 && (used_ + rows) * channels_ > static_cast<int64_t>(data_.size())) {
    std::copy(data_.begin() + stale_ * channels_, data_.begin() + used_ * channels_, data_.begin());
    used_ -= stale_, stale_ = 0;
  }
  if ((used_ + rows) * channels_ > static_cast<int64_t>(data_.size())) data_.resize(static_cast<size_t>((used_ + rows) * channels_), 0.0f);
  used_ += rows;
}

Mat Track::append(int64_t n) {
  filled_ += n;
  const bool last = complete();
  grow(n + (last ? padding_ : 0));
  if (last) std::fill_n(data_.begin() + (used_ - padding_) * channels_, padding_ * channels_, 0.0f);
  const int64_t at = used_ - (last ? padding_ : 0) - n;
  return {data_.data() + at * channels_, n, channels_, channels_};
}

ConstMat Track::rows(int64_t first, int64_t n) const { return {data_.data() + (stale_ + first - begin_) * channels_, n, channels_, channels_}; }

Mat Track::rows(int64_t first, int64_t n) { return {data_.data() + (stale_ + first - begin_) * channels_, n, channels_, channels_}; }

void Track::drop_before(int64_t row) {
  const int64_t n = std::min(row - begin_, used_ - stale_);
  if (n > 0) stale_ += n, begin_ += n;
}

}  // namespace zt::h3

#pragma once
// A sound signal that arrives in pieces, channels-last, of known length. Layers append to it and read from it; rows that no
// layer needs any more are dropped, so that what is held does not grow with the length of the sound.
#include <vector>

#include "tensor/tensor.h"

namespace zt::h3 {

class Track {
 public:
  // `length` true rows of `channels`, with `padding` zero rows before the first and after the last.
  Track(int64_t channels, int64_t length, int64_t padding);

  int64_t channels() const { return channels_; }
  int64_t length() const { return length_; }
  int64_t filled() const { return filled_; }               // true rows appended so far
  bool complete() const { return filled_ == length_; }
  int64_t available() const { return complete() ? length_ + padding_ : filled_; }   // rows up to here can be read

  // `n` fresh rows after the last one, contents undefined. Invalidates what rows() gave.
  Mat append(int64_t n);
  // Rows [first, first + n), counted from the first true one; first >= -padding.
  ConstMat rows(int64_t first, int64_t n) const;
  Mat rows(int64_t first, int64_t n);
  void drop_before(int64_t row);
  int64_t held_floats() const { return static_cast<int64_t>(data_.size()); }

 private:
  void grow(int64_t rows);

  int64_t channels_, length_, padding_, filled_ = 0;
  int64_t begin_;                  // first row held
  int64_t stale_ = 0, used_ = 0;   // rows of data_ in front that are dropped; rows of data_ in use, dropped ones included
  std::vector<float> data_;
};

}  // namespace zt::h3

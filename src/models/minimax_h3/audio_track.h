#pragma once
// A sound signal that arrives in pieces, channels-last, of known length. A layer appends a piece and the next one reads it, in scratch
// memory; between two pieces only the last rows stay, those that outputs to come will still see.
#include <vector>

#include "base/arena.h"
#include "tensor/tensor.h"

namespace zt::h3 {

class Track {
 public:
  // `length` true rows of `channels`, with `padding` zero rows before the first and after the last.
  Track(int64_t channels, int64_t length, int64_t padding);
  Track(Track&&) = default;               // data_ goes with the memory of tail_
  Track& operator=(Track&&) = default;

  int64_t channels() const { return channels_; }
  int64_t length() const { return length_; }
  int64_t filled() const { return filled_; }               // true rows appended so far
  bool complete() const { return filled_ == length_; }
  int64_t available() const { return complete() ? length_ + padding_ : filled_; }   // rows up to here can be read

  // Moves the rows held to scratch memory, with room for `n` more true rows. Good until settle().
  void open(Arena& arena, int64_t n);
  // `n` fresh rows after the last one, contents undefined.
  Mat append(int64_t n);
  // Rows [first, first + n), counted from the first true one; first >= -padding.
  ConstMat rows(int64_t first, int64_t n) const;
  Mat rows(int64_t first, int64_t n);
  void drop_before(int64_t row);
  // Keeps what was not dropped, outside of the arena.
  void settle();
  int64_t held_floats() const { return static_cast<int64_t>(tail_.capacity()); }

 private:
  int64_t channels_, length_, padding_, filled_ = 0;
  int64_t begin_;                  // first row at data_
  float* data_ = nullptr;
  std::vector<float> tail_;
};

}  // namespace zt::h3

#include "kernels/resample.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <numeric>

#include "base/error.h"

namespace zt {
namespace {

// One axis of a separable resize: output x reads inputs first[x] ... first[x] + count[x] - 1 with fixed-point weights.
struct Axis {
  std::vector<int> first, count;
  std::vector<int32_t> weights;  // [out, taps], zero beyond count
  int taps = 0;
  int precision = 0;  // fractional bits of the weights
  const int32_t* row(int x) const { return weights.data() + static_cast<size_t>(x) * static_cast<size_t>(taps); }
};

double sinc(double x) {
  if (x == 0.0) return 1.0;
  x *= std::numbers::pi;
  return std::sin(x) / x;
}

double lanczos3(double x) { return -3.0 <= x && x < 3.0 ? sinc(x) * sinc(x / 3) : 0.0; }

// Keys' cubic with a = -0.5, in the factored form of both libraries.
double cubic(double x) {
  constexpr double a = -0.5;
  x = std::fabs(x);
  if (x < 1.0) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2.0) return (((x - 5) * x + 8) * x - 4) * a;
  return 0.0;
}

// Pillow always keeps 22 bits; torch takes as many as let the largest weight fit 16 signed bits.
constexpr int kPillowPrecision = 22;

int torch_precision(double largest) {
  int bits = 0;
  while (bits < 22 && static_cast<int>(0.5 + largest * (1 << (bits + 1))) < (1 << 15)) bits++;
  return bits;
}

template <class Filter>
Axis make_axis(int in, int out, double filter_support, Filter filter, bool pillow) {
  const double scale = static_cast<double>(in) / out;
  const double filter_scale = std::max(scale, 1.0);
  const double support = filter_support * filter_scale;
  Axis axis;
  axis.taps = static_cast<int>(std::ceil(support)) * 2 + 1;
  axis.first.resize(static_cast<size_t>(out));
  axis.count.resize(static_cast<size_t>(out));
  std::vector<double> w(static_cast<size_t>(out) * static_cast<size_t>(axis.taps));
  double largest = 0;
  for (int x = 0; x < out; x++) {
    const double center = (x + 0.5) * scale;
    const int first = std::max(static_cast<int>(center - support + 0.5), 0);
    const int count = std::clamp(std::min(static_cast<int>(center + support + 0.5), in) - first, 0, axis.taps);
    double* k = w.data() + static_cast<size_t>(x) * static_cast<size_t>(axis.taps);
    double sum = 0;
    for (int j = 0; j < count; j++) sum += k[j] = filter((j + first - center + 0.5) * (1.0 / filter_scale));
    for (int j = 0; j < count; j++) {
      if (sum != 0.0) k[j] /= sum;
      largest = std::max(largest, k[j]);
    }
    axis.first[static_cast<size_t>(x)] = first, axis.count[static_cast<size_t>(x)] = count;
  }
  axis.precision = pillow ? kPillowPrecision : torch_precision(largest);
  const double one = 1 << axis.precision;
  axis.weights.resize(w.size());
  for (size_t i = 0; i < w.size(); i++) axis.weights[i] = static_cast<int32_t>(w[i] < 0 ? w[i] * one - 0.5 : w[i] * one + 0.5);
  return axis;
}

uint8_t clip8(int32_t sum, int precision) { return static_cast<uint8_t>(std::clamp(sum >> precision, 0, 255)); }

// [rows, in, 3] -> [rows, out, 3]
std::vector<uint8_t> horizontal(const std::vector<uint8_t>& in, int rows, int in_width, const Axis& axis) {
  const int out_width = static_cast<int>(axis.first.size());
  std::vector<uint8_t> out(static_cast<size_t>(rows) * static_cast<size_t>(out_width) * 3);
  for (int y = 0; y < rows; y++) {
    const uint8_t* src = in.data() + static_cast<size_t>(y) * static_cast<size_t>(in_width) * 3;
    uint8_t* dst = out.data() + static_cast<size_t>(y) * static_cast<size_t>(out_width) * 3;
    for (int x = 0; x < out_width; x++, dst += 3) {
      const uint8_t* p = src + static_cast<size_t>(axis.first[static_cast<size_t>(x)]) * 3;
      const int32_t* k = axis.row(x);
      int32_t r = 1 << (axis.precision - 1), g = r, b = r;
      for (int j = 0; j < axis.count[static_cast<size_t>(x)]; j++, p += 3) r += p[0] * k[j], g += p[1] * k[j], b += p[2] * k[j];
      dst[0] = clip8(r, axis.precision), dst[1] = clip8(g, axis.precision), dst[2] = clip8(b, axis.precision);
    }
  }
  return out;
}

// [in, width, 3] -> [out, width, 3]
std::vector<uint8_t> vertical(const std::vector<uint8_t>& in, int width, const Axis& axis) {
  const size_t stride = static_cast<size_t>(width) * 3;
  const size_t rows = axis.first.size();
  std::vector<uint8_t> out(rows * stride);
  std::vector<int32_t> sum(stride);
  for (size_t y = 0; y < rows; y++) {
    std::fill(sum.begin(), sum.end(), 1 << (axis.precision - 1));
    const int32_t* k = axis.row(static_cast<int>(y));
    for (int j = 0; j < axis.count[y]; j++) {
      const uint8_t* src = in.data() + static_cast<size_t>(axis.first[y] + j) * stride;
      for (size_t i = 0; i < stride; i++) sum[i] += src[i] * k[j];
    }
    uint8_t* dst = out.data() + y * stride;
    for (size_t i = 0; i < stride; i++) dst[i] = clip8(sum[i], axis.precision);
  }
  return out;
}

template <class Filter>
Picture resize(const Picture& in, int width, int height, double support, Filter filter, bool pillow) {
  if (in.width < 1 || in.height < 1 || width < 1 || height < 1)
    fail(ErrorKind::internal, "resize: found {}x{} to {}x{}, wanted at least 1x1 on both sides; check the sizes before", in.width,
         in.height, width, height);
  Picture out = in;
  const auto across = [&] {
    if (width == out.width) return;
    out.rgb = horizontal(out.rgb, out.height, out.width, make_axis(in.width, width, support, filter, pillow));
    out.width = width;
  };
  const auto down = [&] {
    if (height == out.height) return;
    out.rgb = vertical(out.rgb, out.width, make_axis(in.height, height, support, filter, pillow));
    out.height = height;
  };
  // The order shows in the rounding of the 8-bit intermediate. Pillow 13 goes down first where that saves much work (its pull
  // request 9549; the condition was measured on the program); Pillow 12 and torch never do.
  const bool down_first = pillow && height < in.height && in.height - height > 2 * (in.width - width);
  if (down_first) down();
  across();
  down();
  return out;
}

}  // namespace

Picture resize_lanczos(const Picture& in, int width, int height) { return resize(in, width, height, 3.0, lanczos3, true); }

Picture resize_bicubic(const Picture& in, int width, int height) { return resize(in, width, height, 2.0, cubic, false); }

Picture crop(const Picture& in, int left, int top, int width, int height) {
  if (left < 0 || top < 0 || width < 1 || height < 1 || left > in.width - width || top > in.height - height)
    fail(ErrorKind::internal, "crop: found {}x{} at ({}, {}) of a {}x{} picture; wanted a box inside it", width, height, left, top,
         in.width, in.height);
  Picture out;
  out.width = width, out.height = height;
  const size_t row = static_cast<size_t>(width) * 3;
  out.rgb.resize(row * static_cast<size_t>(height));
  for (int y = 0; y < height; y++) {
    const size_t from = (static_cast<size_t>(top + y) * static_cast<size_t>(in.width) + static_cast<size_t>(left)) * 3;
    std::memcpy(out.rgb.data() + static_cast<size_t>(y) * row, in.rgb.data() + from, row);
  }
  return out;
}

namespace {

// The filter bank of torchaudio.transforms.Resample: output n * phases + p is the dot product of filter p with inputs around
// n * hop. Most of its 2 * width + hop taps are zero, so only those inside the window are made: rates without a large common
// divisor would take gigabytes otherwise.
struct FilterBank {
  int64_t hop = 0, phases = 0;
  int64_t taps = 0;                 // stored a phase
  std::vector<float> weights = {};  // [phases, taps]
  std::vector<int64_t> first = {};  // of every phase, the input under its tap 0, relative to n * hop
};

// hop and phases are the two rates without their common divisor. Only the phases that `outputs` samples meet are made.

FilterBank make_filter_bank(int64_t hop_samples, int64_t phases, int64_t outputs) {
  constexpr double kZeros = 6, kRolloff = 0.99;
  FilterBank bank{.hop = hop_samples, .phases = phases};
  const double hop = static_cast<double>(bank.hop);
  const double base = static_cast<double>(std::min(bank.hop, bank.phases)) * kRolloff;
  const int64_t width = static_cast<int64_t>(std::ceil(kZeros * hop / base));
  bank.taps = 2 * width + 1;
  for (int64_t p = 0; p < std::min(bank.phases, outputs); p++) {
    // The reference divides integers of this term in float32 and only then goes on in float64.
    const double shift = static_cast<float>(-p) / static_cast<float>(bank.phases);
    bank.first.push_back(static_cast<int64_t>(std::lround(-shift * hop)) - width);
    for (int64_t i = bank.first.back(); i < bank.first.back() + bank.taps; i++) {
      double t = std::clamp((shift + static_cast<double>(i) / hop) * base, -kZeros, kZeros);
      const double c = std::cos(t * std::numbers::pi / kZeros / 2);
      t *= std::numbers::pi;
      bank.weights.push_back(static_cast<float>((t == 0 ? 1.0 : std::sin(t) / t) * (c * c * (base / hop))));
    }
  }
  return bank;
}

std::vector<float> filter(const std::vector<float>& in, const FilterBank& bank, int64_t length) {
  std::vector<float> out(static_cast<size_t>(length));
  const int64_t n = static_cast<int64_t>(in.size());
  for (int64_t o = 0; o < length; o++) {
    const int64_t p = o % bank.phases;
    const int64_t start = o / bank.phases * bank.hop + bank.first[static_cast<size_t>(p)];
    const int64_t begin = std::max<int64_t>(0, -start), end = std::min(bank.taps, n - start);
    const float* w = bank.weights.data() + p * bank.taps;
    double sum = 0;  // the order of the reference's float32 sum is its library's affair; double is within its rounding
    for (int64_t i = begin; i < end; i++) sum += static_cast<double>(w[i]) * in[static_cast<size_t>(start + i)];
    out[static_cast<size_t>(o)] = static_cast<float>(sum);
  }
  return out;
}

}  // namespace

Sound resample(const Sound& in, int sample_rate) {
  if (in.sample_rate < 1 || sample_rate < 1)
    fail(ErrorKind::internal, "resample: found {} Hz to {} Hz, wanted positive rates", in.sample_rate, sample_rate);
  if (in.sample_rate == sample_rate) return in;
  const int64_t common = std::gcd(in.sample_rate, sample_rate), hop = in.sample_rate / common, phases = sample_rate / common;
  // The reference rounds the quotient to float32 before it takes the ceiling, and its convolution delivers whole hops.
  const float quotient = static_cast<float>(static_cast<double>(phases * in.samples()) / static_cast<double>(hop));
  const int64_t length = std::min(static_cast<int64_t>(std::ceil(quotient)), (in.samples() / hop + 1) * phases);
  const FilterBank bank = make_filter_bank(hop, phases, length);
  Sound out;
  out.sample_rate = sample_rate;
  for (const auto& channel : in.channels) out.channels.push_back(filter(channel, bank, length));
  return out;
}

}  // namespace zt

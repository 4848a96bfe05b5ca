#pragma once
// The CPU generator of PyTorch and its normal transform, bit for bit as the AVX2 and AVX-512 builds of torch 2.15 compute it,
// so that a seed means here what it means there. Source: ATen CPUGeneratorImpl.cpp, DistributionTemplates.h and the Cephes
// polynomials of the vectorised log and sincos; checked against torch.randn on 20 M values.
#include <cstdint>
#include <random>
#include <span>

namespace zt {

class TorchGenerator {
 public:
  explicit TorchGenerator(uint64_t seed) : mt_(static_cast<uint32_t>(seed)) {}   // only the low 32 bits count, as in torch

  // torch.randn(out.size(), generator=this, dtype=float32)
  void randn(std::span<float> out);

 private:
  float uniform() { return static_cast<float>(mt_() & 0xFFFFFFu) * 0x1p-24f; }
  double uniform53();
  double normal();

  std::mt19937 mt_;
  bool cached_ = false;
  double cache_ = 0;
};

}  // namespace zt

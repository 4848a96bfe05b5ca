#include "kernels/compute.h"

#include <utility>

namespace zt {

namespace {

constexpr std::pair<Compute, std::string_view> kNames[] = {
    {Compute::f32, "f32"}, {Compute::bf16, "bf16"}, {Compute::bf16x2, "bf16x2"}, {Compute::bf16x3, "bf16x3"},
    {Compute::mxfp8, "mxfp8"}, {Compute::mxfp6, "mxfp6"}, {Compute::mxfp4, "mxfp4"}, {Compute::mxint8, "mxint8"}};

}  // namespace

std::string_view compute_name(Compute c) {
  for (auto [value, name] : kNames)
    if (value == c) return name;
  return "?";
}

bool compute_from_name(std::string_view wanted, Compute& out) {
  for (auto [value, name] : kNames)
    if (name == wanted) return out = value, true;
  return false;
}

std::string compute_names() {
  std::string all;
  for (auto [value, name] : kNames) all += (all.empty() ? "" : ", ") + std::string(name);
  return all;
}

}  // namespace zt

// Owns the choice of the device that tensors are computed on, without showing libtorch.
#pragma once

#include <string>
#include <string_view>

#include "messages/result.hpp"

namespace prime::trainer {

struct ChosenDevice {
  std::string name;     ///< `cpu` or `cuda:N`, as libtorch names devices
  std::string instead;  ///< of `auto` that took the CPU: what is in the way of a GPU
};

/// `wanted`: `cpu`, `cuda` (which is `cuda:0`), `cuda:N`, or `auto`: the first GPU if one can be used. A GPU computes f32 as f32 from then
/// on, without TF32. To be called once, before anything else is done with tensors: libtorch asks but once whether it has CUDA, and that
/// part of it is loaded here. DeviceUnusable: what is missing, and what to do. It is never replaced silently.
Result<ChosenDevice> choose_device(std::string_view wanted);

/// What people are told of it: `cuda:0`, or `cpu: ` and why it is none.
std::string to_string(const ChosenDevice& chosen);

}  // namespace prime::trainer

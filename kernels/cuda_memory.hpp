// Owns the memory of a CUDA device as a DeviceMemory.
#pragma once

#include <memory>

#include "kernels/cuda.hpp"
#include "kernels/device_memory.hpp"

namespace prime::kernels::cuda {

/// Two streams of its own, one for each direction, that wait for no other stream: what copies read must be written before they begin.
/// Null, and why, when there is no such device.
[[nodiscard]] std::shared_ptr<DeviceMemory> open_memory(int device, Fault& fault);

}  // namespace prime::kernels::cuda

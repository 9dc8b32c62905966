// Owns the ways to name memory that is not the host's, for reduces of tensors that lie there.
#pragma once

#include <cstdint>
#include <memory>

#include "kernels/device_memory.hpp"
#include "messages/result.hpp"

namespace prime {

/// Other kinds of devices implement this.
using DeviceMemory = kernels::DeviceMemory;

/// The memory of a CUDA device: make it once, and give it to all reduces of tensors that lie there. Fails with DeviceUnusable when there
/// is no such device, and where this library was built without CUDA. Links prime::device.
Result<std::shared_ptr<DeviceMemory>> cuda_memory(std::uint32_t device = 0);

}  // namespace prime

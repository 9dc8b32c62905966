// Owns the opening of CUDA devices where the build has CUDA.
#include "kernels/cuda_memory.hpp"

#include <string>

#include "prime/device_memory.hpp"

namespace prime {

Result<std::shared_ptr<DeviceMemory>> cuda_memory(std::uint32_t device) {
  if (!kernels::cuda::device_present()) return fail(ErrorName::DeviceUnusable, "no CUDA device on this machine, or no driver for it");
  kernels::cuda::Fault fault;
  auto memory = kernels::cuda::open_memory(static_cast<int>(device), fault);
  if (fault) return fail(ErrorName::DeviceUnusable, "CUDA device " + std::to_string(device) + ": " + *fault);
  return memory;
}

}  // namespace prime

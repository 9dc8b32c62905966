// Owns the answer of builds without CUDA.
#include "prime/device_memory.hpp"

namespace prime {

Result<std::shared_ptr<DeviceMemory>> cuda_memory(std::uint32_t /*device*/) {
  return fail(ErrorName::DeviceUnusable,
              "this build has no CUDA: configure it anew where `nvcc` is in PATH, with PRIME_CUDA=ON and without sanitizers");
}

}  // namespace prime

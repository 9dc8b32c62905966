// Owns the GPU's version of a tensor's digest: the value of digest.hpp, without moving the tensor.
#pragma once

#include <cstddef>

#include "kernels/cuda.hpp"
#include "messages/ids.hpp"

namespace prime::kernels::cuda {

/// As kernels::digest_tensor; device_bytes is aligned to 8. Waits for the stream: the digests of the chunks are combined on the host.
[[nodiscard]] Fault digest_tensor(const std::byte* device_bytes, std::size_t count, Digest& digest, void* stream);

}  // namespace prime::kernels::cuda

// Owns what all GPU kernels share towards their callers. No CUDA type crosses these headers: a stream is a cudaStream_t as void*, and
// null is the default stream. Pointers named device_* are of device memory; work is only enqueued unless a function says otherwise.
#pragma once

#include <optional>
#include <string>

namespace prime::kernels::cuda {

/// What CUDA said, or nothing when the work was enqueued.
using Fault = std::optional<std::string>;

/// Whether there is a device and a driver that this program can use.
bool device_present();

/// Waits for all that was enqueued.
[[nodiscard]] Fault synchronize(void* stream);

}  // namespace prime::kernels::cuda

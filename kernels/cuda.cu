#include "kernels/launch.cuh"

namespace prime::kernels::cuda {

bool device_present() {
  int devices = 0;
  const bool present = cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0;
  static_cast<void>(cudaGetLastError());  // the answer "no" is not a fault of the next launch
  return present;
}

Fault synchronize(void* stream) { return fault_of(cudaStreamSynchronize(stream_of(stream))); }

}  // namespace prime::kernels::cuda

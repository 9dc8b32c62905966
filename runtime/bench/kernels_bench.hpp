// Owns the speed of the kernels on this machine, told beside memcpy's in the same run: what `primectl bench kernels` shows.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace prime::bench {

struct KernelsBenchOptions {
  std::size_t values = std::size_t{16} << 20;  ///< f32 values of one array: 64 MiB, more than the caches hold
  std::size_t repeats = 9;                     ///< of which the median counts; at least 7
  bool reference = true;                       ///< also the slow obvious versions
  std::function<void(const std::string& kernel, const std::string& codec)> begins = {};
};

struct KernelRow {
  std::string kernel;              ///< encode, encode-stochastic, encode-feedback, decode, or the name of a reduce kernel
  std::string codec;               ///< or the element type of a reduce
  std::string path;                ///< reference, or the vectors in use: AVX3, AVX2, SSE4, NEON; cpu where there is but one version
  double bytes_touched_per_s = 0;  ///< read and written; one thread's own time
  double memcpy_share = 0;         ///< of what memcpy touches per second, each repeat beside one memcpy of half as many bytes
};

/// Takes seconds to minutes, and about five arrays of memory.
std::vector<KernelRow> bench_kernels(const KernelsBenchOptions& options = {});

}  // namespace prime::bench

// Owns the order of the benchmark, and its refusal where there is nothing to measure.
#include <cstdlib>
#include <iostream>
#include <string_view>

#include "kernels/cuda.hpp"
#include "tests/bench/gpu/bench.hpp"

namespace {

constexpr std::size_t VALUES = std::size_t{64} << 20;  // 256 MiB: more than the caches of a device hold
constexpr std::size_t REPEATS = 9;

}  // namespace

// Usage: gpu [VALUES REPEATS [all|reduces|kernels|codecs|sums|digest|top|bare]]
int main(int count, char** arguments) {
  if (!prime::kernels::cuda::device_present()) {
    std::cerr << "no CUDA device on this machine\n";
    return 0;
  }
  const std::size_t values = count > 1 ? std::strtoull(arguments[1], nullptr, 10) : VALUES;
  const std::size_t repeats = count > 2 ? std::strtoull(arguments[2], nullptr, 10) : REPEATS;
  const std::string_view part = count > 3 ? arguments[3] : "all";
  bool good = part == "reduces" || prime::bench::gpu::time_kernels(part, values, repeats);
  if (part != "all" && part != "reduces") return good ? 0 : 1;
  for (const std::size_t bytes : {std::size_t{4} << 20, std::size_t{64} << 20, std::size_t{256} << 20})
    good = prime::bench::gpu::time_reduces(bytes, repeats) && good;
  return good ? 0 : 1;
}

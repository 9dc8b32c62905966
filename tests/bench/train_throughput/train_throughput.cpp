// Owns train-throughput STEPS THREADS: prints the seconds of each inner step of the quickstart model, one a line, on random bytes.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "runtime/trainer/learner.hpp"
#include "runtime/trainer/permutation.hpp"

int main(int argc, char** argv) {
  using Clock = std::chrono::steady_clock;
  if (argc != 3) {
    std::fputs("usage: train-throughput STEPS THREADS\n", stderr);
    return 2;
  }
  prime::trainer::set_compute_threads(static_cast<std::uint32_t>(std::atoi(argv[2])));
  const prime::manifest::Model model;
  const prime::manifest::Train train;
  prime::trainer::Learner learner(model, train);
  std::vector<std::uint8_t> windows(train.batch * (model.context + 1));
  std::uint64_t counter = 0;
  for (int step = 0; step < std::atoi(argv[1]); ++step) {
    // Fresh bytes for each step: a model that has learned its batch by heart computes with tiny numbers, which are slow.
    for (auto& byte : windows) byte = static_cast<std::uint8_t>(prime::trainer::mix(++counter));
    const auto begin = Clock::now();
    learner.train(windows, 1e-3);
    std::printf("%.6f\n", std::chrono::duration<double>(Clock::now() - begin).count());
  }
  return 0;
}

// Owns train-throughput: prints the seconds of each inner step, one a line, on random bytes; the quickstart's model unless told otherwise.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <vector>

#include "runtime/trainer/device.hpp"
#include "runtime/trainer/learner.hpp"
#include "runtime/trainer/permutation.hpp"

namespace {

void run(const prime::manifest::Model& model, const prime::manifest::Train& train, const prime::trainer::Computing& computing, int steps) {
  using Clock = std::chrono::steady_clock;
  prime::trainer::Learner learner(model, train, computing);
  std::vector<prime::data::Token> windows(train.batch * (std::size_t{model.context} + 1));
  std::uint64_t counter = 0;
  for (int step = 0; step < steps; ++step) {
    // Fresh bytes for each step: a model that has learned its batch by heart computes with tiny numbers, which are slow.
    for (auto& token : windows) token = static_cast<std::uint8_t>(prime::trainer::mix(++counter));
    const auto begin = Clock::now();
    const double loss = learner.train(windows, 1e-3);
    std::printf("%.6f\n", std::chrono::duration<double>(Clock::now() - begin).count());
    std::fprintf(stderr, "step %d: loss %.4f\n", step + 1, loss);
  }
}

}  // namespace

int main(int argc, char** argv) {
  prime::manifest::Model model;
  prime::manifest::Train train;
  int steps = 20;
  unsigned threads = 1, micro_batch = 0;
  std::string device = "cpu", precision = "f32";
  CLI::App app{"seconds of inner steps"};
  app.add_option("--steps", steps);
  app.add_option("--threads", threads);
  app.add_option("--device", device);
  app.add_option("--precision", precision)->check(CLI::IsMember({"f32", "bf16"}));
  app.add_option("--layers", model.layers);
  app.add_option("--dim", model.dim);
  app.add_option("--heads", model.heads);
  app.add_option("--ffn", model.ffn);
  app.add_option("--vocab", model.vocab);
  app.add_option("--context", model.context);
  app.add_option("--batch", train.batch);
  app.add_option("--micro-batch", micro_batch);
  CLI11_PARSE(app, argc, argv);
  model.kv_heads = model.heads;
  if (precision == "bf16") train.precision = prime::manifest::Precision::Bf16;
  const auto chosen = prime::trainer::choose_device(device);
  if (!chosen) {
    std::fprintf(stderr, "%s\n", to_string(chosen.error()).c_str());
    return prime::info(chosen.error().name).exit_code;
  }
  prime::trainer::set_compute_threads(threads);
  run(model, train, {chosen->name, micro_batch}, steps);
  return 0;
}

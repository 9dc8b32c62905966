// Owns diloco-reference, the program around the reference:
//   diloco-reference run MANIFEST --peers N --steps K --out DIR   DIR/step-0.safetensors … step-K, and DIR/final for transformers
//   diloco-reference compare LEFT RIGHT                           two safetensors files: their largest absolute difference
#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "diloco_reference.hpp"
#include "runtime/manifest/load.hpp"
#include "runtime/store/safetensors.hpp"
#include "runtime/trainer/evaluation.hpp"
#include "runtime/trainer/hugging_face.hpp"
#include "runtime/trainer/learner.hpp"

namespace {

using namespace prime;

struct Arguments {
  std::string manifest, out, left, right;
  std::vector<std::string> overrides;
  std::uint32_t peers = 3, steps = 1;
};

Result<void> write(const std::vector<TensorView>& parameters, const std::filesystem::path& path) {
  std::vector<store::NamedTensor> tensors;
  for (const TensorView& view : parameters) tensors.push_back({view.name, view.shape, view.data.floats()});
  std::filesystem::remove(path);
  PRIME_CHECK(store::write_safetensors(path, tensors));
  return {};
}

/// The shared parameters of a reference step in a learner of their own, for evaluation.
trainer::Learner learner_with(const manifest::Shared& run, const std::vector<TensorView>& parameters) {
  trainer::Learner learner(run.model, run.train);
  for (std::size_t i = 0; i < parameters.size(); ++i)
    std::ranges::copy(parameters[i].data.floats(), learner.parameters()[i].data.floats().begin());
  return learner;
}

Result<void> print_held_out(const manifest::Shared& run, const data::Corpus& corpus, const std::vector<TensorView>& parameters) {
  PRIME_TRY(const auto loss,
            held_out_loss(learner_with(run, parameters), corpus, run.data.held_out_limit_bytes, {0, 1}, [] { return Result<void>{}; }));
  if (loss) std::printf("held_out %.6f\n", loss->loss);
  return {};
}

Result<void> run(const Arguments& arguments) {
  const auto loaded = manifest::load_manifest(arguments.manifest, arguments.overrides);
  if (!loaded) return fail(manifest::first_error(loaded));
  const manifest::Shared& shared = loaded.manifest->shared;
  PRIME_TRY(const auto corpus, data::Corpus::open(*loaded.manifest));
  trainer::set_compute_threads(loaded.manifest->local.threads);
  const std::filesystem::path out(arguments.out);
  const std::filesystem::path last = out / "final";
  std::filesystem::create_directories(last);
  return golden::run_reference(shared, corpus, arguments.peers, arguments.steps, [&](const golden::ReferenceStep& step) -> Result<void> {
    std::printf("step %u loss %.6f\n", step.number, step.loss);
    std::fflush(stdout);
    PRIME_CHECK(write(step.parameters, out / ("step-" + std::to_string(step.number) + ".safetensors")));
    if (step.number < arguments.steps) return {};
    PRIME_CHECK(write(step.parameters, last / "model.safetensors"));
    for (const auto& [name, content] : trainer::files_beside_weights(shared, corpus.tokenizer())) std::ofstream(last / name) << content;
    return print_held_out(shared, corpus, step.parameters);
  });
}

int finish(const Result<void>& outcome) {
  if (outcome) return 0;
  std::fputs(render(outcome.error()).c_str(), stderr);
  return info(outcome.error().name).exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  CLI::App app("single-process DiLoCo, to compare a run with");
  app.require_subcommand(1);
  CLI::App* run_command = app.add_subcommand("run", "train, and write the shared parameters after every outer step");
  run_command->add_option("manifest", arguments.manifest)->required();
  run_command->add_option("--peers", arguments.peers)->check(CLI::PositiveNumber);
  run_command->add_option("--steps", arguments.steps)->check(CLI::PositiveNumber);
  run_command->add_option("--out", arguments.out)->required();
  run_command->add_option("--set", arguments.overrides);
  CLI::App* compare_command = app.add_subcommand("compare", "print the largest absolute difference of two safetensors files");
  compare_command->add_option("left", arguments.left)->required();
  compare_command->add_option("right", arguments.right)->required();
  CLI11_PARSE(app, argc, argv);

  if (run_command->parsed()) return finish(run(arguments));
  const auto difference = golden::largest_difference(arguments.left, arguments.right);
  if (!difference) return finish(fail(difference.error()));
  std::printf("%.9g\n", *difference);
  return 0;
}

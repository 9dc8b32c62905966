// Owns model-losses, which computes what transformers is compared with:
//   model-losses write MANIFEST DIR          an untrained model as a checkpoint has it: config.json and weights
//   model-losses read MANIFEST DIR WINDOWS END OUT
// `read` takes the model of DIR, which must be the manifest's, and WINDOWS, 32-bit ids of model.context + 1 tokens each, whose documents
// end with END (-1: there are none); it prints the loss, and writes the gradient to OUT in the order of DIR/order, one name in a line.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "runtime/manifest/load.hpp"
#include "runtime/store/safetensors.hpp"
#include "runtime/trainer/hugging_face.hpp"
#include "runtime/trainer/inference/model_directory.hpp"
#include "runtime/trainer/learner.hpp"

namespace {

using namespace prime;

Result<void> write(const manifest::Shared& run, const std::filesystem::path& folder) {
  const trainer::Learner learner(run.model, run.train);
  std::vector<store::NamedTensor> tensors;
  std::ofstream order(folder / "order");
  for (const TensorView& view : learner.parameters()) {
    tensors.push_back({view.name, view.shape, view.data.floats()});
    order << view.name << "\n";
  }
  PRIME_CHECK(store::write_safetensors(folder / "model.safetensors", tensors));
  for (const auto& [name, content] : trainer::files_beside_weights(run, data::Tokenizer::bytes(true)))
    std::ofstream(folder / name) << content;
  return {};
}

std::vector<data::Token> tokens_in(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<std::uint32_t> ids(std::filesystem::file_size(path) / sizeof(std::uint32_t));
  file.read(reinterpret_cast<char*>(ids.data()), static_cast<std::streamsize>(ids.size() * sizeof(std::uint32_t)));
  return {ids.begin(), ids.end()};
}

Result<void> read(const manifest::Shared& run, char** arguments) {
  PRIME_TRY(auto directory, trainer::ModelDirectory::open(arguments[0]));
  if (directory.config() != trainer::ModelConfig{run.model})
    return fail(ErrorName::Usage, "config.json says another model than the manifest");
  trainer::Computing computing;
  if (const int end = std::stoi(arguments[2]); end >= 0) computing.document_end = static_cast<data::Token>(end);
  const trainer::Learner learner(run.model, run.train, computing);
  for (const TensorView& view : learner.parameters()) PRIME_CHECK(directory.read(view.name, view.shape, view.data.floats()));
  const auto windows = tokens_in(arguments[1]);
  std::printf("%.9g\n", learner.loss(windows));
  const auto gradient = learner.gradient(windows);
  std::ofstream(arguments[3], std::ios::binary)
      .write(reinterpret_cast<const char*>(gradient.data()), static_cast<std::streamsize>(gradient.size() * sizeof(float)));
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  const std::string verb = argc > 1 ? argv[1] : "";
  if (!(verb == "write" && argc == 4) && !(verb == "read" && argc == 7)) return 2;
  const auto loaded = manifest::load_manifest(argv[2]);
  if (!loaded) return std::fputs(render(loaded).c_str(), stderr), 2;
  trainer::set_compute_threads(1);
  const auto& run = loaded.manifest->shared;
  const auto outcome = verb == "write" ? write(run, argv[3]) : read(run, argv + 3);
  if (outcome) return 0;
  std::fputs(render(outcome.error()).c_str(), stderr);
  return info(outcome.error().name).exit_code;
}

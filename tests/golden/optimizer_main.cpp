// Owns optimizer-steps, which makes the steps of a manifest's optimizer with gradients that are given:
//   optimizer-steps MANIFEST FOLDER
// In FOLDER `leaves` has a line for each: `vector SIZE`, `table ROWS COLUMNS`, or `matrices COLUMNS ROWS…`; `start` and `gradients` have
// the f32 values of them all, `gradients` those of one step after another. Writes `end`.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "runtime/manifest/load.hpp"
#include "runtime/trainer/learner.hpp"
#include "runtime/trainer/optimizer/optimizer.hpp"
#include "runtime/trainer/schedule.hpp"

namespace {

using namespace prime;

std::vector<float> read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<float> values(std::filesystem::file_size(path) / sizeof(float));
  file.read(reinterpret_cast<char*>(values.data()), static_cast<std::streamsize>(values.size() * sizeof(float)));
  return values;
}

trainer::Leaf leaf_of(std::istringstream line) {
  std::string kind;
  line >> kind;
  const std::vector<std::int64_t> sizes(std::istream_iterator<std::int64_t>(line), {});
  if (kind != "matrices") return {at::zeros(sizes), {}};
  std::int64_t rows = 0;
  for (std::size_t i = 1; i < sizes.size(); ++i) rows += sizes[i];
  return {at::zeros({rows, sizes[0]}), {sizes.begin() + 1, sizes.end()}};
}

std::vector<trainer::Leaf> leaves_in(const std::filesystem::path& path) {
  std::vector<trainer::Leaf> leaves;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    leaves.push_back(leaf_of(std::istringstream(line)));
    leaves.back().tensor.requires_grad_();
  }
  return leaves;
}

/// The next values, in the shape of a leaf.
at::Tensor take(const float*& from, const at::Tensor& like) {
  at::Tensor values = at::empty(like.sizes(), at::kFloat);
  std::copy_n(from, values.numel(), values.mutable_data_ptr<float>());
  from += values.numel();
  return values;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::filesystem::path folder(argv[2]);
  const auto loaded = manifest::load_manifest(argv[1]);
  if (!loaded) {
    std::fputs(render(manifest::first_error(loaded)).c_str(), stderr);
    return 2;
  }
  trainer::set_compute_threads(1);
  const manifest::Train& train = loaded.manifest->shared.train;
  std::vector<trainer::Leaf> leaves = leaves_in(folder / "leaves");
  const std::vector<float> start = read(folder / "start"), gradients = read(folder / "gradients");
  const float* from = start.data();
  for (trainer::Leaf& leaf : leaves) leaf.tensor.detach().copy_(take(from, leaf.tensor));
  trainer::Optimizer optimizer(train.optimizer, train.clip_norm, leaves);
  const std::size_t steps = gradients.size() / start.size();
  from = gradients.data();
  for (std::size_t step = 0; step < steps; ++step) {
    for (trainer::Leaf& leaf : leaves) leaf.tensor.mutable_grad() = take(from, leaf.tensor);
    optimizer.step(trainer::learning_rate(train, step, steps));
  }
  std::ofstream end(folder / "end", std::ios::binary);
  for (const trainer::Leaf& leaf : leaves)
    end.write(reinterpret_cast<const char*>(leaf.tensor.const_data_ptr<float>()),
              static_cast<std::streamsize>(sizeof(float)) * leaf.tensor.numel());
  return end.good() ? 0 : 1;
}

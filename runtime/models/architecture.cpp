// Owns the choice of the architecture.
#include "runtime/models/architecture.hpp"

#include <cmath>

namespace prime::models {

const Architecture& architecture_of(manifest::Architecture architecture) {
  switch (architecture) {
    case manifest::Architecture::Llama: return llama();
    case manifest::Architecture::Gpt2: break;
  }
  return gpt2();
}

std::vector<TensorShape> tensor_shapes(const manifest::Model& model) {
  std::vector<TensorShape> shapes;
  for (auto& tensor : architecture_of(model.arch).tensors(model)) shapes.push_back(std::move(tensor.as));
  return shapes;
}

double residual_deviation(const manifest::Model& model) { return DEVIATION / std::sqrt(2.0 * model.layers); }

}  // namespace prime::models

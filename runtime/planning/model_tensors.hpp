// Owns which tensors the built-in trainer's model has, from the manifest alone: no torch, and nothing allocated.
#pragma once

#include <vector>

#include "messages/tensor_shape.hpp"
#include "runtime/manifest/manifest.hpp"

namespace prime::planning {

/// Names and shapes as prime-trainer binds them, in its order (a test compares).
std::vector<TensorShape> model_tensors(const manifest::Model& model);

}  // namespace prime::planning

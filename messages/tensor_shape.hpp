// Owns what a tensor is called and how large it is: the one check that a trainer's tensors and a checkpoint's pass.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "messages/limits.hpp"
#include "messages/result.hpp"

namespace prime {

struct TensorShape {
  std::string name;
  std::vector<std::int64_t> shape;  ///< row-major; empty for a scalar
  friend bool operator==(const TensorShape&, const TensorShape&) = default;
};

/// LayoutUnusable unless it is 1 … `name_bytes` printable ASCII characters, and not `__metadata__`, which safetensors keeps for itself.
Result<void> check_tensor_name(std::string_view name, const ModelLimits& limits = MODEL_LIMITS);

/// The count of values, or why a name or shape is not allowed (LayoutUnusable). A tensor without a value is not allowed.
Result<std::uint64_t> count_elements(const TensorShape& tensor, const ModelLimits& limits = MODEL_LIMITS);

/// A plain file name for what a trainer exports (no slash, not hidden, printable), which is none of the checkpoint's own.
bool is_export_name(std::string_view name);

}  // namespace prime

// Owns activations that another engine left in a safetensors file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "messages/data_types.hpp"
#include "prime/commitment.hpp"

namespace prime::proofs {

struct ActivationFile {
  std::vector<std::uint16_t> bits;
  std::size_t width = 1;
  DataType type = DataType::BF16;  ///< as they lay in the file
  [[nodiscard]] Activations view() const { return {bits, width}; }
};

/// One tensor, [tokens, width] of bf16 or f32, the latter rounded to bf16.
/// StorageFailed, CheckpointCorrupt: the file; Usage: no tensor of this name, another shape or type.
Result<ActivationFile> read_activations(const std::filesystem::path& path, const std::string& tensor);

}  // namespace prime::proofs

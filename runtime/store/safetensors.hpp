// Owns the safetensors format for f32 tensors: what transformers and every other reader of model weights loads.
//
// Layout: 8 bytes of header length (little-endian), a JSON header padded with spaces to 8 bytes, then the tensors without gaps.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "runtime/store/file_io.hpp"

namespace prime::store {

/// The largest header and the most tensors that a reader believes.
inline constexpr std::uint64_t SAFETENSORS_HEADER_BYTES_MAX = 16ULL << 20;
inline constexpr std::size_t SAFETENSORS_TENSORS_MAX = 65536;
inline constexpr std::size_t TENSOR_NAME_BYTES_MAX = 256;
inline constexpr std::size_t TENSOR_DIMENSIONS_MAX = 16;

/// A tensor to write: `data` holds the product of `shape` values, row-major.
struct NamedTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  std::span<const float> data;
};

/// Where a tensor lies in a file.
struct TensorEntry {
  std::string name;
  std::vector<std::int64_t> shape;
  std::uint64_t elements = 0;
  std::uint64_t offset_bytes = 0;  ///< from the start of the file
};

/// Writes a new file in the order given, straight from the spans. LayoutMismatch when names or shapes are not usable.
Result<FileSummary> write_safetensors(const std::filesystem::path& path, std::span<const NamedTensor> tensors);

/// Reads f32 files and believes nothing: names, shapes, offsets and the file's length must agree exactly, or CheckpointCorrupt.
class SafetensorsReader {
 public:
  static Result<SafetensorsReader> open(std::filesystem::path path);
  /// In the order of their bytes in the file.
  [[nodiscard]] const std::vector<TensorEntry>& tensors() const { return tensors_; }
  /// `into` must have the tensor's count of elements.
  Result<void> read(const TensorEntry& tensor, std::span<float> into) const;

 private:
  SafetensorsReader(std::filesystem::path path, Descriptor file, std::vector<TensorEntry> tensors);

  std::filesystem::path path_;
  Descriptor file_;
  std::vector<TensorEntry> tensors_;
};

}  // namespace prime::store

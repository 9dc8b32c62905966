// Owns the safetensors format: what transformers and every other reader of model weights loads. We write our types, and read every type.
//
// Layout: 8 bytes of header length (little-endian), a JSON header padded with spaces to 8 bytes, then the tensors without gaps.
#pragma once

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "messages/data_types.hpp"
#include "messages/limits.hpp"
#include "runtime/store/file_io.hpp"

namespace prime::store {

/// Values of one type, where they lie.
class TensorData {
 public:
  TensorData() = default;
  template <std::ranges::contiguous_range Values>
  requires std::same_as < std::ranges::range_value_t<Values>,
  float > TensorData(const Values& values)  // NOLINT: values are written as what they are
      : bytes_(std::as_bytes(std::span<const float>{values})) {}
  TensorData(DataType type, std::span<const std::byte> bytes) : type_(type), bytes_(bytes) {}

  [[nodiscard]] DataType type() const { return type_; }
  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }
  [[nodiscard]] std::size_t size() const { return bytes_.size() / element_bytes(type_); }  ///< in values

 private:
  DataType type_ = DataType::F32;
  std::span<const std::byte> bytes_;
};

/// A tensor to write: `data` holds the product of `shape` values, row-major.
struct NamedTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  TensorData data;
};

/// Where a tensor lies in a file.
struct TensorEntry {
  std::string name;
  DataType type = DataType::F32;
  std::vector<std::int64_t> shape;
  std::uint64_t elements = 0;
  std::uint64_t offset_bytes = 0;  ///< from the start of the file
  std::string_view foreign;        ///< name of a type of the format that is not one of ours, as BOOL: it is there, and nobody reads it
  [[nodiscard]] std::uint64_t size_bytes() const { return elements * element_bytes(type); }  ///< of a type of ours
  [[nodiscard]] std::string_view type_name() const { return foreign.empty() ? to_string(type) : foreign; }
};

/// Writes a new file in the order given, straight from the spans. LayoutUnusable when names or shapes are not usable.
Result<FileSummary> write_safetensors(const std::filesystem::path& path, std::span<const NamedTensor> tensors);

/// Writes a file of these names and shapes that has a header and otherwise nothing but a length (no disk holds what nobody has written),
/// and reads it back: what passes is what `write_safetensors` can write there, and `SafetensorsReader` find again. The data is not looked
/// at. LayoutUnusable as above; StorageFailed also for a file that is longer than this place or process may have.
Result<void> rehearse_safetensors(const std::filesystem::path& path, std::span<const NamedTensor> tensors,
                                  const ModelLimits& limits = MODEL_LIMITS);

/// Reads files and believes nothing: names, types, shapes, offsets and the file's length must agree exactly, or CheckpointCorrupt.
class SafetensorsReader {
 public:
  static Result<SafetensorsReader> open(std::filesystem::path path);
  /// In the order of their bytes in the file.
  [[nodiscard]] const std::vector<TensorEntry>& tensors() const { return tensors_; }
  /// Of an f32 tensor; `into` must have the tensor's count of elements.
  Result<void> read(const TensorEntry& tensor, std::span<float> into) const;
  /// As many bytes of a tensor (of a type of ours) as fit `into`, from one of its own on.
  Result<void> read_bytes(const TensorEntry& tensor, std::uint64_t from, std::span<std::byte> into) const;

 private:
  SafetensorsReader(std::filesystem::path path, Descriptor file, std::vector<TensorEntry> tensors);

  std::filesystem::path path_;
  Descriptor file_;
  std::vector<TensorEntry> tensors_;
};

}  // namespace prime::store

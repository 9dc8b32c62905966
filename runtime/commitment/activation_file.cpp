#include "runtime/commitment/activation_file.hpp"

#include <algorithm>
#include <unistd.h>

#include "runtime/store/safetensors.hpp"

namespace prime::proofs {
namespace {

/// Of f32 values that are rounded at a time: the file may be larger than what is free twice.
constexpr std::uint64_t ROUNDED_AT_ONCE = 1 << 20;

std::string names_of(const std::vector<store::TensorEntry>& tensors) {
  constexpr std::size_t SHOWN = 5;
  std::string names;
  for (std::size_t i = 0; i < std::min(SHOWN, tensors.size()); ++i) names += (i == 0 ? "`" : ", `") + tensors[i].name + "`";
  return tensors.size() > SHOWN ? names + " and " + std::to_string(tensors.size() - SHOWN) + " more" : names;
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (const auto size : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  return text + "]";
}

}  // namespace

Result<ActivationFile> read_activations(const std::filesystem::path& path, const std::string& tensor) {
  PRIME_TRY(const auto reader, store::SafetensorsReader::open(path));
  const auto& tensors = reader.tensors();
  const auto found = std::find_if(tensors.begin(), tensors.end(), [&](const store::TensorEntry& entry) { return entry.name == tensor; });
  const auto refuse = [&](const std::string& why) { return fail(ErrorName::Usage, path.string() + ": " + why); };
  if (found == tensors.end()) return refuse("no tensor `" + tensor + "`" + (tensors.empty() ? "" : "; there are " + names_of(tensors)));
  if (found->shape.size() != 2 || found->elements == 0)
    return refuse("`" + tensor + "` has the shape " + shape_text(found->shape) + "; activations are [tokens, width]");
  if (!found->foreign.empty() || (found->type != DataType::BF16 && found->type != DataType::F32))
    return refuse("`" + tensor + "` is of " + std::string{found->type_name()} + "; activations are of bf16 or f32");
  // A file of holes takes no room on a disk.
  const auto bytes = found->elements * sizeof(std::uint16_t),
             there = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  if (bytes > there)
    return fail(ErrorName::MemoryUnavailable, path.string() + ": `" + tensor + "` takes " + std::to_string(bytes) +
                                                  " bytes as bf16, and this machine has " + std::to_string(there) +
                                                  "; write fewer tokens into a file");
  ActivationFile file{std::vector<std::uint16_t>(found->elements), static_cast<std::size_t>(found->shape[1]), found->type};
  if (found->type == DataType::BF16) {
    PRIME_CHECK(reader.read_bytes(*found, 0, std::as_writable_bytes(std::span{file.bits})));
    return file;
  }
  std::vector<float> values;
  for (std::uint64_t begin = 0; begin < found->elements; begin += ROUNDED_AT_ONCE) {
    values.resize(std::min(ROUNDED_AT_ONCE, found->elements - begin));
    PRIME_CHECK(reader.read_bytes(*found, begin * sizeof(float), std::as_writable_bytes(std::span{values})));
    std::ranges::copy(to_bf16(values), file.bits.begin() + static_cast<std::ptrdiff_t>(begin));
  }
  return file;
}

}  // namespace prime::proofs

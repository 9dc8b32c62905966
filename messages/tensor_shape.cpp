#include "messages/tensor_shape.hpp"

#include <algorithm>

namespace prime {
namespace {

/// Names travel in JSON, file headers and terminals, so they are plain.
bool is_printable(char c) { return c >= ' ' && c <= '~'; }

Result<std::uint64_t> refuse(std::string what) { return fail(ErrorName::LayoutUnusable, std::move(what)); }

}  // namespace

Result<void> check_tensor_name(std::string_view name, const ModelLimits& limits) {
  const auto most = std::to_string(limits.name_bytes);
  if (name.empty()) return fail(ErrorName::LayoutUnusable, "a tensor has no name: give it 1 to " + most + " printable ASCII characters");
  if (name.size() > limits.name_bytes) {
    return fail(ErrorName::LayoutUnusable, "`" + std::string(name.substr(0, 40)) + "…`, a tensor's name, has " +
                                               std::to_string(name.size()) + " characters: shorten it to " + most);
  }
  const auto odd = std::ranges::find_if_not(name, is_printable);
  if (odd != name.end()) {
    return fail(ErrorName::LayoutUnusable, "character " + std::to_string(odd - name.begin()) + " of a tensor's name, after `" +
                                               std::string(name.begin(), odd) + "`, is not printable ASCII: rename the tensor");
  }
  if (name == "__metadata__")
    return fail(ErrorName::LayoutUnusable,
                "`__metadata__` is no tensor in a safetensors file, but a word of the format: rename the tensor");
  return {};
}

Result<std::uint64_t> count_elements(const TensorShape& tensor, const ModelLimits& limits) {
  PRIME_CHECK(check_tensor_name(tensor.name, limits));
  if (tensor.shape.size() > limits.dimensions) {
    return refuse("`" + tensor.name + "` has " + std::to_string(tensor.shape.size()) + " dimensions: flatten it to at most " +
                  std::to_string(limits.dimensions));
  }
  std::uint64_t elements = 1;
  for (const auto extent : tensor.shape) {
    if (extent < 1)
      return refuse("`" + tensor.name + "` has an extent of " + std::to_string(extent) + ": leave out a tensor without values");
    if (static_cast<std::uint64_t>(extent) > limits.elements / elements)
      return refuse("`" + tensor.name + "` has more than " + std::to_string(limits.elements) +
                    " values, which is the most of a whole model");
    elements *= static_cast<std::uint64_t>(extent);
  }
  return elements;
}

bool is_export_name(std::string_view name) {
  // A checkpoint's own entries: the parameters, and the folder with the rest.
  return !name.empty() && name.size() <= EXPORT_NAME_BYTES_MAX && name.front() != '.' && name != "model.safetensors" && name != "prime" &&
         std::ranges::all_of(name, [](char c) { return is_printable(c) && c != ' ' && c != '/'; });
}

}  // namespace prime

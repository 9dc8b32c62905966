#include "runtime/manifest/canonical.hpp"

#include <algorithm>
#include <xxhash.h>

#include "runtime/manifest/fields.hpp"
#include "runtime/manifest/values.hpp"

namespace prime::manifest {
namespace {

/// The lines of one key; a section's or alternative's content follows as rows of its own.
std::string lines(const Field& field, const Manifest& manifest) {
  const auto* parent = find_field(parent_path(field.path));
  const auto* choice = parent != nullptr ? std::get_if<WordOrSection>(&parent->type) : nullptr;
  if (choice != nullptr && choice->is_word(manifest)) return {};
  const auto depth = static_cast<std::size_t>(std::count(field.path.begin(), field.path.end(), '.'));
  const auto head = std::string(2 * depth, ' ') + std::string{last_key(field.path)} + ":";
  if (const auto* section = std::get_if<Section>(&field.type)) {
    if (section->exists != nullptr && !section->exists(manifest)) return {};
    const auto inside = children(field.path);
    const auto is_silent = [&](const Field* child) { return lines(*child, manifest).empty(); };
    return head + (std::all_of(inside.begin(), inside.end(), is_silent) ? " {}\n" : "\n");
  }
  if (std::holds_alternative<Alternative>(field.type)) return head + "\n";
  if (const auto* type = std::get_if<WordOrSection>(&field.type); type != nullptr && !type->is_word(manifest)) return head + "\n";
  const auto value = print(field, manifest);
  return value ? head + " " + *value + "\n" : std::string{};
}

std::string half(const Manifest& manifest, bool local) {
  std::string text;
  for (const auto& field : fields())
    if (is_local(field.path) == local && !is_of_list(field)) text += lines(field, manifest);
  return text;
}

}  // namespace

std::string shared_yaml(const Manifest& manifest) { return half(manifest, false); }
std::string local_yaml(const Manifest& manifest) { return half(manifest, true); }

Digest run_digest(const Manifest& manifest) {
  const auto text = shared_yaml(manifest);
  const auto hash = XXH3_128bits(text.data(), text.size());
  return {.high = hash.high64, .low = hash.low64};
}

}  // namespace prime::manifest

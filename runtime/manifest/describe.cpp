#include "runtime/manifest/describe.hpp"

#include "runtime/manifest/fields.hpp"
#include "runtime/manifest/values.hpp"

namespace prime::manifest {
namespace {

std::string default_of(const Field& field) {
  static const Manifest defaults;
  if (field.required) return "required";
  if (!field.derived.empty()) return "default: " + std::string{field.derived};
  if (const auto* type = std::get_if<Alternative>(&field.type)) return "default: " + std::string{type->words[type->get(defaults)]};
  const auto value = print(field, defaults);
  return value ? "default: " + *value : "no default";
}

}  // namespace

std::vector<std::string> key_paths() {
  std::vector<std::string> paths;
  for (const auto& field : fields()) paths.emplace_back(field.path);
  return paths;
}

std::optional<std::string> describe(std::string_view key_path) {
  const auto* field = find_field(key_path);
  if (field == nullptr) return std::nullopt;
  auto text = std::string{field->path} + ": " + std::string{field->meaning} + "\n";
  if (!std::holds_alternative<Section>(field->type)) text += "  " + expected(*field) + "; " + default_of(*field) + "\n";
  text += is_local(field->path) ? "  of this peer alone\n" : "  the same on every peer\n";
  for (const auto* child : children(key_path))
    text += "    " + std::string{last_key(child->path)} + ": " + std::string{child->meaning} + "\n";
  return text;
}

std::optional<std::string> nearest_key(std::string_view key_path) {
  std::vector<std::string_view> paths;
  for (const auto& field : fields()) paths.push_back(field.path);
  if (const auto found = nearest(key_path, paths)) return std::string{*found};
  for (const auto path : paths)
    if (last_key(path) == last_key(key_path)) return std::string{path};
  return std::nullopt;
}

}  // namespace prime::manifest

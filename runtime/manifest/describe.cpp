#include "runtime/manifest/describe.hpp"

#include <algorithm>

#include "runtime/manifest/fields.hpp"
#include "runtime/manifest/values.hpp"

namespace prime::manifest {
namespace {

constexpr std::string_view REQUIRED = "required";
constexpr std::string_view NO_DEFAULT = "no default";

std::string default_text(const Field& field) {
  const auto defaults = defaults_of(field);
  if (field.required) return std::string{REQUIRED};
  if (!field.derived.empty()) return std::string{field.derived};
  if (const auto* type = std::get_if<Alternative>(&field.type)) return std::string{type->words[type->get(defaults)]};
  return print(field, defaults).value_or(std::string{NO_DEFAULT});
}

std::string default_of(const Field& field) {
  auto text = default_text(field);
  return text == REQUIRED || text == NO_DEFAULT ? text : "default: " + text;
}

/// With the greatest integer, which a problem's message leaves out.
std::string range_text(const Field& field) {
  const auto* type = std::get_if<Integer>(&field.type);
  const bool bounded = type != nullptr && type->minimum != type->maximum;
  return expected(field) + (bounded ? " and ≤ " + std::to_string(type->maximum) : std::string{});
}

/// "`model`, `data.tokenizer`": a section stands for its keys where all of them are kept.
std::string kept_keys() {
  std::string names;
  std::string_view last;
  for (const auto& field : fields()) {
    if (!field.of_state) continue;
    const auto siblings = children(parent_path(field.path));
    const bool all = std::all_of(siblings.begin(), siblings.end(), [](const Field* sibling) { return sibling->of_state; });
    const auto name = all ? parent_path(field.path) : field.path;
    // A section within the one that was named says nothing more.
    if (!last.empty() && name.starts_with(last) && (name.size() == last.size() || name[last.size()] == '.')) continue;
    names += (names.empty() ? "`" : ", `") + std::string{name} + "`";
    last = name;
  }
  return names;
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
  if (field->of_state) text += "  kept by a run that goes on from a checkpoint (`primectl up FILE --from`)\n";
  for (const auto* child : children(key_path))
    text += "    " + std::string{last_key(child->path)} + ": " + std::string{child->meaning} + "\n";
  return text;
}

std::vector<std::string> nearest_keys(std::string_view key_path) {
  constexpr std::size_t SHOWN = 3;
  std::vector<std::string_view> paths;
  for (const auto& field : fields()) paths.push_back(field.path);
  std::vector<std::string> found;
  const auto take = [&](std::string_view path) {
    found.emplace_back(path);
    std::erase(paths, path);
  };
  // The same key in another section is meant more often than one that is merely spelt like it.
  for (const auto path : std::vector{paths})
    if (last_key(path) == last_key(key_path) && found.size() < SHOWN) take(path);
  while (found.size() < SHOWN) {
    const auto near = nearest(key_path, paths);
    if (!near) break;
    take(*near);
  }
  return found;
}

std::string reference_page() {
  std::string page =
      "# The run manifest\n\n"
      "<!-- Written from the field table in runtime/manifest/fields.cpp by `PRIME_RECORD=1 runtime_manifest_test`; a test compares. -->\n\n"
      "One YAML file describes a run; `manifests/quickstart.yaml` is a short one. Every key but `version` and `run` may be left out. "
      "Quantities\n"
      "carry their units (`30s`, `32KiB`, `5%`). `primectl validate FILE` checks a file, `--set KEY=VALUE` replaces one value,\n"
      "`primectl explain KEY` shows one line of this page, and `manifests/schema/run.v1.json` is the same for editors.\n\n"
      "All keys but those of `local` are the same on every peer: joiners get them from the run. `local` belongs to one peer alone.\n"
      "A run that goes on from a checkpoint (`primectl up FILE --from`) keeps the values of " +
      kept_keys() + "; all others may change.\n";
  const auto cell = [](std::string text) {
    for (std::size_t bar = 0; (bar = text.find('|', bar)) != std::string::npos; bar += 2) text.insert(bar, 1, '\\');
    return text;
  };
  for (const auto& field : fields()) {
    const bool section = std::holds_alternative<Section>(field.type);
    if (parent_path(field.path).empty())
      page += (section ? "\n## " + std::string{field.path} + "\n\n" + std::string{field.meaning} + "\n" : std::string{}) +
              (section || field.path == fields().front().path ? "\n| key | must be | default | meaning |\n|---|---|---|---|\n" : "");
    if (!section)
      page += "| `" + std::string{field.path} + "` | " + cell(range_text(field)) + " | " + cell(default_text(field)) + " | " +
              cell(std::string{field.meaning}) + " |\n";
  }
  return page;
}

}  // namespace prime::manifest

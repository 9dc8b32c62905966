// Owns both ways: a list in the tree of a document into the structs, and back.
#include "runtime/manifest/source_values.hpp"

#include "runtime/manifest/values.hpp"

namespace prime::manifest {
namespace {

/// One map of the list, into its last source.
std::optional<Fault> read_source(const Field& field, const Node& item, Manifest& manifest) {
  if (item.kind != Node::Kind::Map)
    return Fault{"must be " + expected(field) + ", found " + shown(item), "for example `sources: " + example(field) + "`", item.place};
  std::vector<std::string_view> keys;
  for (const auto* child : children(field.path)) keys.push_back(last_key(child->path));
  bool has_path = false;
  for (const auto& [key, place, value] : item.entries) {
    const auto* child = find_field(join_path(field.path, key));
    if (child == nullptr) {
      const auto meant = nearest(key, keys);
      return Fault{"has an unknown key `" + shown(key) + "`",
                   meant ? "did you mean `" + std::string{*meant} + "`?" : "see `primectl explain data.sources`", place};
    }
    if (auto fault = store(*child, value, manifest)) {
      fault->message = "has a wrong `" + key + "`: it " + fault->message;
      return fault;
    }
    has_path |= key == "path" && !manifest.shared.data.sources.back().paths.empty();
  }
  if (has_path) return std::nullopt;
  return Fault{"has a source without a `path`", "add `path: /data/text`", item.place};
}

}  // namespace

std::optional<Fault> read_sources(const Field& field, const Sources& type, const Node& node, Manifest& manifest) {
  if (node.items.size() > type.maximum)
    return Fault{"must have at most " + std::to_string(type.maximum) + " items, found " + std::to_string(node.items.size()),
                 "one source may have several paths", node.place};
  Manifest scratch;
  for (const auto& item : node.items) {
    scratch.shared.data.sources.emplace_back();
    if (auto fault = read_source(field, item, scratch)) return fault;
  }
  *type.slot.write(manifest) = std::move(scratch.shared.data.sources);
  return std::nullopt;
}

std::string print_sources(const Field& field, const std::vector<Source>& sources) {
  std::string text = "[";
  for (const auto& source : sources) {
    Manifest one;
    one.shared.data.sources = {source};
    text += text.size() == 1 ? "{" : ", {";
    for (const auto* child : children(field.path)) {
      if (text.back() != '{') text += ", ";
      text += std::string{last_key(child->path)} + ": " + print(*child, one).value_or("null");
    }
    text += "}";
  }
  return text + "]";
}

}  // namespace prime::manifest

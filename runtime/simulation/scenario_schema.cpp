// Owns the JSON schema of scenario files, as one more walk over the key tables.
#include <nlohmann/json.hpp>

#include "runtime/manifest/fields.hpp"
#include "runtime/simulation/scenario_keys.hpp"

namespace prime::sim {
namespace {

using Json = nlohmann::ordered_json;

template <class Target>
Json map_of(const std::vector<Key<Target>>& keys, std::string_view section) {
  Json result{{"type", "object"}, {"additionalProperties", false}};
  Json required = Json::array();
  for (const auto& key : keys) {
    if (manifest::parent_path(key.path) != section) continue;
    Json node{{"description", key.meaning}};
    node.update(key.kind == manifest::Node::Kind::Map ? map_of(keys, key.path) : Json::parse(key.schema));
    if (key.required) required.push_back(key.path);
    result["properties"][std::string{manifest::last_key(key.path)}] = std::move(node);
  }
  if (!required.empty()) result["required"] = required;
  return result;
}

}  // namespace

std::string scenario_schema() {
  Json result{{"$schema", "http://json-schema.org/draft-07/schema#"}, {"title", "prime simulation scenario, version 1"}};
  result.update(map_of(scenario_keys(), ""));
  result["properties"]["faults"].update(Json{{"type", "array"}, {"items", map_of(fault_keys(), "")}});
  return result.dump(2) + "\n";
}

}  // namespace prime::sim

// Owns the JSON schema that editors read, as one more walk over the field table.
#include <nlohmann/json.hpp>

#include "messages/result.hpp"
#include "runtime/manifest/describe.hpp"
#include "runtime/manifest/fields.hpp"
#include "runtime/manifest/values.hpp"

namespace prime::manifest {
namespace {

// Keys stay in the order of the table, so that the committed file changes only where the table does.
using Json = nlohmann::ordered_json;

constexpr std::string_view DECIMAL_DIGITS = "([0-9]+(\\.[0-9]*)?|\\.[0-9]+)([eE][-+]?[0-9]+)?";

Json text(std::string_view pattern) { return {{"type", "string"}, {"pattern", pattern}}; }

Json number(const Interval& range) {
  return {{"type", "number"},
          {range.above ? "exclusiveMinimum" : "minimum", range.minimum},
          {range.below ? "exclusiveMaximum" : "maximum", range.maximum}};
}

Json list(Json items, std::size_t least, std::size_t most) {
  return {{"type", "array"}, {"items", std::move(items)}, {"minItems", least}, {"maxItems", most}};
}

Json node(const Field& field);

Json map_of(std::string_view section) {
  Json result{{"type", "object"}, {"additionalProperties", false}};
  Json required = Json::array();
  for (const auto* child : children(section)) {
    result["properties"][std::string{last_key(child->path)}] = node(*child);
    if (child->required) required.push_back(last_key(child->path));
  }
  if (!required.empty()) result["required"] = required;
  return result;
}

Json shape(const Field& field) {
  return std::visit(overloaded{
                        [&](const Section&) { return map_of(field.path); },
                        [&](const Alternative&) {
                          auto result = map_of(field.path);
                          result["minProperties"] = 1;
                          result["maxProperties"] = 1;
                          return result;
                        },
                        [](const Integer& type) {
                          return Json{{"type", "integer"}, {"minimum", type.minimum}, {"maximum", type.maximum}};
                        },
                        [](const Decimal& type) { return number(type.range); },
                        [](const Weights& type) {
                          Json point{{"type", "object"}, {"additionalProperties", false}, {"required", {"at", "weight"}}};
                          point["properties"] = {{"at", {{"type", "integer"}, {"minimum", 0}, {"maximum", type.last_sample}}},
                                                 {"weight", number(type.range)}};
                          return Json{{"oneOf", {number(type.range), list(std::move(point), 2, type.maximum)}}};
                        },
                        [](const DecimalPair& type) { return list(number(type.range), 2, 2); },
                        [](const Percentage&) { return text("^" + std::string{DECIMAL_DIGITS} + "%$"); },
                        [](const Flag&) {
                          return Json{{"type", "boolean"}};
                        },
                        [](const Choice& type) {
                          return Json{{"enum", type.words}};
                        },
                        [](const Text& type) { return text(type.rule.pattern); },
                        [](const OptionalText& type) { return text(type.rule.pattern); },
                        [](const TextList& type) {
                          auto several = list(text(type.rule.pattern), 0, type.maximum);
                          return type.or_one ? Json{{"oneOf", {text(type.rule.pattern), several}}} : several;
                        },
                        [](const ByteCount&) { return text("^[0-9]+(B|KiB|MiB|GiB)$"); },
                        [](const OptionalBitRate&) { return text("^[0-9]+(kbit/s|Mbit/s|Gbit/s)$"); },
                        [](const TimeSpan&) { return text("^[0-9]+(ms|s|min|h)$"); },
                        [&](const WordOrSection& type) {
                          auto map = map_of(field.path);
                          if (type.either.size() == 1) map["required"] = type.either;
                          else
                            for (const auto key : type.either) map["oneOf"].push_back({{"required", {key}}});
                          return Json{{"oneOf", {Json{{"enum", type.words}}, std::move(map)}}};
                        },
                        [&](const Sources& type) {
                          auto map = map_of(field.path);
                          map["required"] = {"path"};
                          return list(std::move(map), 0, type.maximum);
                        },
                        [](const Peers&) { return text("^[0-9]+\\.\\.[0-9]+$"); },
                    },
                    field.type);
}

Json node(const Field& field) {
  Json result{{"description", field.meaning}};
  result.update(shape(field));
  if (!field.derived.empty()) result["description"] = std::string{field.meaning} + "; default: " + std::string{field.derived};
  else if (const auto value = print(field, defaults_of(field)); value && !field.required)
    result["description"] = std::string{field.meaning} + "; default: " + *value;
  return result;
}

}  // namespace

std::string json_schema() {
  Json result{{"$schema", "http://json-schema.org/draft-07/schema#"}, {"title", "prime run manifest, version 1"}};
  result.update(map_of(""));
  return result.dump(2) + "\n";
}

}  // namespace prime::manifest

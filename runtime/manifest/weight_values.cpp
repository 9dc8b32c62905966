// Owns both ways of a weight that changes over the run: a list of points in the tree of a document, and its text.
#include "runtime/manifest/weight_values.hpp"

#include <algorithm>

namespace prime::manifest {
namespace {

Fault wrong(const std::string& what, const Node& node) {
  return {what, "for example `weight: [{at: 0, weight: 0.8}, {at: 1000000, weight: 0.2}]`", node.place};
}

std::optional<Fault> read_point(const Weights& type, const Node& item, SourceWeight& weight) {
  SourceWeight::Point point;
  bool has_at = false, has_weight = false;
  if (item.kind != Node::Kind::Map || item.entries.size() != 2) return wrong("has a point that is no map with `at` and `weight`", item);
  for (const auto& [key, place, value] : item.entries) {
    const bool scalar = value.kind == Node::Kind::Scalar && !value.quoted;
    if (key == "at") {
      const auto at = scalar ? parse_integer(value.text) : std::nullopt;
      if (!at || *at > type.last_sample)
        return wrong("has a point whose `at` is " + shown(value) + ", and no sample from 0 to " + std::to_string(type.last_sample), value);
      point.at = *at;
      has_at = true;
    } else if (key == "weight") {
      const auto number = scalar ? parse_decimal(value.text) : std::nullopt;
      if (!number || *number < type.range.minimum || *number > type.range.maximum)
        return wrong("has a point whose `weight` is " + shown(value) + ", and no number from " + print_number(type.range.minimum) + " to " +
                         print_number(type.range.maximum),
                     value);
      point.weight = *number;
      has_weight = true;
    }
  }
  if (!has_at || !has_weight) return wrong("has a point that is no map with `at` and `weight`", item);
  if (!weight.points.empty() && point.at <= weight.points.back().at)
    return wrong("has points that do not ascend: `at: " + std::to_string(point.at) +
                     "` behind `at: " + std::to_string(weight.points.back().at) + "`",
                 item);
  weight.points.push_back(point);
  return std::nullopt;
}

}  // namespace

std::optional<Fault> read_points(const Weights& type, const Node& node, Manifest& manifest) {
  if (node.items.size() < 2 || node.items.size() > type.maximum)
    return wrong("must have 2 to " + std::to_string(type.maximum) + " points, found " + std::to_string(node.items.size()), node);
  SourceWeight weight;
  for (const auto& item : node.items)
    if (auto fault = read_point(type, item, weight)) return fault;
  if (std::ranges::all_of(weight.points, [](const auto& point) { return point.weight == 0; }))
    return wrong("is 0 at each of its points: the source would never be read", node);
  *type.slot.write(manifest) = std::move(weight);
  return std::nullopt;
}

std::string print_weight(const SourceWeight& weight) {
  if (!weight.changes()) return print_number(weight.given() ? weight.points.front().weight : 0);
  std::string text = "[";
  for (const auto& [at, value] : weight.points)
    text += (text.size() == 1 ? "" : ", ") + ("{at: " + std::to_string(at) + ", weight: " + print_number(value) + "}");
  return text + "]";
}

}  // namespace prime::manifest

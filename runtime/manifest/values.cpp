#include "runtime/manifest/values.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

#include "messages/result.hpp"
#include "runtime/manifest/source_values.hpp"
#include "runtime/manifest/weight_values.hpp"

namespace prime::manifest {
namespace {

using Reason = std::optional<Fault>;

std::string must_be(const std::string& what, const Node& node) { return "must be " + what + ", found " + shown(node); }

template <class N>
std::optional<N> parse_number(std::string_view text) {
  N number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return number;
}

bool within(double number, const Interval& range) {
  return (range.above ? number > range.minimum : number >= range.minimum) &&
         (range.below ? number < range.maximum : number <= range.maximum);
}

std::string describe_interval(const Interval& range, std::string_view unit = "") {
  return std::string{range.above ? "> " : "≥ "} + print_number(range.minimum) + std::string{unit} + " and " + (range.below ? "< " : "≤ ") +
         print_number(range.maximum) + std::string{unit};
}

std::string one_of(const std::vector<std::string_view>& words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i)
    text += (i == 0 ? "" : i + 1 == words.size() ? " or " : ", ") + ("`" + std::string{words[i]} + "`");
  return text;
}

/// Says what the type cannot know: how the key is written, and that quotes make a text of a number.
Fault wrong(const Field& field, const Node& node) {
  const auto key = std::string{last_key(field.path)};
  return {must_be(expected(field), node), "for example `" + key + ": " + example(field) + "`", node.place};
}

/// A number in quotes is a text; says so if the text would have been right.
template <class Parse>
Fault wrong_number(const Field& field, const Node& node, Parse parse) {
  auto fault = wrong(field, node);
  if (node.kind == Node::Kind::Scalar && node.quoted && parse(node.text)) fault.hint = "remove the quotes";
  return fault;
}

Reason read(const Field& field, const Integer& type, const Node& node, Manifest& manifest) {
  const auto number = node.quoted ? std::nullopt : parse_integer(node.text);
  if (!number || *number < type.minimum) return wrong_number(field, node, parse_integer);
  if (*number > type.maximum) {
    auto fault = wrong(field, node);
    if (type.minimum == type.maximum) fault.hint = "this program knows no other; what is newer needs a newer program";
    else fault.message = must_be("at most " + std::to_string(type.maximum), node);
    return fault;
  }
  *type.slot.write(manifest) = static_cast<std::uint32_t>(*number);
  return std::nullopt;
}

Reason read(const Field& field, const Decimal& type, const Node& node, Manifest& manifest) {
  const auto number = node.quoted ? std::nullopt : parse_decimal(node.text);
  if (!number || !within(*number, type.range)) return wrong_number(field, node, parse_decimal);
  *type.slot.write(manifest) = *number;
  return std::nullopt;
}

Reason read(const Field& field, const Weights& type, const Node& node, Manifest& manifest) {
  if (node.kind == Node::Kind::List) return read_points(type, node, manifest);
  const auto number = node.quoted ? std::nullopt : parse_decimal(node.text);
  if (!number || !within(*number, type.range)) return wrong_number(field, node, parse_decimal);
  *type.slot.write(manifest) = *number;
  return std::nullopt;
}

Reason read(const Field& field, const DecimalPair& type, const Node& node, Manifest& manifest) {
  if (node.items.size() != 2) return wrong(field, node);
  std::array<double, 2> pair{};
  for (std::size_t i = 0; i < 2; ++i) {
    const auto& item = node.items[i];
    const auto number = item.kind != Node::Kind::Scalar || item.quoted ? std::nullopt : parse_decimal(item.text);
    if (!number || !within(*number, type.range)) return wrong_number(field, item, parse_decimal);
    pair[i] = *number;
  }
  *type.slot.write(manifest) = pair;
  return std::nullopt;
}

Reason read(const Field& field, const Percentage& type, const Node& node, Manifest& manifest) {
  std::string_view text = node.text;
  if (!text.ends_with('%')) {
    auto fault = wrong(field, node);
    if (parse_decimal(text)) fault.hint = "add the unit, for example `" + std::string{last_key(field.path)} + ": " + example(field) + "`";
    return fault;
  }
  text.remove_suffix(1);
  const auto number = parse_decimal(text);
  if (!number || !within(*number, type.range)) return wrong(field, node);
  *type.slot.write(manifest) = *number;
  return std::nullopt;
}

Reason read(const Field& field, const Flag& type, const Node& node, Manifest& manifest) {
  const bool yes = node.text == "true";
  if (node.quoted || (!yes && node.text != "false"))
    return wrong_number(field, node, [](std::string_view text) { return text == "true" || text == "false"; });
  *type.slot.write(manifest) = yes;
  return std::nullopt;
}

Reason read(const Field& field, const Choice& type, const Node& node, Manifest& manifest) {
  const auto word = std::find(type.words.begin(), type.words.end(), node.text);
  if (word == type.words.end()) {
    auto fault = wrong(field, node);
    if (const auto meant = nearest(node.text, type.words)) fault.hint = "did you mean `" + std::string{*meant} + "`?";
    return fault;
  }
  type.set(manifest, static_cast<std::size_t>(word - type.words.begin()));
  return std::nullopt;
}

Reason read(const Field& field, const Alternative& type, const Node& node, Manifest& manifest) {
  if (node.entries.size() != 1) {
    auto fault = wrong(field, node);
    if (node.entries.size() > 1)
      fault = {"must be exactly one of " + one_of(type.words) + ", found several", "keep one of them", node.entries[1].place};
    return fault;
  }
  const auto word = std::find(type.words.begin(), type.words.end(), node.entries.front().key);
  // An unknown word is an unknown key, which whoever walks the map reports.
  if (word != type.words.end()) type.set(manifest, static_cast<std::size_t>(word - type.words.begin()));
  return std::nullopt;
}

Reason read(const Field&, const Section&, const Node&, Manifest&) { return std::nullopt; }

/// Of a map, whoever walks it reads the keys.
Reason read(const Field& field, const WordOrSection& type, const Node& node, Manifest& manifest) {
  if (node.kind == Node::Kind::Map) {
    const auto is_one = [&](const Entry& entry) { return std::ranges::find(type.either, entry.key) != type.either.end(); };
    const auto first = std::ranges::find_if(node.entries, is_one);
    if (first == node.entries.end()) return wrong(field, node);
    const auto second = std::find_if(first + 1, node.entries.end(), is_one);
    if (second == node.entries.end()) return std::nullopt;
    return Fault{"must have exactly one of " + one_of(type.either) + ", found several", "keep one of them", second->place};
  }
  const auto word = std::find(type.words.begin(), type.words.end(), node.text);
  if (word == type.words.end()) {
    auto fault = wrong(field, node);
    if (const auto meant = nearest(node.text, type.words)) fault.hint = "did you mean `" + std::string{*meant} + "`?";
    return fault;
  }
  type.set(manifest, static_cast<std::size_t>(word - type.words.begin()));
  return std::nullopt;
}

Reason read(const Field& field, const Sources& type, const Node& node, Manifest& manifest) {
  return read_sources(field, type, node, manifest);
}

Reason read(const Field& field, const Text& type, const Node& node, Manifest& manifest) {
  if (!type.rule.accepts(node.text)) {
    auto fault = wrong(field, node);
    if (const auto meant = type.rule.meant != nullptr ? type.rule.meant(node.text) : std::string{}; !meant.empty())
      fault.hint = "did you mean `" + meant + "`?";
    return fault;
  }
  *type.slot.write(manifest) = node.text;
  return std::nullopt;
}

Reason read(const Field& field, const OptionalText& type, const Node& node, Manifest& manifest) {
  if (!type.rule.accepts(node.text)) return wrong(field, node);
  *type.slot.write(manifest) = node.text;
  return std::nullopt;
}

Reason read(const Field& field, const TextList& type, const Node& node, Manifest& manifest) {
  if (type.or_one && node.kind == Node::Kind::Scalar) {
    if (!type.rule.accepts(node.text)) return wrong(field, node);
    *type.slot.write(manifest) = {node.text};
    return std::nullopt;
  }
  if (node.items.size() > type.maximum)
    return Fault{"must have at most " + std::to_string(type.maximum) + " items, found " + std::to_string(node.items.size()), "use a script",
                 node.place};
  std::vector<std::string> texts;
  for (const auto& item : node.items) {
    if (item.kind != Node::Kind::Scalar || !type.rule.accepts(item.text)) return wrong(field, item);
    texts.push_back(item.text);
  }
  *type.slot.write(manifest) = std::move(texts);
  return std::nullopt;
}

/// A quantity in our units, or why not: most often the unit is missing.
template <class Q, class Type>
Reason read_quantity(const Field& field, const Type& type, std::optional<Q> quantity, const Node& node, Manifest& manifest) {
  if (!quantity) {
    auto fault = wrong(field, node);
    if (parse_decimal(node.text))
      fault.hint = "add the unit, for example `" + std::string{last_key(field.path)} + ": " + example(field) + "`";
    return fault;
  }
  if (*quantity < type.minimum || *quantity > type.maximum) return wrong(field, node);
  *type.slot.write(manifest) = *quantity;
  return std::nullopt;
}

Reason read(const Field& field, const ByteCount& type, const Node& node, Manifest& manifest) {
  return read_quantity(field, type, parse_byte_count(node.text), node, manifest);
}

Reason read(const Field& field, const OptionalBitRate& type, const Node& node, Manifest& manifest) {
  return read_quantity(field, type, parse_bit_rate(node.text), node, manifest);
}

Reason read(const Field& field, const TimeSpan& type, const Node& node, Manifest& manifest) {
  return read_quantity(field, type, parse_duration(node.text), node, manifest);
}

Reason read(const Field& field, const Peers& type, const Node& node, Manifest& manifest) {
  const std::string_view text = node.text;
  const auto dots = text.find("..");
  if (dots == std::string_view::npos) {
    auto fault = wrong(field, node);
    if (parse_number<std::uint32_t>(text)) fault.hint = "for exactly that many, write `" + node.text + ".." + node.text + "`";
    return fault;
  }
  const auto minimum = parse_number<std::uint32_t>(text.substr(0, dots));
  const auto maximum = parse_number<std::uint32_t>(text.substr(dots + 2));
  if (!minimum || !maximum || *minimum < 1 || *maximum > type.maximum) return wrong(field, node);
  if (*minimum > *maximum) {
    auto fault = wrong(field, node);
    fault.hint = "the fewest come first: `" + std::to_string(*maximum) + ".." + std::to_string(*minimum) + "`";
    return fault;
  }
  *type.slot.write(manifest) = {*minimum, *maximum};
  return std::nullopt;
}

Node::Kind kind_of(const FieldType& type) {
  if (std::holds_alternative<Section>(type) || std::holds_alternative<Alternative>(type)) return Node::Kind::Map;
  if (std::holds_alternative<DecimalPair>(type) || std::holds_alternative<TextList>(type) || std::holds_alternative<Sources>(type))
    return Node::Kind::List;
  return Node::Kind::Scalar;
}

template <std::size_t N>
std::string in_largest_unit(std::uint64_t count, const std::array<std::pair<std::uint64_t, std::string_view>, N>& units) {
  const auto unit = std::find_if(units.begin(), units.end() - 1, [&](const auto& row) { return count != 0 && count % row.first == 0; });
  return std::to_string(count / unit->first) + std::string{unit->second};
}

template <class T, class Print>
std::optional<std::string> print_slot(const Slot<T>& slot, const Manifest& manifest, Print print_value) {
  const T* value = slot.read(manifest);
  return value ? std::optional<std::string>{print_value(*value)} : std::nullopt;
}

std::string print_list(const std::vector<std::string>& items) {
  std::string text = "[";
  for (const auto& item : items) text += (text.size() == 1 ? "" : ", ") + item;
  return text + "]";
}

}  // namespace

std::optional<double> parse_decimal(std::string_view text) {
  const auto number = parse_number<double>(text);
  return number && std::isfinite(*number) ? std::optional<double>{*number + 0.0} : std::nullopt;
}

std::optional<std::uint64_t> parse_integer(std::string_view text) {
  const bool digits = !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
  return digits ? parse_number<std::uint64_t>(text).value_or(std::numeric_limits<std::uint64_t>::max()) : std::optional<std::uint64_t>{};
}

std::string in_quotes(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + "\"";
}

std::string print_number(double number) {
  std::array<char, 64> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), number).ptr;
  return {text.data(), end};
}

std::string print_duration(Duration duration) {
  static constexpr std::array<std::pair<std::uint64_t, std::string_view>, 4> UNITS = {
      {{3'600'000'000'000, "h"}, {60'000'000'000, "min"}, {1'000'000'000, "s"}, {1'000'000, "ms"}}};
  return in_largest_unit(static_cast<std::uint64_t>(duration.count()), UNITS);
}

std::string print_byte_count(std::uint64_t bytes) {
  static constexpr std::array<std::pair<std::uint64_t, std::string_view>, 4> UNITS = {{{GIB, "GiB"}, {MIB, "MiB"}, {KIB, "KiB"}, {1, "B"}}};
  return in_largest_unit(bytes, UNITS);
}

std::string print_bit_rate(std::uint64_t bits_per_s) {
  static constexpr std::array<std::pair<std::uint64_t, std::string_view>, 3> UNITS = {
      {{1'000'000'000, "Gbit/s"}, {1'000'000, "Mbit/s"}, {1'000, "kbit/s"}}};
  return in_largest_unit(bits_per_s, UNITS);
}

std::optional<Fault> store(const Field& field, const Node& node, Manifest& manifest) {
  if (node.kind == Node::Kind::Broken) return std::nullopt;
  const auto key = std::string{last_key(field.path)};
  if (node.kind == Node::Kind::Null) return Fault{"has no value", "write one, or remove the key to take the default", node.place};
  const auto* list = std::get_if<TextList>(&field.type);
  const bool may_be_one = list != nullptr && list->or_one && node.kind == Node::Kind::Scalar;
  const bool may_be_map = std::holds_alternative<WordOrSection>(field.type) && node.kind == Node::Kind::Map;
  const bool may_be_list = std::holds_alternative<Weights>(field.type) && node.kind == Node::Kind::List;
  if (node.kind != kind_of(field.type) && !may_be_one && !may_be_map && !may_be_list) {
    auto fault = wrong(field, node);
    if (const auto* type = std::get_if<Alternative>(&field.type);
        type && node.kind == Node::Kind::Scalar && std::find(type->words.begin(), type->words.end(), node.text) != type->words.end())
      fault.hint = "write `" + key + ": {" + node.text + ": {}}`";
    return fault;
  }
  return std::visit([&](const auto& type) { return read(field, type, node, manifest); }, field.type);
}

std::optional<std::string> print(const Field& field, const Manifest& manifest) {
  using Printed = std::optional<std::string>;
  return std::visit(
      overloaded{
          [](const Section&) { return Printed{}; },
          [](const Alternative&) { return Printed{}; },
          [&](const Integer& type) { return print_slot(type.slot, manifest, [](std::uint32_t value) { return std::to_string(value); }); },
          [&](const Decimal& type) { return print_slot(type.slot, manifest, print_number); },
          [&](const Weights& type) { return print_slot(type.slot, manifest, print_weight); },
          [&](const DecimalPair& type) {
            return print_slot(type.slot, manifest, [](const auto& pair) {
              return print_list({print_number(pair[0]), print_number(pair[1])});
            });
          },
          [&](const Percentage& type) { return print_slot(type.slot, manifest, [](double value) { return print_number(value) + "%"; }); },
          [&](const Flag& type) {
            return print_slot(type.slot, manifest, [](bool value) { return std::string{value ? "true" : "false"}; });
          },
          [&](const Choice& type) { return Printed{type.words[type.get(manifest)]}; },
          [&](const Text& type) { return print_slot(type.slot, manifest, in_quotes); },
          [&](const OptionalText& type) { return *type.slot.read(manifest) ? Printed{in_quotes(**type.slot.read(manifest))} : Printed{}; },
          [&](const TextList& type) {
            return print_slot(type.slot, manifest, [](std::vector<std::string> items) {
              std::transform(items.begin(), items.end(), items.begin(), in_quotes);
              return print_list(items);
            });
          },
          [&](const ByteCount& type) { return print_slot(type.slot, manifest, print_byte_count); },
          [&](const OptionalBitRate& type) {
            return *type.slot.read(manifest) ? Printed{print_bit_rate(**type.slot.read(manifest))} : Printed{};
          },
          [&](const TimeSpan& type) { return print_slot(type.slot, manifest, print_duration); },
          [&](const WordOrSection& type) { return type.is_word(manifest) ? Printed{type.words.front()} : Printed{}; },
          [&](const Sources& type) {
            return print_slot(type.slot, manifest, [&](const std::vector<Source>& sources) { return print_sources(field, sources); });
          },
          [&](const Peers& type) {
            return print_slot(type.slot, manifest,
                              [](const PeerRange& range) { return std::to_string(range.minimum) + ".." + std::to_string(range.maximum); });
          },
      },
      field.type);
}

std::string expected(const Field& field) {
  return std::visit(
      overloaded{
          [](const Section&) { return std::string{"a map"}; },
          [](const Alternative& type) { return "a map with one of " + one_of(type.words); },
          [](const Integer& type) {
            return type.minimum == type.maximum ? std::to_string(type.minimum) : "an integer ≥ " + std::to_string(type.minimum);
          },
          [](const Decimal& type) { return "a number " + describe_interval(type.range); },
          [](const Weights& type) { return "a number " + describe_interval(type.range) + ", or a list of points with `at` and `weight`"; },
          [](const DecimalPair& type) { return "a list of two numbers " + describe_interval(type.range); },
          [](const Percentage& type) { return "a percentage " + describe_interval(type.range, "%"); },
          [](const Flag&) { return std::string{"`true` or `false`"}; },
          [](const Choice& type) { return one_of(type.words); },
          [](const Text& type) { return std::string{type.rule.expected}; },
          [](const OptionalText& type) { return std::string{type.rule.expected}; },
          [](const TextList& type) {
            const std::string item{type.rule.expected};
            return type.or_one ? item + ", or a list of such" : "a list, each item " + item;
          },
          [](const ByteCount& type) {
            return "a size from " + print_byte_count(type.minimum) + " to " + print_byte_count(type.maximum) +
                   " in whole units (B, KiB, MiB, GiB)";
          },
          [](const OptionalBitRate& type) {
            return "a rate from " + print_bit_rate(type.minimum) + " to " + print_bit_rate(type.maximum) +
                   " in whole units (kbit/s, Mbit/s, Gbit/s)";
          },
          [](const TimeSpan& type) {
            return "a duration from " + print_duration(type.minimum) + " to " + print_duration(type.maximum) +
                   " in whole units (ms, s, min, h)";
          },
          [](const WordOrSection& type) { return one_of(type.words) + " or a map with " + one_of(type.either); },
          [](const Sources&) { return std::string{"a list of maps, each with a `path`"}; },
          [](const Peers& type) { return "a range MIN..MAX with 1 ≤ MIN ≤ MAX ≤ " + std::to_string(type.maximum); },
      },
      field.type);
}

std::string example(const Field& field) {
  const auto defaults = defaults_of(field);
  if (std::holds_alternative<Sources>(field.type)) return "[{path: /data/text}]";
  if (const auto* type = std::get_if<Alternative>(&field.type)) return "{" + std::string{type->words.front()} + ": {}}";
  if (const auto* type = std::get_if<OptionalText>(&field.type)) return std::string{type->rule.example};
  if (std::holds_alternative<OptionalBitRate>(field.type)) return "40Mbit/s";
  if (const auto* type = std::get_if<TextList>(&field.type)) return std::string{type->rule.example};
  if (const auto* type = std::get_if<Text>(&field.type); type && type->slot.read(defaults)->empty()) return std::string{type->rule.example};
  return print(field, defaults).value_or("{}");
}

}  // namespace prime::manifest

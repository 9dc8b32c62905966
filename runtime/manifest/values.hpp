// Owns single values: reading a node into its slot with a reason on failure, and writing a slot as canonical text.
#pragma once

#include <optional>
#include <string>

#include "runtime/manifest/document.hpp"
#include "runtime/manifest/fields.hpp"

namespace prime::manifest {

/// Why a value is refused. `message` completes "`key` …".
struct Fault {
  std::string message;
  std::string hint;
  Place place;
};

/// Puts the node's value into its slot. Sections and alternatives only check that the node is a fitting map.
std::optional<Fault> store(const Field& field, const Node& node, Manifest& manifest);
/// The value as a YAML flow text; empty for sections, alternatives, and values that do not exist in this manifest.
std::optional<std::string> print(const Field& field, const Manifest& manifest);
/// What a value must be: "an integer ≥ 1".
std::string expected(const Field& field);
/// A value that would be right, for hints: the default, or an example where there is none.
std::string example(const Field& field);

/// One that is too large for any type is the largest, so that it is refused as too large.
std::optional<std::uint64_t> parse_integer(std::string_view text);
/// Only finite ones; −0 becomes 0, so that equal numbers have equal texts.
std::optional<double> parse_decimal(std::string_view text);
std::string in_quotes(std::string_view text);
std::string print_number(double number);
std::string print_duration(Duration duration);
std::string print_byte_count(std::uint64_t bytes);
std::string print_bit_rate(std::uint64_t bits_per_s);

}  // namespace prime::manifest

// Owns the field table: each key of the manifest with its type, range, place in the structs and meaning. Loading, unknown-key
// detection, the canonical text, the JSON schema and `explain` are all walks over this one table.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "runtime/manifest/manifest.hpp"

namespace prime::manifest {

/// Where a value lives. Null when the manifest has chosen another alternative, so that the value does not exist.
template <class T>
struct Slot {
  T* (*write)(Manifest&);
  const T* (*read)(const Manifest&);

  template <class F>
  Slot(F) : write([](Manifest& m) -> T* { return F{}(m); }), read([](const Manifest& m) -> const T* { return F{}(m); }) {}
};

/// A map of further keys. `exists` is null for sections that are always there.
struct Section {
  bool (*exists)(const Manifest&) = nullptr;
};
struct Integer {
  Slot<std::uint32_t> slot;
  std::uint32_t minimum;
  std::uint32_t maximum;
};
/// `above` and `below` exclude the bound itself.
struct Interval {
  double minimum;
  double maximum;
  bool above = false;
  bool below = false;
};
struct Decimal {
  Slot<double> slot;
  Interval range;
};
/// A number, or a list of points `{at: SAMPLE, weight: NUMBER}`.
struct Weights {
  Slot<SourceWeight> slot;
  Interval range;
  std::uint64_t last_sample;
  std::size_t maximum;  ///< points
};
struct DecimalPair {
  Slot<std::array<double, 2>> slot;
  Interval range;
};
struct Percentage {
  Slot<double> slot;
  Interval range;
};
struct Flag {
  Slot<bool> slot;
};
/// An enum by its words, in the order of its values.
struct Choice {
  std::vector<std::string_view> words;
  std::size_t (*get)(const Manifest&);
  void (*set)(Manifest&, std::size_t);
};
/// A map with exactly one key, which says what its content means: `schedule: {cosine: {…}}`.
struct Alternative {
  std::vector<std::string_view> words;
  std::size_t (*get)(const Manifest&);
  void (*set)(Manifest&, std::size_t);
};
/// `expected` completes "must be …"; `pattern` is the same rule as a regular expression for editors.
struct TextRule {
  bool (*accepts)(std::string_view);
  std::string_view expected;
  std::string_view pattern;
  std::string_view example;
  std::string (*meant)(std::string_view) = nullptr;  ///< of what is not accepted: what was meant; empty: no idea
};
struct Text {
  Slot<std::string> slot;
  TextRule rule;
};
/// A text without a default; the key may be left out.
struct OptionalText {
  Slot<std::optional<std::string>> slot;
  TextRule rule;
};
struct TextList {
  Slot<std::vector<std::string>> slot;
  TextRule rule;
  std::size_t maximum;
  bool or_one = false;  ///< a single text is a list of one
};
struct ByteCount {
  Slot<std::uint64_t> slot;
  std::uint64_t minimum;
  std::uint64_t maximum;
};
/// A rate without a default; the key may be left out.
struct OptionalBitRate {
  Slot<std::optional<std::uint64_t>> slot;
  std::uint64_t minimum;
  std::uint64_t maximum;
};
struct TimeSpan {
  Slot<Duration> slot;
  Duration minimum;
  Duration maximum;
};
struct Peers {
  Slot<PeerRange> slot;
  std::uint32_t maximum;
};

/// One of a few words, or a map of further keys instead of them: `tokenizer: bytes`, `tokenizer: {file: …}`. Such a map must have one of
/// the keys `either`, and one alone.
struct WordOrSection {
  std::vector<std::string_view> words;
  std::vector<std::string_view> either;
  bool (*is_word)(const Manifest&);
  void (*set)(Manifest&, std::size_t);
};
/// A list of maps with the keys of the rows below. Those rows read and write the last of the list.
struct Sources {
  Slot<std::vector<Source>> slot;
  std::size_t maximum;
};

using FieldType = std::variant<Section, Integer, Decimal, Weights, DecimalPair, Percentage, Flag, Choice, Alternative, Text, OptionalText,
                               TextList, ByteCount, OptionalBitRate, TimeSpan, Peers, WordOrSection, Sources>;

struct Field {
  std::string_view path;  ///< "sync.outer.nesterov.lr"
  std::string_view meaning;
  FieldType type;
  bool required = false;
  std::string_view derived = {};        ///< what the default is computed from, for people
  void (*derive)(Manifest&) = nullptr;  ///< computes it, once everything else is read
  bool of_state = false;                ///< shape or meaning of the state depends on it: a run that goes on from a checkpoint keeps it
};

/// In canonical order: a section before its keys, the shared half before `local`.
const std::vector<Field>& fields();
/// The row of a path; null when there is none.
const Field* find_field(std::string_view path);
/// The rows directly inside a section ("" for the top).
std::vector<const Field*> children(std::string_view section);

/// The rows of the maps in a list, which belong to no key by themselves.
bool is_of_list(const Field& field);
/// A manifest in which the field has its default: with one source, for the keys of sources, and with the alternative that it belongs to.
Manifest defaults_of(const Field& field);

/// "nesterov.lr" → "lr"; and "nesterov", or "" at the top.
std::string_view last_key(std::string_view path);
std::string_view parent_path(std::string_view path);
std::string join_path(std::string_view section, std::string_view key);
bool is_local(std::string_view path);
/// The key with the fewest edits, if few enough that it was probably meant.
std::optional<std::string_view> nearest(std::string_view word, const std::vector<std::string_view>& candidates);

}  // namespace prime::manifest

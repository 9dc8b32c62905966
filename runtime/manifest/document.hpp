// Owns a YAML text as a tree in which every key and value knows its place: of manifests and of scenarios. The only file pair that knows
// yaml-cpp.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/manifest/load.hpp"

namespace prime::manifest {

/// Where something was written: in the file (line and column from 1), or in an override.
struct Place {
  std::optional<std::size_t> override_index = {};
  std::size_t line = 0;
  std::size_t column = 0;
  std::size_t length = 0;
};

struct Entry;

struct Node {
  /// Broken: already reported; readers skip it.
  enum class Kind : std::uint8_t { Null, Scalar, List, Map, Broken };
  Kind kind = Kind::Null;
  std::string text = {};  ///< of a scalar
  bool quoted = false;
  Place place = {};
  std::vector<Node> items = {};
  std::vector<Entry> entries = {};
};

struct Entry {
  std::string key;
  Place place;
  Node value;
};

/// What a text is to be, for messages.
struct DocumentKind {
  std::string_view noun = "manifest";
  std::string_view beginning = "`version: 1` and `run: NAME`";
};

/// Collects problems and gives them in the order of the file.
class Report {
 public:
  Report(std::string_view source_name, std::span<const std::string> overrides, DocumentKind kind = {})
      : source_name_(source_name), overrides_(overrides), kind_(kind) {}
  void add(ErrorName name, const Place& place, std::string message, std::string hint = {});
  [[nodiscard]] bool empty() const { return problems_.empty(); }
  [[nodiscard]] std::string noun() const { return std::string{kind_.noun}; }
  [[nodiscard]] std::string beginning() const { return std::string{kind_.beginning}; }
  [[nodiscard]] std::vector<Diagnostic> take();

 private:
  std::string_view source_name_;
  std::span<const std::string> overrides_;
  DocumentKind kind_;
  std::vector<Diagnostic> problems_;
};

/// The text of a regular file; empty after a report of why there is none. Of a file that is too large, no more than shows it.
std::optional<std::string> read_file(const std::string& path, Report& report);
/// Reads one document. What is not a map at the top, or not YAML at all, is reported and comes back as Broken.
Node read_document(std::string_view text, Report& report);
/// Puts the value of override number `index` ("a.b=value") into the tree, in place of what is there.
void apply_override(Node& root, std::string_view assignment, std::size_t index, Report& report);

/// A literal from outside as it may be shown: cut to a readable length, without control characters.
std::string shown(std::string_view text);
/// What a node is, for "found …": `12`, "12", a map, a list.
std::string shown(const Node& node);

}  // namespace prime::manifest

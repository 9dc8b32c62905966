// Owns reading manifests: from text to a valid Manifest, or to problems that say what, where, why and what next.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "messages/errors.hpp"
#include "messages/result.hpp"
#include "runtime/manifest/manifest.hpp"

namespace prime::manifest {

/// At most this many problems are reported at once.
inline constexpr std::size_t MAX_PROBLEMS = 20;

/// One problem at one place. Without a line it concerns the whole of `file`, or an override (then `file` is "--set a.b=value").
struct Diagnostic {
  ErrorName name = ErrorName::ManifestValue;
  std::string file;
  std::size_t line = 0;    ///< from 1; 0: no position
  std::size_t column = 0;  ///< from 1, in characters
  std::size_t length = 0;  ///< in characters, within the line
  std::string message;
  std::string hint;  ///< empty: the hint of the error's row in errors.def
  friend bool operator==(const Diagnostic&, const Diagnostic&) = default;
};

/// Either a manifest, or at least one problem. `text` is the source that the positions refer to.
struct LoadOutcome {
  std::optional<Manifest> manifest;
  std::vector<Diagnostic> problems;
  std::size_t omitted = 0;  ///< further problems, beyond MAX_PROBLEMS
  std::string text;
  explicit operator bool() const { return manifest.has_value(); }
};

/// Reads a file. `overrides` are `a.b=value` (from `--set`), applied in order after the file, the value being YAML.
LoadOutcome load_manifest(const std::string& path, std::span<const std::string> overrides = {});
/// The same for a text; `source_name` is shown as the file.
LoadOutcome parse_manifest(std::string_view text, std::string_view source_name, std::span<const std::string> overrides = {});

/// The shared half as another peer sent it. Refuses a `local` key: strangers do not choose which program a peer runs.
Result<Shared> parse_shared(std::string_view text);
/// Both halves as `shared_yaml` and `local_yaml` wrote them; how a trainer reads what its agent gave it.
Result<Manifest> parse_halves(std::string_view shared_text, std::string_view local_text);
/// Every rule of the manifest, for one that was built in C++.
Result<void> check(const Manifest& manifest);

/// As the command line shows a problem: error line with code, place, source line with carets, hint. Ends with a line break.
std::string render(const Diagnostic& problem, std::string_view source_text);
/// Several, an empty line between two, and how many were omitted.
std::string render(std::span<const Diagnostic> problems, std::size_t omitted, std::string_view source_text);
/// All problems of an outcome.
std::string render(const LoadOutcome& outcome);
/// The first problem as an error value, with the number of further ones; only for an outcome without a manifest.
Error first_error(const LoadOutcome& outcome);

}  // namespace prime::manifest

// Owns the rules between keys: what each value may be alone is in the field table.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/manifest/manifest.hpp"

namespace prime::manifest {

/// A rule that a manifest breaks. The problem is shown at the first of `paths` that somebody wrote.
struct Conflict {
  std::vector<std::string_view> paths;
  std::string message;
  std::string hint;
};

std::vector<Conflict> conflicts(const Manifest& manifest);

}  // namespace prime::manifest

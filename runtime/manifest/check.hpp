// Owns the rules between keys: what each value may be alone is in the field table.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "messages/result.hpp"
#include "runtime/manifest/manifest.hpp"

namespace prime::manifest {

/// A rule that a manifest breaks. The problem is shown at the first of `paths` that somebody wrote.
struct Conflict {
  std::vector<std::string_view> paths;
  std::string message;
  std::string hint;
};

std::vector<Conflict> conflicts(const Manifest& manifest);

/// Whether the trainer that `local` names can hold a part of a model, where the run asks for that. Usage.
Result<void> check_shards(const Shared& shared, const Local& local);

}  // namespace prime::manifest

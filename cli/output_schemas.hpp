// Owns the JSON schemas that this program has with it: of what its commands print, of manifests and of scenarios.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace prime::cli {

struct NamedSchema {
  std::string name;   ///< "status" of primectl.status/1; "run" and "scenario" of the files that people write
  std::string title;  ///< what it is of
  std::string text;   ///< JSON, draft-07
};
/// By name.
std::vector<NamedSchema> schemas();

}  // namespace prime::cli

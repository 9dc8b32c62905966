// Owns what an examination says of one thing.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace prime::doctor {

/// `Stops`: a run would not begin, or not go on.
enum class Level { Good, Doubtful, Stops };

struct Finding {
  std::string check;  ///< "descriptors"
  Level level = Level::Good;
  std::string text;       ///< what was found, with its figures
  std::string hint = {};  ///< what to change; empty where nothing is to be
};
using Findings = std::vector<Finding>;

}  // namespace prime::doctor

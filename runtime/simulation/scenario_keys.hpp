// Owns the key table of scenario files. Reading, unknown-key detection and the JSON schema are walks over it.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/manifest/document.hpp"
#include "runtime/simulation/scenario_file.hpp"

namespace prime::sim {

/// A key of the map that fills a Target.
template <class Target>
struct Key {
  std::string path;  ///< "network.delay"
  std::string meaning;
  manifest::Node::Kind kind = manifest::Node::Kind::Scalar;
  std::string expected;  ///< completes "must be …"
  std::string example;
  std::string schema;                                                      ///< of the value, as JSON
  std::vector<std::string> words = {};                                     ///< that it may be, where they can be listed
  std::function<bool(const manifest::Node& node, Target& target)> read{};  ///< false: it is not what is expected
  bool required = false;
};

/// A section before its keys.
const std::vector<Key<ScenarioFile>>& scenario_keys();
/// Of one item of `faults`.
const std::vector<Key<FaultPlan>>& fault_keys();

/// "`a`, `b` or `c`"
std::string listed(const std::vector<std::string>& words);
/// "kill_trainer", as files write it.
std::string word_of(FaultKind kind);

}  // namespace prime::sim

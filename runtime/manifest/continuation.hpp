// Owns what may not change between a run and another one that goes on from its checkpoint.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/manifest/manifest.hpp"

namespace prime::manifest {

/// A key with its canonical value in both.
struct StateChange {
  std::string_view path;
  std::string kept;
  std::string wanted;
  friend bool operator==(const StateChange&, const StateChange&) = default;
};

/// The keys that the state depends on (`Field::of_state`) and that differ, in canonical order; whatever else differs may. A value that
/// was computed from another key on both sides is left out: that key is the one to change.
std::vector<StateChange> state_changes(const Shared& kept, const Shared& wanted);

}  // namespace prime::manifest

// Owns weights of sources that change over the run, as text.
#pragma once

#include <optional>
#include <string>

#include "runtime/manifest/document.hpp"
#include "runtime/manifest/fields.hpp"
#include "runtime/manifest/values.hpp"

namespace prime::manifest {

std::optional<Fault> read_points(const Weights& type, const Node& node, Manifest& manifest);
/// A number where it does not change.
std::string print_weight(const SourceWeight& weight);

}  // namespace prime::manifest

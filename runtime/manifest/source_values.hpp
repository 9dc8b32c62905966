// Owns the list of sources as text: each is a map whose keys are rows of the field table.
#pragma once

#include <optional>
#include <string>

#include "runtime/manifest/document.hpp"
#include "runtime/manifest/fields.hpp"
#include "runtime/manifest/values.hpp"

namespace prime::manifest {

std::optional<Fault> read_sources(const Field& field, const Sources& type, const Node& node, Manifest& manifest);
/// Each source as a map in one line, with all its keys.
std::string print_sources(const Field& field, const std::vector<Source>& sources);

}  // namespace prime::manifest

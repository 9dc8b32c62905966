// Owns the canonical text of a manifest: every key, one order, one spelling, so that equal manifests are equal texts.
#pragma once

#include <string>

#include "messages/ids.hpp"
#include "runtime/manifest/manifest.hpp"

namespace prime::manifest {

/// Every shared key with its value; parsing it gives an equal half. This is what a Welcome carries.
std::string shared_yaml(const Manifest& manifest);
/// The `local:` section; appended to the shared text it makes a whole manifest.
std::string local_yaml(const Manifest& manifest);
/// Digest of the shared text: equal for two peers exactly when they would train the same run.
Digest run_digest(const Manifest& manifest);

}  // namespace prime::manifest

// Owns which ports the processes have that one command starts: the first those of the manifest, the next ones those that follow.
#pragma once

#include <cstdint>

#include "messages/result.hpp"
#include "runtime/manifest/manifest.hpp"

namespace prime::launch {

/// The network of the process with this number (`listen`, and apart from it `advertise`, since where a coordinator listens may be told by a
/// flag): named ports are moved up by it, port 0 and what names none stay. Errors: Usage when there is no such port.
Result<manifest::Network> network_of(manifest::Network network, std::uint32_t listen, std::uint32_t advertise);

}  // namespace prime::launch

// Owns the probes of the machines: names for branches that are seldom taken.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace prime {

enum class Probe : std::uint8_t {
#define PROBE(Name, name, machine, meaning) Name,
#include "actors/probes.def"
#undef PROBE
};

/// One row of probes.def.
struct ProbeInfo {
  std::string_view name;
  std::string_view machine;  ///< "coordinator" or "peer"
};
inline constexpr ProbeInfo PROBES[] = {
#define PROBE(Name, name, machine, meaning) {#name, #machine},
#include "actors/probes.def"
#undef PROBE
};
constexpr const ProbeInfo& info(Probe probe) { return PROBES[static_cast<std::size_t>(probe)]; }

}  // namespace prime

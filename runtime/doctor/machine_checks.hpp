// Owns the examination of this machine alone: what a run needs of it.
#pragma once

#include <filesystem>

#include "runtime/doctor/finding.hpp"

namespace prime::doctor {

/// Memory, descriptors, locked memory, shared memory, the disk below `state_root` (which need not be there yet), the clock, the interfaces
/// and their addresses. Writes and removes a file there; takes a second at most, or what the disk needs for the last write.
Findings examine_machine(const std::filesystem::path& state_root);

}  // namespace prime::doctor

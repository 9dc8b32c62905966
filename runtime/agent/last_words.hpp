// Owns what is left of a process that has ended: the end of its log.
#pragma once

#include <cstdint>
#include <string>

namespace prime {

/// The last lines of a file from `begin` on, on one line and fit for a terminal; at most three, and 400 bytes. Empty when there are none.
std::string tail_of(const std::string& path, std::uint64_t begin);

}  // namespace prime

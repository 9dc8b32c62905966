// Owns what a process's log says of each decision: at the level `debug`, why a machine did what it did.
#pragma once

#include <functional>
#include <string>

namespace prime {

/// The level that processes take from the one that starts them: `primectl up --log-level debug` sets it, for an embedding program its
/// owner.
inline constexpr const char* LOG_LEVEL_VARIABLE = "PRIME_LOG_LEVEL";

/// Writes "2031-05-04T09:14:02.137Z debug coordinator: votes are missing: 2" to stderr, which is the process's log beside its journal.
/// Empty at any other level than `debug`: then nobody makes the text.
std::function<void(const std::string& reason)> reason_log(std::string machine);

}  // namespace prime

// Owns what a command may be told to write to.
#pragma once

#include <span>
#include <string>

#include "messages/result.hpp"

namespace prime::cli {

/// Whether what is written there comes out of this command, as of /dev/stdout.
bool is_standard_output(const std::string& path);

/// Before any work: Usage where `out`, which `flag` names, is one of the files that are read, or where it would be mixed with what the
/// command prints; StorageFailed where it cannot be written.
Result<void> check_output(const std::string& flag, const std::string& out, std::span<const std::string> inputs, bool prints);

}  // namespace prime::cli

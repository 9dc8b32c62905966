// Owns the one line by which a started process says that it is ready, or why it cannot be.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "messages/result.hpp"

namespace prime::launch {

/// {"address": …} of a coordinator, {"peer": …, "name": …, "directory": …} of an agent. Says it on the inherited descriptor and closes
/// that.
void announce(int descriptor, const nlohmann::json& fields);
/// {"error": {"name", "detail", "context"}}.
void announce(int descriptor, const Error& error);

/// What such a line says. Empty when it is no such line.
std::optional<Result<nlohmann::json>> parse_readiness(std::string_view line);

}  // namespace prime::launch

// Owns the JSON of a run's status, schema primectl.status/1. Fields are added, never changed; what is unknown is null.
#pragma once

#include <nlohmann/json.hpp>
#include <span>

#include "runtime/telemetry/run_status.hpp"

namespace prime::telemetry {

nlohmann::ordered_json to_json(const RunStatus& status);
/// The runs of this machine, when none was named and several match.
nlohmann::ordered_json to_json(std::span<const RunStatus> runs);
/// One line, valid whatever bytes a name or reason holds.
std::string dump(const nlohmann::ordered_json& object);

}  // namespace prime::telemetry

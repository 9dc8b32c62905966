// Owns the JSON of a run's status, schema primectl.status/1, and of the list of runs, primectl.runs/1. Fields are added, never changed;
// what is unknown is null.
#pragma once

#include <nlohmann/json.hpp>
#include <span>

#include "runtime/telemetry/run_choice.hpp"

namespace prime::telemetry {

nlohmann::ordered_json to_json(const RunStatus& status);
/// Unlike the status of a run, it has a word of its own for one that its owner stopped.
nlohmann::ordered_json to_json(std::span<const ListedRun> runs);
/// One line, valid whatever bytes a name or reason holds.
std::string dump(const nlohmann::ordered_json& object);

}  // namespace prime::telemetry

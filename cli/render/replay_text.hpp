// Owns what the replay of a run looks like: `replay -o json`, and the text for people.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "runtime/replay/replay.hpp"

namespace prime::cli {

/// Schema primectl.replay/1.
nlohmann::ordered_json replay_json(const replay::Replay& replay);
std::string replay_text(const replay::Replay& replay);

}  // namespace prime::cli

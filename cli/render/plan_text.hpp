// Owns what a plan looks like: the object of `plan -o json`, and tables for people.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/render/style.hpp"
#include "runtime/planning/plan.hpp"

namespace prime::cli {

/// Schema primectl.plan/1.
nlohmann::ordered_json plan_json(const planning::Plan& plan);
/// Figures, the links that are needed, and what is assumed.
std::string plan_text(const planning::Plan& plan, const Style& style);
/// Options that would tell more, and how to learn them; a line each.
std::vector<std::string> what_is_missing(const planning::Plan& plan);

}  // namespace prime::cli

// Owns the frequencies of rotary positions: plain or scaled, what is refused of that, and how Hugging Face writes it down.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "messages/result.hpp"
#include "runtime/manifest/check.hpp"
#include "runtime/manifest/manifest.hpp"

namespace prime::models {

/// By pairs of a head: how far one position turns each, in radians.
std::vector<double> rotary_frequencies(const manifest::Model& model);

void check_rope(const manifest::RopeScaling& scaling, std::vector<manifest::Conflict>& found);

/// `rope_type` and what belongs to it.
nlohmann::ordered_json write_rope(const manifest::RopeScaling& scaling);
/// What `rope_parameters` says, or the older `rope_scaling`; ModelUnsupported where it is of another kind, or the two are at odds.
Result<manifest::RopeScaling> read_rope(const nlohmann::json& config);

}  // namespace prime::models

// Owns what the field table tells to people and editors: the text behind `primectl explain`, and the JSON schema.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace prime::manifest {

/// Every key path ("sync.inner_steps"), sections included, in canonical order.
std::vector<std::string> key_paths();
/// Type, range, default and meaning of one key; for a section also its keys. Empty when there is no such key.
std::optional<std::string> describe(std::string_view key_path);
/// The key paths nearest to a misspelt one, the best first, at most three; none when nothing is near.
std::vector<std::string> nearest_keys(std::string_view key_path);
/// docs/MANIFEST.md: every key with its type, default and meaning.
std::string reference_page();
/// The JSON schema (draft-07) of manifests/schema/run.v1.json.
std::string json_schema();

}  // namespace prime::manifest

// Owns the making of a run's directory: its id, its manifest, its invite.
#pragma once

#include <filesystem>
#include <string>

#include "messages/result.hpp"
#include "runtime/manifest/manifest.hpp"

namespace prime::launch {

/// NAME-xxxxxx: the manifest's name and six random characters, so that two runs of one manifest are two.
std::string make_run_id(const std::string& name);
/// With manifest.yaml (shared half, canonical), readable by its owner only.
Result<void> make_run_directory(const std::filesystem::path& directory, const manifest::Manifest& manifest);
/// The shared half that it has.
Result<manifest::Shared> read_manifest(const std::filesystem::path& run_directory);

/// Replaces RUN/invite; nobody but its owner may read it, from its first byte on.
Result<void> write_invite(const std::filesystem::path& run_directory, const std::string& invite);
Result<std::string> read_invite(const std::filesystem::path& run_directory);

}  // namespace prime::launch

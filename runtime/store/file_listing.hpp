// Owns the list that makes a saved directory complete (law 9): every other file in it with its size and digest, written last.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "messages/ids.hpp"
#include "messages/result.hpp"
#include "runtime/store/file_io.hpp"

namespace prime::store {

/// By path below the directory.
using Listing = std::map<std::string, FileSummary>;

/// What a directory of one kind has.
struct ListingRules {
  std::string_view format;  ///< "prime.checkpoint/1"; a later form has a higher number
  std::string_view path;    ///< where the list itself lies
  std::size_t files_max = 0;
  bool (*may_have)(const std::string& path) = nullptr;
  bool (*is_whole)(const Listing& listing) = nullptr;
};

/// CheckpointCorrupt: what of a directory is damaged.
Error damaged(const std::filesystem::path& directory, const std::string& what);
/// Of a text whose format changes with its number, as "prime.checkpoint/2": whether it is one of the same kind, and of another number.
std::optional<std::string> foreign_format(const std::string& text, std::string_view ours);
/// CheckpointFormat: `file` is of a format that this program does not read.
Error of_another_format(const std::filesystem::path& directory, std::string_view file, const std::string& format, std::string_view ours,
                        const std::string& writer);

Result<FileSummary> write_text(const std::filesystem::path& path, std::string_view text);
/// Puts the list into a directory that has these files.
Result<void> write_listing(const std::filesystem::path& directory, const ListingRules& rules, const Listing& listing);
/// CheckpointCorrupt when it is missing or damaged, CheckpointFormat when it is of another number.
Result<Listing> read_listing(const std::filesystem::path& directory, const ListingRules& rules);
/// Reads every byte of the files; CheckpointCorrupt names each that is damaged.
Result<void> verify_files(const std::filesystem::path& directory, const Listing& listing);
/// The bytes of all files, where each is there with its size.
std::optional<std::uint64_t> bytes_of_complete(const std::filesystem::path& directory, const Listing& listing);

/// "step-000060" for the prefix "step-".
std::string step_name(std::string_view prefix, OuterStep step);
/// The step of a directory's name, only when `step_name` would give that name again.
std::optional<OuterStep> parse_step_name(std::string_view prefix, const std::string& name);

}  // namespace prime::store

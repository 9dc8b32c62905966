// Owns the listing of a peer's files: short enough to travel with its data's digest, exact enough that two of them tell where they differ.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace prime {

struct ListedFile {
  std::string path;  ///< below the data's root
  std::uint64_t bytes = 0;
  std::uint64_t mark = 0;  ///< a hash of its path, its size and what it holds
};

/// One line for each file, "1 BYTES MARK PATH", where that is at most MAX_DATA_LISTING_BYTES; else files whose paths begin alike share a
/// line, "FILES BYTES SUM-OF-MARKS BEGINNING", the largest groups divided as long as there is room. `files` is sorted by path, byte by
/// byte. What of a path is no printable ASCII, and `%`, is written as %XX: a beginning may end within a character.
std::string listing_of(std::span<const ListedFile> files);

/// The first differences between two listings, in words: what is `here` (the first) and what is `there` ("in the run"); of one whose files
/// lie a folder higher or lower, that. Empty where they do not differ, or one of them is empty or no listing.
std::string listings_differ(std::string_view here, std::string_view there_listing, std::string_view there);

}  // namespace prime

// Owns what is known of one source of data: where it lies, how it is read, and what was counted while it was. The manifest's values are
// taken over here, so that a reader and a test need no manifest.
#pragma once

#include <cstdint>

#include "runtime/manifest/manifest.hpp"

namespace prime::data {

using manifest::Collapse;
using manifest::DataFormat;
using manifest::OnError;
using manifest::Source;

/// What became of the records of one source; each record is in `documents`, or in one of the others that end it.
struct Counts {
  std::uint64_t documents = 0;
  std::uint64_t bytes = 0;            ///< of the documents, as they were tokenised
  std::uint64_t skipped = 0;          ///< broken, with `on_error: skip`
  std::uint64_t trimmed_quality = 0;  ///< reads that lost an end of low quality
  std::uint64_t trimmed_adapter = 0;
  std::uint64_t dropped_n = 0;
  std::uint64_t dropped_length = 0;
  std::uint64_t dropped_duplicate = 0;
  std::uint64_t collapsed = 0;  ///< pairs that became one read

  Counts& operator+=(const Counts& other) {
    documents += other.documents, bytes += other.bytes, skipped += other.skipped;
    trimmed_quality += other.trimmed_quality, trimmed_adapter += other.trimmed_adapter;
    dropped_n += other.dropped_n, dropped_length += other.dropped_length, dropped_duplicate += other.dropped_duplicate;
    collapsed += other.collapsed;
    return *this;
  }
  friend bool operator==(const Counts&, const Counts&) = default;
};

}  // namespace prime::data

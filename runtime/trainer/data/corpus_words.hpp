// Owns what is said of data to people.
#pragma once

#include <string>

#include "runtime/trainer/data/corpus.hpp"

namespace prime::data {

/// "7 files in /data, matching *.h: 1 used (passed over: 2 Parquet as another.h), 33 bytes"
std::string found_in(const Source& source, const CompiledSource& compiled, const manifest::Data& data,
                     const std::vector<TokenShard>& shards, std::size_t first_shard, const TokenIndex& rules);
/// "1 sample of 17 bytes, "
std::string passes_in(std::uint64_t windows, std::size_t window_tokens, bool bytes);
/// "; in 60 outer steps 2 peers read each sample 3 times on average, and 8 peers 12 times"
std::string reads_each(const manifest::Shared& shared, std::uint64_t windows);
/// A few words of its first line that is not empty, whole ones where there are several.
std::string beginning_of(std::string text);

/// "3 sources", "1 source"
std::string counted(std::uint64_t count, const std::string& what);
/// Three digits, as people count: "0.4", "12", "1650".
std::string figure(double value);
/// "32 KiB"
std::string size_text(std::uint64_t bytes);
/// ", 3 broken (the first: reads.fq:17: has no line `+`), 12 too short or too long"; empty where nothing was left out.
std::string left_out(const Counts& counts, const std::string& first_skipped);

}  // namespace prime::data

// Owns making shards of tokens out of the files of a source, once: a shard's name is the digest of what it is made of, so that two runs
// share it, one that was interrupted goes on, and what has changed is made again.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "runtime/trainer/data/source.hpp"
#include "runtime/trainer/data/source_files.hpp"
#include "runtime/trainer/data/token_shard.hpp"
#include "runtime/trainer/data/tokenizer.hpp"

namespace prime::data {

/// Of all that is to be compiled; bytes as they lie on the disk.
struct Progress {
  std::uint64_t bytes = 0;
  std::uint64_t of_bytes = 0;
};
/// Hears of it now and then, on the thread that waits; an error of it ends the work, and what is compiled stays.
using OnProgress = std::function<Result<void>(const Progress&)>;

struct CompileOptions {
  std::filesystem::path cache;
  std::uint64_t per_file_bytes = ~0ULL;  ///< of a text
  unsigned threads = 1;
  OnProgress on_progress = {};
};

/// `chosen`, else $XDG_CACHE_HOME/prime, else ~/.cache/prime. Usage where none of them is known.
Result<std::filesystem::path> cache_root(const std::optional<std::string>& chosen);

/// The shards of one source, in the order of its files. What is in the cache is verified, and not read again.
Result<std::vector<TokenShard>> compile(const Source& source, const SourceFiles& files, const Tokenizer& tokenizer,
                                        const CompileOptions& options);

}  // namespace prime::data

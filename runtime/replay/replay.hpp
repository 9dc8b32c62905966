// Owns the replay of a run: every version that it committed, made again from the journal of its coordinator and from what its peers have
// kept (`checkpoint.keep_contributions`), by the kernels, schedules and codecs that the peers themselves reduce with. In whatever order the
// bytes arrived then, the bits are the same (law 3).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "messages/ids.hpp"
#include "messages/result.hpp"

namespace prime::replay {

struct Options {
  std::filesystem::path run;                                            ///< its directory: journals, and what peers of this machine kept
  std::vector<std::filesystem::path> contributions = {};                ///< directories with what others kept
  std::uint64_t turns = 0;                                              ///< in which order the frames of a reduce arrive, drawn from this
  std::function<void(std::size_t done, std::size_t of)> on_round = {};  ///< may be empty
};

/// The first version that comes out otherwise than it was committed.
struct Difference {
  Revision revision;
  std::uint32_t fragment = 0;
  OuterStep version;
  Digest committed;
  Digest replayed;
};

struct Replay {
  std::string run;
  std::uint64_t rounds = 0;     ///< replayed; with a difference, those before it
  std::uint64_t committed = 0;  ///< by the run
  std::uint64_t contributions = 0;
  std::uint32_t fragments = 0;
  OuterStep outer_step;  ///< that all fragments have made
  Digest state;          ///< of the last revision that was replayed
  std::optional<Difference> difference;
};

/// ReplayImpossible where something is not there, CheckpointCorrupt where a file is damaged; both name it.
Result<Replay> replay(const Options& options);

}  // namespace prime::replay

// Owns how long commands wait for processes and for news.
#pragma once

#include "messages/units.hpp"

namespace prime::cli {

/// For peers that were told to end: each says goodbye. Then they are killed, but for those that save what they hold (saving_watch.hpp).
inline constexpr Duration PEER_PATIENCE = 20s;
inline constexpr Duration COORDINATOR_PATIENCE = 10s;
/// After the coordinator's end its peers have heard it; they write a checkpoint at most.
inline constexpr Duration FAREWELL_LIMIT = 60s;
/// Journals tell of their growth; this is for what tells nothing: some file systems, and a process that dies.
inline constexpr int LOOK_AGAIN_MS = 1000;
/// After so long without a word who watches is told what is being done: nobody is to wonder for 20 s.
inline constexpr Duration QUIET_LIMIT = 15s;

}  // namespace prime::cli

// Owns Lane: the streams to one peer.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/lanes/stream.hpp"

namespace prime::lanes {

/// Any stream takes the next frame when it has room, so that a slow one does not hold up the others; when one is lost, all are.
/// Frames may overtake each other. The words of a vote may not: they go over the first stream.
struct Lane {
  std::uint64_t bundle = 0;                      ///< by which a further stream finds its lane
  std::vector<std::unique_ptr<Stream>> streams;  ///< at least one
  std::deque<Frame> control;                     ///< votes: they go before chunks
  std::size_t turn = 0;                          ///< whose frame is next, of the operations that run
  /// Of a further stream. The others go on without new chunks until a turn in which nothing happens: what came before the loss is here.
  std::optional<Error> lost;
  std::uint32_t last_turns = 0;  ///< at most
};

}  // namespace prime::lanes

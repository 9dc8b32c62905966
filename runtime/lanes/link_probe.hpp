// Owns the measuring of links: how fast bytes reach a peer over its lane while no reduce uses it.
//
// The sender fills the lane with frames of nothing; the receiver drops them and tells how long they took from the first to the last, by
// its own clock. Few at first; more as long as they are there too soon to tell a rate. Then as many again, and the slower round counts: the
// first may have passed on what a buffer or a token bucket had saved up.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>

#include "messages/membership.hpp"
#include "messages/result.hpp"
#include "messages/units.hpp"
#include "runtime/lanes/frame.hpp"
#include "runtime/lanes/operation.hpp"

namespace prime::lanes {

inline constexpr std::size_t PROBE_BYTES = 32 * 1024;
/// Frames of the first round, how many times more each further one has, and at most: 8 MiB.
inline constexpr std::uint64_t FIRST_PROBES = 4;
inline constexpr std::uint64_t PROBES_GROW = 4;
inline constexpr std::uint64_t MAX_PROBES = 256;
/// A round that takes this long says enough.
inline constexpr Duration LONG_ENOUGH = 30ms;
/// A round that takes this long and is not through is a slow link's.
inline constexpr Duration LONG_WITHOUT_ANSWER = 1s;
/// Of one measurement, the connecting included.
inline constexpr Duration MEASURE_LIMIT = 10s;

/// Bytes per second, at least 1; or why there are none. Interrupted: it may be asked again.
using MeasureDone = std::function<void(Result<std::uint64_t>)>;

/// Used by the lane thread only. One measurement towards a peer at a time.
class LinkProbes {
 public:
  // As the sender:
  void begin(PeerId to, MeasureDone done, Instant now);
  [[nodiscard]] std::optional<Frame> next(PeerId to, Instant now);
  /// The receiver's word on a round.
  void answered(PeerId by, const FrameHeader& header);
  void fail(PeerId to, const Error& error);
  /// Something else needs the lanes: who has not answered for long is slow, the others may be asked again.
  void interrupt(const Error& why, Instant now);
  /// Ends what takes too long: a peer that was met is slow, however slow.
  void expire(Instant now, const std::function<bool(PeerId)>& is_met);
  [[nodiscard]] std::optional<Instant> next_deadline() const;

  // As the receiver:
  /// The answer, when a round is complete.
  [[nodiscard]] std::optional<Frame> came(PeerId from, const FrameHeader& header, Instant now);
  void forget(PeerId peer) { incoming_.erase(peer); }

 private:
  struct Outgoing {
    MeasureDone done;
    Instant until{};
    std::uint64_t number = 0;  ///< of the round, in all of this process
    std::uint64_t count = FIRST_PROBES;
    std::uint64_t sent = 0;
    Instant since{};                           ///< of the round's first frame
    std::optional<std::uint64_t> before = {};  ///< the rate of a round as long as this one
  };
  struct Incoming {
    std::uint64_t number = 0;
    std::uint64_t came = 0;
    Instant since{};
  };
  void end(std::map<PeerId, Outgoing>::iterator at, Result<std::uint64_t> speed);

  std::uint64_t rounds_ = 0;
  std::map<PeerId, Outgoing> outgoing_;
  std::map<PeerId, Incoming> incoming_;
};

}  // namespace prime::lanes

// Owns what a process notices of itself, several times a second, in the thread that waits for its end.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "actors/ports.hpp"
#include "messages/units.hpp"

namespace prime {

/// Whether this process can open a file or a connection. Who cannot says so in its journal, which is open already, when it begins and when
/// it ends: what fails meanwhile (a connection that is asked for or offered, memory to share, a checkpoint) is tried again by whoever wants
/// it.
class DescriptorWatch {
 public:
  /// A process at its limit has one to spare now and then: that it is over is said when each look has found one for so long.
  static constexpr Duration FREE_FOR = 10s;

  /// `try_one`: 0, or why no descriptor is to be had, an errno.
  DescriptorWatch(JournalPort& journal, std::function<int()> try_one);
  explicit DescriptorWatch(JournalPort& journal);
  void look(Instant now);

 private:
  JournalPort& journal_;
  std::function<int()> try_one_;
  std::optional<Instant> since_;  ///< it is said
  std::optional<Instant> free_;   ///< each look has found one since then, while it is said
};

/// Whether this process stood still: it was stopped, the machine slept, or nothing got its turn.
class StandstillWatch {
 public:
  /// Far more than a busy machine delays a thread that only waits, and less than what peers notice.
  static constexpr Duration NOTICED = 2s;

  explicit StandstillWatch(Instant now) : last_(now) {}
  /// To be called several times a second. For how long, if it stood still since the last call.
  [[nodiscard]] std::optional<Duration> look(Instant now);

 private:
  Instant last_;
};

}  // namespace prime

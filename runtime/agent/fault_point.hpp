// Owns fault points: places at which the chaos tests have a process killed exactly there, by a real SIGKILL. Off unless the
// environment variable PRIME_FAULT asks for one: "VICTIM@PHASE[:PERCENT]:STEP[.FRAGMENT]", for example "agent@reducing:50:3" (at
// half of the chunks of what makes version 3 of fragment 0) or "trainer@voting:2.1". STEP may be "any". Victims: agent, trainer. Phases:
// training, reducing, voting, fetching, saving (in percent: 0 before what the trainer keeps for itself, 100 between that and the state).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "messages/result.hpp"

namespace prime {

class FaultPoint {
 public:
  enum class Phase : std::uint8_t { Training, Reducing, Voting, Fetching, Saving };

  /// Reads PRIME_FAULT; a malformed one is an error, so that a test does not pass by a typing mistake.
  static Result<FaultPoint> from_environment();
  /// Parses the text of the variable; empty: no fault.
  static Result<FaultPoint> parse(const std::string& text);

  /// Whether one is wanted at all.
  [[nodiscard]] bool is_set() const { return is_set_; }

  struct Place {
    std::uint64_t step = 0;
    std::uint64_t fragment = 0;  ///< that is being reduced or voted on
  };
  /// Called at each point. When it is the wanted one, kills the victim, once. `trainer_pid` is asked only then.
  void reached(Phase phase, const Place& at, std::uint64_t done, std::uint64_t total, const std::function<std::uint32_t()>& trainer_pid);

 private:
  bool is_set_ = false;
  bool armed_ = false;
  bool at_trainer_ = false;
  Phase phase_ = Phase::Training;
  std::uint64_t percent_ = 0;
  std::optional<Place> place_;  ///< anywhere when empty
};

}  // namespace prime

// Owns fault points: places at which the chaos tests have a process killed exactly there, by a real SIGKILL. Off unless the
// environment variable PRIME_FAULT asks for one: "VICTIM@PHASE[:PERCENT]:STEP[.FRAGMENT]", for example "agent@reducing:50:3" (at
// half of the chunks of what makes version 3 of fragment 0) or "trainer@voting:2.1". STEP may be "any". Victims: agent, trainer. Phases:
// training, reducing, voting, fetching, saving (in percent: 0 before what the trainer keeps for itself, 100 between that and the state).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "actors/ports.hpp"
#include "messages/result.hpp"

namespace prime {

class FaultPoint {
 public:
  enum class Phase : std::uint8_t { Training, Reducing, Voting, Fetching, Saving };

  /// Reads PRIME_FAULT; a malformed one is an error, so that a test does not pass by a typing mistake.
  static Result<FaultPoint> from_environment();
  /// Parses the text of the variable; empty: no fault.
  static Result<FaultPoint> parse(const std::string& text);

  struct Place {
    std::uint64_t step = 0;
    std::uint64_t fragment = 0;  ///< that is being reduced or voted on
  };
  /// Called at each point. When it is the wanted one, kills the victim, once. `trainer_pid` is asked only then.
  void reached(Phase phase, const Place& at, std::uint64_t done, std::uint64_t total, const std::function<std::uint32_t()>& trainer_pid);

 private:
  bool armed_ = false;
  bool at_trainer_ = false;
  Phase phase_ = Phase::Training;
  std::uint64_t percent_ = 0;
  std::optional<Place> place_;  ///< anywhere when empty
};

/// That of an agent, whose threads all come by here. It stands before the journal of the peer machine, which tells of each operation what
/// version it makes before the reduce starts.
class AgentFaults final : public JournalPort {
 public:
  AgentFaults(JournalPort& journal, std::function<std::uint32_t()> trainer_pid) : journal_(journal), trainer_pid_(std::move(trainer_pid)) {}
  /// As PRIME_FAULT says; before any thread is there.
  Result<void> arm();
  [[nodiscard]] bool are_set() const { return set_; }

  void append(const JournalEvent& event) override;
  void reached(FaultPoint::Phase phase, const FaultPoint::Place& at, std::uint64_t done = 1, std::uint64_t total = 1);
  void reached(FaultPoint::Phase phase, const OperationId& op, std::uint64_t done = 1, std::uint64_t total = 1);

 private:
  JournalPort& journal_;
  std::function<std::uint32_t()> trainer_pid_;
  bool set_ = false;
  std::mutex mutex_;
  FaultPoint point_;                                     ///< guarded by mutex_
  std::map<OperationId, FaultPoint::Place> operations_;  ///< likewise
};

}  // namespace prime

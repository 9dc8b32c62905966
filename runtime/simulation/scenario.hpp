// Owns what a simulated run is like: its options, its peers, and what goes wrong when.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "actors/coordinator/coordinator_state.hpp"
#include "actors/peer/peer_machine.hpp"

namespace prime::sim {

enum class FaultKind : std::uint8_t {
  Kill,   ///< the process is gone; the connection tells it, or nothing does
  Pause,  ///< SIGSTOP; resumed after `hold`, or never when that is zero
  Leave,
  Join,
  KillTrainer,
  ResetLink,           ///< between two living peers, in the reduce in flight or else in the next
  CutControl,          ///< the connection to the coordinator breaks
  StallReduce,         ///< one peer's next reduce stands still while its agent lives
  Corrupt,             ///< one peer computes another result than the others
  KillCoordinator,     ///< for ever
  RestartCoordinator,  ///< it is killed, and comes back by what it kept after `hold`
  StopRun,             ///< `down`
  Partition,           ///< fewer than half of the peers reach nobody else, until `hold` has passed
  IsolateCoordinator,  ///< it reaches nobody, until `hold` has passed; some of its connections close, the others fall silent
  FillDisk,            ///< one peer can write no checkpoint, until `hold` has passed
  PauseRun,            ///< `pause`, and `resume` when `hold` has passed
  StallLedger,         ///< the next of what the coordinator decides is on its disk only when `hold` has passed
};
/// How long peers look for a lost coordinator.
inline constexpr Duration COORDINATOR_GRACE = 10s;
/// How long a peer that ends tries to save what it holds.
inline constexpr Duration SAVE_RETRY = 30s;
/// Scenario files name them all.
inline constexpr std::uint8_t FAULT_KINDS = static_cast<std::uint8_t>(FaultKind::StallLedger) + 1;
std::string_view to_string(FaultKind kind);
/// Whether `hold` says when the fault passes.
bool can_be_held(FaultKind kind);

/// Strikes at a virtual time, at the n-th event that is not a tick, or when a peer enters a phase for the n-th time.
struct Fault {
  FaultKind kind = FaultKind::Kill;
  std::optional<Duration> at;
  std::optional<std::uint64_t> at_event;
  std::optional<peer::Phase> at_phase;
  std::uint64_t occurrence = 1;
  Duration hold{};
};

/// What a peer brings along.
struct PeerSpec {
  Duration bind_time = 500ms;
  Duration inner_time = 1s;  ///< of all inner steps of an outer step, on average
  Duration fetch_time = 300ms;
  bool other_layout = false;
  bool other_data = false;
  bool other_protocol = false;
  bool other_run = false;
  std::uint32_t shard = 0;
  std::string replica = {};  ///< in a sharded run: empty stands for all peers of a new one
};

struct Scenario {
  std::uint64_t seed = 0;
  coordinator::Options options;
  Duration doubt_after = 5s;
  std::vector<std::pair<Duration, PeerSpec>> arrivals;  ///< those of the start
  std::vector<PeerSpec> joiners;                        ///< those of the Join faults, in turn
  std::vector<Fault> faults;
  std::optional<std::pair<std::size_t, std::size_t>> bad_link;  ///< arrivals whose lanes never work
  bool same_start = true;                                       ///< all trainers are born with equal values
  std::optional<std::pair<Duration, Duration>> delay;           ///< of a message; absent: half below 5 ms, half below 200 ms
  std::optional<std::pair<Duration, Duration>> reduce;          ///< of one peer's part; absent: below 500 ms, of one in ten 1 s to 5 s
  /// Fragments are published in turn, each that much later, and a trainer goes on until so many are published whose commit it has not heard
  /// of. Absent: all are published at the end of an outer step.
  std::optional<std::uint32_t> streams;
  double slow_message = 0.01;  ///< probability of a delay of seconds instead of milliseconds
  Duration slowest_message = 4s;
  double slow_ledger = 0;        ///< probability that an entry of the coordinator's ledger takes time at all
  Duration clock_skew{};         ///< the clocks of two machines differ by up to twice this
  std::int64_t clock_drift = 0;  ///< parts per million that a clock is too fast or too slow, at most
};

/// How large the runs are that a seed may draw. The highest values are among them.
struct Size {
  std::pair<std::uint32_t, std::uint32_t> peers{2, 8};
  std::pair<std::uint64_t, std::uint64_t> outer_steps{6, 14};
  std::uint64_t faults = 9;
  Duration faults_until = 60s;
  std::uint64_t fault_event = 1200;  ///< the last event at which one strikes, and the last entry into a phase
  std::uint64_t fault_occurrence = 40;
};
/// Many short runs find the rare orders of events; few long ones what adds up.
inline constexpr Size SHORT{};
inline constexpr Size LONG{{2, 32}, {200, 200}, 12, 900s, 30'000, 2000};

/// Everything drawn from the seed; or all but how many peers there are at the start.
Scenario random_scenario(std::uint64_t seed, std::optional<std::uint32_t> peers = {}, const Size& size = SHORT);
/// N equal peers on a good network, nothing goes wrong.
Scenario calm_scenario(std::size_t peers, std::uint64_t outer_steps);
/// After this much virtual time a run that is not over hangs (law 6).
Duration time_limit(const Scenario& scenario);

}  // namespace prime::sim

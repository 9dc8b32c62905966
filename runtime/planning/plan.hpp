// Owns what a run will cost, by arithmetic over its manifest before anything runs. Figures have the names of the journal and of `status`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "messages/result.hpp"
#include "messages/units.hpp"
#include "runtime/manifest/manifest.hpp"

namespace prime::planning {

/// What a manifest does not say. Absent: not known; then what follows from it is not, either.
struct Circumstances {
  std::optional<std::uint64_t> link_bits_per_s = {};  ///< that each peer sends at most; absent: `local.network.cap`, if there is one
  std::optional<std::uint32_t> peers = {};            ///< of a sharded run, replicas; absent: the most that the manifest admits
  std::optional<Duration> step_time = {};             ///< of one inner step of one peer
  std::optional<Duration> mtbf = {};                  ///< mean time between two failures of one peer
  std::optional<Duration> recovery = {};              ///< so long a failure holds up the run; absent: `membership.heartbeat.dead_after`
};

/// How fast the slowest link must be at least.
struct NeededLink {
  double compute_utilization = 0;
  double link_bits_per_s = 0;
};
/// Those that are told.
inline constexpr double TOLD_UTILIZATIONS[] = {0.5, 0.8, 0.9, 0.95, 0.99};

struct Plan {
  std::string run = {};
  std::uint32_t peers = 1;  ///< of a sharded run, replicas
  std::uint32_t shards = 1;
  std::uint32_t fragments = 1;
  std::uint32_t inner_steps = 1;
  std::uint64_t outer_steps = 1;
  std::uint64_t parameters = 0;                     ///< of the whole model
  std::optional<std::uint64_t> trainer_bytes = {};  ///< absent for a trainer of one's own
  std::uint64_t agent_bytes = 0;
  std::uint64_t round_wire_bytes = 0;          ///< that all peers send for the largest round
  std::uint64_t outer_step_wire_bytes = 0;     ///< that all peers send in an outer step: `wire_bytes` of the journal
  std::uint64_t peer_wire_bytes = 0;           ///< of these, one peer's
  std::uint64_t tokens = 0;                    ///< that all peers train on in an outer step
  std::optional<double> link_bits_per_s = {};  ///< what is reckoned with
  std::optional<double> step_s = {};
  std::optional<double> tokens_per_s = {};     ///< of all peers together while they train, as tables show it
  std::optional<double> reduce_s = {};         ///< of all rounds of an outer step
  std::optional<double> outer_step_s = {};     ///< training and waiting
  std::optional<double> peak_bits_per_s = {};  ///< that a peer sends while it sends
  std::optional<double> mean_bits_per_s = {};  ///< that a peer sends in the mean; without a link, over one that is never waited for
  std::optional<double> compute_utilization = {};
  std::optional<double> goodput = {};  ///< share of the time that failures leave
  std::vector<NeededLink> links = {};  ///< for TOLD_UTILIZATIONS; empty without a step time
  std::vector<std::string> assumptions = {};
};

/// The share of its time that a job works which fails every `between` in the mean and takes `recovery` to work again: B / (B + R), which
/// reproduces the published goodput of Decoupled DiLoCo (arXiv:2604.21428).
double goodput(Duration between, Duration recovery);

/// Fails with Usage for circumstances that the manifest excludes, and as the run would for a model that it refuses (LayoutUnusable).
Result<Plan> make_plan(const manifest::Manifest& manifest, const Circumstances& circumstances);

}  // namespace prime::planning

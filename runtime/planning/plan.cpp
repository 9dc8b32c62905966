#include "runtime/planning/plan.hpp"

#include <algorithm>

#include "runtime/manifest/values.hpp"
#include "runtime/models/architecture.hpp"
#include "runtime/planning/memory.hpp"
#include "runtime/planning/utilization.hpp"
#include "runtime/planning/wire_bytes.hpp"
#include "runtime/session/layout.hpp"

namespace prime::planning {
namespace {

constexpr double BITS = 8;

double seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

Result<std::uint32_t> peers_of(const manifest::Manifest& manifest, const Circumstances& circumstances) {
  const auto& admitted = manifest.shared.membership.peers;
  const auto peers = circumstances.peers.value_or(admitted.maximum);
  const auto refused = [&](const std::string& why, std::uint32_t bound) {
    return fail(ErrorName::Usage, "--peers " + std::to_string(peers) + " is " + why + ", " + std::to_string(bound));
  };
  if (peers > admitted.maximum) return refused("more than `membership.peers` admits", admitted.maximum);
  if (peers < admitted.minimum) return refused("fewer than `membership.peers` asks for", admitted.minimum);
  return peers;
}

/// Values in each fragment that a peer holds. Of a model in parts only their number is known: they are taken for equal.
Result<std::vector<std::uint64_t>> fragments_of(const manifest::Shared& shared, std::uint64_t& parameters) {
  PRIME_TRY(const auto layout, make_layout(models::tensor_shapes(shared.model), shared.sync.fragments));
  parameters = layout.elements();
  const std::uint64_t shards = shared.membership.shards;
  if (shards > 1) return std::vector<std::uint64_t>{(parameters + shards - 1) / shards};
  std::vector<std::uint64_t> sizes;
  for (std::uint32_t fragment = 0; fragment < layout.fragments(); ++fragment) sizes.push_back(layout.size(fragment));
  return sizes;
}

/// What all peers of one shard send for each fragment.
Result<std::vector<std::uint64_t>> rounds_of(const manifest::Shared& shared, const std::vector<std::uint64_t>& sizes, std::uint32_t peers) {
  std::vector<std::uint64_t> rounds;
  for (const auto size : sizes) {
    PRIME_TRY(const auto bytes,
              wire_bytes({size, peers, shared.sync.wire.codec, shared.sync.wire.result_codec, shared.sync.wire.schedule}));
    rounds.push_back(bytes);
  }
  return rounds;
}

std::optional<double> link_of(const manifest::Local& local, const Circumstances& circumstances) {
  const auto& cap = local.network.cap_bits_per_s;
  const auto& link = circumstances.link_bits_per_s;
  if (!cap && !link) return std::nullopt;
  return static_cast<double>(std::min(link.value_or(UINT64_MAX), cap.value_or(UINT64_MAX)));
}

/// What follows from the link and the step time, as far as they are known.
void add_times(Plan& plan, const std::vector<double>& bits_of_rounds, const manifest::Sync& sync) {
  const double bits = static_cast<double>(plan.peer_wire_bytes) * BITS;
  if (plan.link_bits_per_s) {
    plan.reduce_s = bits / *plan.link_bits_per_s;
    plan.peak_bits_per_s = bits > 0 ? *plan.link_bits_per_s : 0;
  }
  if (!plan.step_s) return;
  if (sync.decoupled()) {  // a round that takes longer than the inner steps between two of them makes rounds rarer, and nobody wait
    if (plan.link_bits_per_s) plan.compute_utilization = 1;
    plan.tokens_per_s = static_cast<double>(plan.tokens) / (*plan.step_s * plan.inner_steps);
    plan.outer_step_s = std::max(*plan.step_s * plan.inner_steps, plan.reduce_s.value_or(0));
    plan.mean_bits_per_s = bits / *plan.outer_step_s;
    return;
  }
  const auto pattern = outer_rounds(*plan.step_s, plan.inner_steps, bits_of_rounds, sync.overlap, sync.offsets);
  const double training_s = *plan.step_s * plan.inner_steps;
  plan.tokens_per_s = static_cast<double>(plan.tokens) / training_s;
  if (plan.link_bits_per_s) plan.compute_utilization = compute_utilization(pattern, *plan.link_bits_per_s);
  if (plan.compute_utilization) plan.outer_step_s = training_s / *plan.compute_utilization;
  plan.mean_bits_per_s = bits / plan.outer_step_s.value_or(training_s);
  for (const double utilization : TOLD_UTILIZATIONS) plan.links.push_back({utilization, link_for(pattern, utilization)});
}

void add_goodput(Plan& plan, const manifest::Shared& shared, const Circumstances& circumstances) {
  if (!circumstances.mtbf) return;
  const auto recovery = circumstances.recovery.value_or(shared.membership.heartbeat.dead_after);
  const auto processes = static_cast<std::int64_t>(plan.peers) * plan.shards;
  const bool alone = shared.sync.decoupled();  // the others go on
  plan.goodput = goodput(alone ? *circumstances.mtbf : *circumstances.mtbf / processes, recovery);
  plan.assumptions.push_back(
      "failures: each of " + std::to_string(processes) + " peers fails every " + manifest::print_duration(*circumstances.mtbf) +
      " in the mean, and holds up " + (alone ? "itself alone" : "all of them") + " for " + manifest::print_duration(recovery) +
      (circumstances.recovery ? "" : " (`membership.heartbeat.dead_after`)") + "; work that the failed one loses is not counted");
}

void add_assumptions(Plan& plan, const manifest::Shared& shared) {
  auto& told = plan.assumptions;
  const auto reduced =
      plan.fragments == 1 ? std::string{"the whole model is reduced"} : "all " + std::to_string(plan.fragments) + " fragments are reduced";
  const auto& sync = shared.sync;
  if (sync.decoupled())
    told.emplace_back("nobody waits: a result that comes late is taken over later, and the link only says how many rounds there are");
  else if (sync.streams())
    told.push_back("rounds overlap: fragments are published " +
                   std::string{sync.offsets == Offsets::Spread ? "one after the other over the inner steps" : "after the last inner step"} +
                   ", and " + std::to_string(sync.overlap) + " inner steps later every trainer waits until the fragment is reduced");
  else if (sync.overlap > 0)
    told.push_back(std::string{sync.eager ? "trainers go on with their own part meanwhile; " : ""} +
                   "rounds overlap: after the last inner step of the next outer step every trainer waits until " + reduced);
  else told.push_back("rounds are blocking: after its last inner step every trainer waits until " + reduced);
  told.emplace_back("all peers contribute to every round, take the same time for a step, and nothing is tried again");
  told.emplace_back(
      "links are equal, carry as much in while they carry out, and have no latency; what TLS, TCP and IP add (3 to 5 %), control, digests "
      "and "
      "the outer rule are not counted");
  told.emplace_back(
      "agent: parameters, momentum and the contribution, and of each fragment in flight (`sync.in_flight`) the mean and the next "
      "parameters, "
      "in f32; checkpoints and joiners hold up to two sizes of the model more, for a while; two records of what its trainer keeps for "
      "itself, three with `local.record_every`, and up to two more while a disk takes them");
  told.push_back(
      plan.trainer_bytes
          ? "trainer: parameters, gradients and optimizer's moments in f32, and about what the backward pass needs; "
            "the process itself and libtorch are not counted; on a GPU this is its memory, and the host's has the "
            "parameters once more"
          : std::string{"a trainer of your own: its memory and its records are not known, and its model is taken for the manifest's"});
  if (plan.shards > 1) told.push_back("the " + std::to_string(plan.shards) + " shards of a replica are equally large");
  if (shared.sync.quorum > 0 && !sync.decoupled()) told.emplace_back("nobody is late: `sync.quorum` changes nothing");
}

}  // namespace

double goodput(Duration between, Duration recovery) { return seconds(between) / (seconds(between) + seconds(recovery)); }

Result<Plan> make_plan(const manifest::Manifest& manifest, const Circumstances& circumstances) {
  const auto& [shared, local] = manifest;
  Plan plan{.run = shared.run,
            .shards = shared.membership.shards,
            .inner_steps = shared.sync.inner_steps,
            .outer_steps = shared.train.outer_steps};
  PRIME_TRY(plan.peers, peers_of(manifest, circumstances));
  PRIME_TRY(const auto sizes, fragments_of(shared, plan.parameters));
  PRIME_TRY(const auto rounds, rounds_of(shared, sizes, plan.peers));
  plan.fragments = static_cast<std::uint32_t>(sizes.size());
  if (local.trainer_command.empty() && plan.shards == 1) plan.trainer_bytes = trainer_bytes(manifest, plan.parameters);
  std::uint64_t held = 0, sent = 0;
  for (const auto size : sizes) held += size;
  for (const auto round : rounds) sent += round;
  plan.agent_bytes = agent_bytes(held, *std::ranges::max_element(sizes), std::min(shared.sync.in_flight, plan.fragments));
  // What the next step began from stays while this one's fragments are committed; or it is the peer's own, and has a momentum of its own.
  const auto& sync = shared.sync;
  const bool own_base = sync.overlap == sync.inner_steps && (plan.fragments > 1 || sync.eager);
  plan.agent_bytes += (std::uint64_t{own_base} + std::uint64_t{sync.eager}) * held * sizeof(float);
  if (sync.wire.feedback)
    plan.agent_bytes += (held + std::min(sync.in_flight, plan.fragments) * *std::ranges::max_element(sizes)) * sizeof(float);
  if (plan.trainer_bytes) plan.agent_bytes += record_bytes(manifest, plan.parameters);
  plan.round_wire_bytes = *std::ranges::max_element(rounds) * plan.shards;
  plan.outer_step_wire_bytes = sent * plan.shards;
  plan.peer_wire_bytes = sent / plan.peers;
  plan.tokens = std::uint64_t{plan.peers} * plan.inner_steps * shared.train.batch * shared.model.context;
  plan.link_bits_per_s = link_of(local, circumstances);
  if (circumstances.step_time) plan.step_s = seconds(*circumstances.step_time);
  std::vector<double> bits_of_rounds;
  for (const auto round : rounds) bits_of_rounds.push_back(static_cast<double>(round) / plan.peers * BITS);
  add_times(plan, bits_of_rounds, shared.sync);
  add_assumptions(plan, shared);
  add_goodput(plan, shared, circumstances);
  return plan;
}

}  // namespace prime::planning

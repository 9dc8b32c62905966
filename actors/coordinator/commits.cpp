#include "actors/coordinator/commits.hpp"

#include <algorithm>

#include "actors/coordinator/columns.hpp"
#include "actors/coordinator/decoupled.hpp"
#include "actors/coordinator/evaluation.hpp"
#include "actors/coordinator/samples.hpp"
#include "actors/coordinator/topology_machine.hpp"
#include "actors/membership/replicas.hpp"
#include "kernels/digest/digest.hpp"
#include "messages/assert.hpp"

namespace prime::coordinator::commits {
namespace {

/// Each replica's, by its first peer.
SharedList<Contribution> of_replicas(const State& state, const Operation& operation) {
  return column_of(operation.contributions, 0, state.options.shards);
}

/// Tokens count once for a state of several fragments: with all of a step, or, where each has steps of its own, with the first one's.
std::uint64_t tokens_of(const State& state, const Operation& operation, std::uint32_t fragment, bool completes) {
  const bool decoupled = state.plan.decoupled;
  std::uint64_t tokens = 0;
  if (!(decoupled ? fragment == 0 : completes)) return tokens;
  for (const auto& [id, weight] : of_replicas(state, operation))
    if (weight > 0) tokens += decoupled ? state.rounds[fragment].brings(id)->tokens : weight;
  return tokens;
}

/// An operation that has ended, and the fragment of which it made the next version.
struct Made {
  const Operation& operation;
  std::uint32_t fragment = 0;
};

/// The line of a fragment's next version; the state is as it was before it.
events::RoundCommitted round_committed(const State& state, const Made& made, const Digest& part) {
  const auto& [operation, fragment] = made;
  const auto& round = state.rounds[fragment];
  events::RoundCommitted done{
      .fragment = fragment, .version = round.step, .operation = operation.id, .revision = state.revision.next(), .digest = part};
  for (const auto& [id, weight] : of_replicas(state, operation)) {
    if (weight == 0) continue;
    done.contributors.push_back(id);
    done.weights.push_back(weight);
    done.base_versions.push_back(round.brings(id)->base);
  }
  return done;
}

/// What one committed step reports, once its last fragment is: figures over the contributors to that.
events::OuterStepCommitted committed_event(const State& state, const Made& made, const Digest& digest) {
  const auto& [operation, fragment] = made;
  const auto& round = state.rounds[fragment];
  events::OuterStepCommitted done{.outer_step = round.step,
                                  .epoch = operation.id.epoch,
                                  .revision = state.revision.next(),
                                  .digest = digest,
                                  .peers = operation.contributions.size() / state.options.shards,
                                  .wire_bytes = state.cost.wire_bytes,
                                  .reduce_s = std::min(state.cost.reduce, state.cost.operation),
                                  .operation_s = state.cost.operation,
                                  .next_sample = operation.next_sample};
  HeldOutSum held_out;
  std::set<std::uint64_t> evaluated;  // the peers of a replica evaluate together: one of them counts
  for (const auto& [id, weight] : operation.contributions) {
    if (weight == 0) continue;
    const auto& work = round.due().at(id);
    const auto ordinal = state.peers.at(id).ordinal;
    if (work.begun == round.step && work.ready->held_out.tokens > 0 && evaluated.insert(ordinal).second)
      held_out.add(work.ready->held_out);  // what is late evaluated an older state
    done.loss += work.ready->loss.value() * static_cast<double>(work.ready->weight);
    done.tokens_per_s += work.ready->tokens_per_s.value();
  }
  for (const auto& [id, weight] : of_replicas(state, operation)) {
    if (weight > 0) done.contributors.push_back(id);
    done.weight += weight;
  }
  done.loss /= static_cast<double>(done.weight);
  done.tokens = state.tokens;
  if (const auto loss = held_out.loss(); loss.tokens > 0) {
    done.held_out_loss = loss.mean.value();
    done.held_out_tokens = loss.tokens;
  }
  return done;
}

/// Of a step that this operation completes: what nobody has trained on is to be trained on by whoever goes on from there, when those who
/// are at work on some of it are gone.
std::vector<std::uint64_t> unused_after(const State& state, const Made& completing) {
  const auto& [operation, fragment] = completing;
  auto ranges = state.given_back;
  for (const auto& member : state.view.members)
    for (const auto range : samples::unused_by(state, member.id)) ranges.insert(range);
  for (const auto& [id, weight] : operation.contributions)
    if (weight > 0) ranges.erase(state.rounds[fragment].due().at(id).first_sample);
  // What lies behind the cursor is handed out from there anyway.
  return {ranges.begin(), ranges.lower_bound(operation.next_sample)};
}

void add_cost(Cost& cost, const Operation& operation, Instant now) {
  Duration slowest{};
  for (const auto& [id, vote] : operation.votes) {
    cost.wire_bytes += vote.wire_bytes;
    slowest = std::max(slowest, Duration{vote.reduce_ns});
  }
  cost.reduce += slowest;
  cost.operation += now - std::max(operation.since, cost.counted);
  cost.counted = now;
}

/// The fragment has its next version.
void advance_round(State& state, const Made& made, const Decided& decided, Instant now, Effects& effects) {
  auto& round = state.rounds[made.fragment];
  // Who waited for this before it goes on is not slow.
  for (auto& each : state.rounds)
    if (each.first_ready) each.first_ready = now;
  for (const auto& [id, weight] : made.operation.contributions)
    if (weight > 0) samples::note_taken(state, id, round.due().at(id).first_sample);
  round.step = round.step.next();
  round.quorum_since.reset();
  const bool closed = !round.closed.empty();
  round.closed.clear();
  for (const auto& [id, weight] : made.operation.contributions) {
    auto& work = round.work.at(id);
    if (weight > 0 && !closed) work.contributes = false;  // its work is in
    if (!work.contributes && !closed) work.ready.reset();
    auto message = told_to(state, decided, id);
    auto& seated = state.peers.at(id).seated;
    seated.revision = message.revision;
    seated.state = message.state;
    seated.parts.clear();
    effects.emplace_back(Send{id, std::move(message)});
  }
  if (state.plan.decoupled) decoupled::committed(state, round);
  state.revision = decided.commit.revision;
}

}  // namespace

std::vector<Decided> in_order(const State& state) {
  std::vector<Decided> commits;
  for (const auto& round : state.rounds)
    if (round.last) commits.push_back(*round.last);
  std::ranges::sort(commits, {}, [](const Decided& each) { return each.commit.revision; });
  return commits;
}

Commit told_to(const State& state, const Decided& decided, PeerId member) {
  auto commit = decided.commit;
  if (!decided.shards.empty()) {
    const auto& held = decided.shards[state.peers.at(member).hello.shard];
    commit.state = held.state;
    commit.part = held.part;
  }
  return commit;
}

bool apply(State& state, const Operation& operation, std::uint32_t fragment, const std::vector<Digest>& parts, Instant now,
           Effects& effects) {
  auto& round = state.rounds[fragment];
  const auto step = state.step();
  const Made made{operation, fragment};
  std::vector<Decided::Held> held;
  for (std::size_t at = 0; at < state.shards.size(); ++at) {
    auto& shard = state.shards[at];
    PRIME_ASSERT(shard.parts.size() == state.rounds.size(), "law 2: the versions of all fragments are known");
    shard.parts[fragment] = parts[at];
    shard.state = kernels::digest_of_parts(shard.parts);
    held.push_back({*shard.state, parts[at]});
  }
  membership::note_digest(state);
  const auto digest = *state.digest;
  const auto part = parts.size() == 1 ? parts.front() : membership::combined(parts);
  const bool completes = round.step == step && std::ranges::count(state.rounds, step, &Round::step) == 1;
  add_cost(state.cost, operation, now);
  state.tokens += tokens_of(state, operation, fragment, completes);
  if (completes) state.unused = unused_after(state, made);
  round.last = Decided{Commit{.op = operation.id,
                              .step = round.step,
                              .revision = state.revision.next(),
                              .state = digest,
                              .fragment = fragment,
                              .part = part,
                              .completes = completes,
                              .given_back = completes ? state.unused : std::vector<std::uint64_t>{},
                              .tokens = state.tokens},
                       {},
                       parts.size() == 1 ? std::vector<Decided::Held>{} : std::move(held)};
  auto& lines = round.last->lines;
  lines.emplace_back(round_committed(state, made, part));
  if (completes) {
    lines.emplace_back(committed_event(state, made, digest));
    state.cost = {.counted = now};
  }
  effects.insert(effects.end(), lines.begin(), lines.end());
  if (fragment == 0) topology::note_reduce(state, now - operation.since, now);
  advance_round(state, made, *round.last, now, effects);
  return completes;
}

}  // namespace prime::coordinator::commits

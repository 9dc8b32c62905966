#include "actors/coordinator/progress.hpp"

#include <algorithm>

#include "actors/coordinator/columns.hpp"
#include "actors/coordinator/waits.hpp"
#include "kernels/codec/codec.hpp"

namespace prime::coordinator::progress {
namespace {

using membership::Transfer;

/// Of what lasts longer the journal has a line so often.
constexpr Duration TOLD_EVERY = 10s;
/// Of one reduce: a journal has no room for a thousand members every time.
constexpr std::size_t TOLD_AT_MOST = 16;
/// What one member sends and receives for the operations in flight, and those that ended beside them: its inputs of the others' segments,
/// and the results.
std::uint64_t reduce_bytes(const State& state, const Peer& peer) {
  const std::uint64_t world = replicas(state);
  if (world < 2) return 0;
  const auto elements = state.shard_of(peer).elements;
  const auto bytes = kernels::encoded_bytes(state.plan.codec, elements) + kernels::encoded_bytes(state.plan.result_codec, elements);
  return state.moving * 2 * (world - 1) * (bytes / state.options.fragments / world);
}

/// The members without a vote, those first that have moved least.
std::vector<Transfer> behind_in_reduce(const State& state, Instant now) {
  std::vector<Transfer> behind;
  for (const auto& member : state.view.members) {
    const auto& peer = state.peers.at(member.id);
    if (lacks_vote(state, member.id)) behind.push_back(membership::transfer_of(peer, reduce_bytes(state, peer), now));
  }
  std::ranges::stable_sort(behind, {}, &Transfer::moved_bytes);
  return behind;
}

events::TransferProgress told(const Transfer& transfer, TransferKind kind) {
  return {membership::who(*transfer.peer), kind, transfer.moved_bytes, transfer.needed_bytes, transfer.bytes_per_s(), transfer.elapsed};
}

}  // namespace

bool reduce_stands_still(const State& state, Instant now) {
  Instant last{};
  for (const auto& round : state.rounds)
    if (round.operation) last = std::max(last, round.operation->since);
  for (const auto& member : state.view.members) last = std::max(last, state.peers.at(member.id).transfer.last);
  return now - last > membership::transfer_limit(state);
}

std::optional<Transfer> least_of_reduce(const State& state, Instant now) {
  const auto behind = behind_in_reduce(state, now);
  return behind.empty() ? std::nullopt : std::optional{behind.front()};
}

std::string advice(const State& state) {
  if (state.tries.alike.count < ALIKE_UNTIL_ADVICE) return {};
  const auto tries = "; " + std::to_string(state.tries.alike.count) + " tries ended alike: " + state.tries.alike.reason + "; ";
  if (state.tries.alike.error == ErrorName::DeadlineExceeded)
    return tries + "what would help: a longer `sync.deadline` (it is " + format_duration(state.options.deadline) +
           ", without a byte moved), fewer bytes (`sync.wire.codec`), or a better link for who is behind";
  return tries + "what would help: a link that holds, or the port and the address that `local.network` gives this peer";
}

void tell(State& state, Instant now, Effects& effects) {
  const auto due = [&](Peer& peer) {
    if (now - std::max(peer.transfer.since, peer.transfer.told) < TOLD_EVERY) return false;
    peer.transfer.told = now;
    return true;
  };
  for (auto& [id, peer] : state.peers)
    if (peer.seat == Seat::Fetching && due(peer)) effects.emplace_back(told(membership::of_fetch(state, peer, now), TransferKind::Fetch));
  if (state.phase != Phase::Reducing) return;
  auto behind = behind_in_reduce(state, now);
  behind.resize(std::min(behind.size(), TOLD_AT_MOST));
  for (const auto& each : behind)
    if (due(state.peers.at(each.peer->hello.peer))) effects.emplace_back(told(each, TransferKind::Reduce));
}

}  // namespace prime::coordinator::progress

#include "actors/coordinator/progress.hpp"

#include <algorithm>

#include "actors/coordinator/membership_machine.hpp"
#include "kernels/codec/codec.hpp"

namespace prime::coordinator::progress {
namespace {

/// Of what lasts longer the journal has a line so often.
constexpr Duration TOLD_EVERY = 10s;
/// Of one reduce: a journal has no room for a thousand members every time.
constexpr std::size_t TOLD_AT_MOST = 16;
/// The outer rule and digests go over parameters and momentum, at the very least so fast.
constexpr std::uint64_t PREPARED_BYTES_PER_S = 256 * MIB;

std::uint64_t state_bytes(const State& state) { return state.elements * 2 * sizeof(float); }

/// What one member sends and receives: its inputs of the others' segments, and the results.
std::uint64_t reduce_bytes(const State& state) {
  const std::uint64_t world = state.operation.contributions.size();
  return world < 2 ? 0 : 4 * (world - 1) * (kernels::encoded_bytes(state.options.codec, state.elements) / world);
}

Transfer transfer(const Peer& peer, std::uint64_t needed_bytes, Instant now) {
  const auto moved = peer.moved_bytes.value_or(0);
  return {&peer, moved - peer.transfer.moved_before.value_or(moved), needed_bytes, now - peer.transfer.since};
}

/// The members without a vote, those first that have moved least.
std::vector<Transfer> behind_in_reduce(const State& state, Instant now) {
  std::vector<Transfer> behind;
  for (const auto& member : state.view.members)
    if (const auto& peer = state.peers.at(member.id); !peer.vote) behind.push_back(transfer(peer, reduce_bytes(state), now));
  std::ranges::stable_sort(behind, {}, &Transfer::moved_bytes);
  return behind;
}

events::TransferProgress told(const Transfer& transfer, TransferKind kind) {
  return {membership::who(*transfer.peer), kind, transfer.moved_bytes, transfer.needed_bytes, transfer.bytes_per_s(), transfer.elapsed};
}

}  // namespace

std::uint64_t Transfer::bytes_per_s() const {
  const auto seconds = std::chrono::duration<double>(elapsed).count();
  return seconds > 0 ? static_cast<std::uint64_t>(static_cast<double>(moved_bytes) / seconds) : 0;
}

void begin(Peer& peer, Instant now) { peer.transfer = Transferring{now, now, std::nullopt, {}}; }

void note(Peer& peer, std::uint64_t moved_bytes, Instant now) {
  const bool more = moved_bytes > peer.moved_bytes.value_or(0);
  if (more || !peer.moved_bytes) peer.moved_bytes = moved_bytes;
  // What it moved since its last heartbeat, and before this transfer, is of others.
  if (!peer.transfer.moved_before) peer.transfer.moved_before = peer.moved_bytes;
  else if (more) peer.transfer.last = now;
}

Duration limit(const State& state) {
  const auto& options = state.options;
  const std::chrono::milliseconds work{static_cast<std::int64_t>(state_bytes(state) * 1000 / PREPARED_BYTES_PER_S)};
  return options.deadline + std::max(options.deadline / 4, options.heartbeat_limit) + work;
}

bool reduce_stands_still(const State& state, Instant now) {
  Instant last = state.operation.since;
  for (const auto& member : state.view.members) last = std::max(last, state.peers.at(member.id).transfer.last);
  return now - last > limit(state);
}

bool fetch_stands_still(const State& state, const Peer& peer, Instant now) { return now - peer.transfer.last > limit(state); }

Transfer of_fetch(const State& state, const Peer& peer, Instant now) { return transfer(peer, state_bytes(state), now); }

std::optional<Transfer> least_of_reduce(const State& state, Instant now) {
  const auto behind = behind_in_reduce(state, now);
  return behind.empty() ? std::nullopt : std::optional{behind.front()};
}

std::string to_string(const Transfer& transfer) {
  return transfer.peer->hello.name + " has moved " + format_byte_count(transfer.moved_bytes) + " of about " +
         format_byte_count(transfer.needed_bytes) + " in " + format_duration(transfer.elapsed) + ", " +
         format_byte_count(transfer.bytes_per_s()) + "/s";
}

std::string advice(const State& state) {
  if (state.alike.count < ALIKE_UNTIL_ADVICE) return {};
  const auto tries = "; " + std::to_string(state.alike.count) + " tries ended alike: " + state.alike.reason + "; ";
  if (state.alike.error == ErrorName::DeadlineExceeded)
    return tries + "what would help: a longer `sync.deadline` (it is " + format_duration(state.options.deadline) +
           ", without a byte moved), fewer bytes (`sync.wire.codec`), or a better link for who is behind";
  return tries + "what would help: a link that holds, or the port and the address that `local.network` gives this peer";
}

void tell(State& state, Instant now, std::vector<Effect>& effects) {
  const auto due = [&](Peer& peer) {
    if (now - std::max(peer.transfer.since, peer.transfer.told) < TOLD_EVERY) return false;
    peer.transfer.told = now;
    return true;
  };
  for (auto& [id, peer] : state.peers)
    if (peer.seat == Seat::Fetching && due(peer)) effects.emplace_back(told(of_fetch(state, peer, now), TransferKind::Fetch));
  if (state.phase != Phase::Reducing) return;
  auto behind = behind_in_reduce(state, now);
  behind.resize(std::min(behind.size(), TOLD_AT_MOST));
  for (const auto& each : behind)
    if (due(state.peers.at(each.peer->hello.peer))) effects.emplace_back(told(each, TransferKind::Reduce));
}

}  // namespace prime::coordinator::progress

#include "actors/membership/transfer.hpp"

#include <algorithm>

namespace prime::membership {
namespace {

/// The outer rule and digests go over parameters and momentum, at the very least so fast.
constexpr std::uint64_t PREPARED_BYTES_PER_S = 256 * MIB;

std::uint64_t state_bytes(const Shard& shard) { return shard.elements * 2 * sizeof(float); }

}  // namespace

std::uint64_t Transfer::bytes_per_s() const {
  const auto seconds = std::chrono::duration<double>(elapsed).count();
  return seconds > 0 ? static_cast<std::uint64_t>(static_cast<double>(moved_bytes) / seconds) : 0;
}

void begin_transfer(Peer& peer, Instant now) { peer.transfer = Transferring{now, now, std::nullopt, {}}; }

void note_moved(Peer& peer, std::uint64_t moved_bytes, Instant now) {
  const bool more = moved_bytes > peer.moved_bytes.value_or(0);
  if (more || !peer.moved_bytes) peer.moved_bytes = moved_bytes;
  // What it moved since its last heartbeat, and before this transfer, is of others.
  if (!peer.transfer.moved_before) peer.transfer.moved_before = peer.moved_bytes;
  else if (more) peer.transfer.last = now;
}

Transfer transfer_of(const Peer& peer, std::uint64_t needed_bytes, Instant now) {
  const auto moved = peer.moved_bytes.value_or(0);
  return {&peer, moved - peer.transfer.moved_before.value_or(moved), needed_bytes, now - peer.transfer.since};
}

Transfer of_fetch(const Roster& roster, const Peer& peer, Instant now) {
  return transfer_of(peer, state_bytes(roster.shard_of(peer)), now);
}

Duration transfer_limit(const Roster& roster) {
  const auto& options = roster.options;
  const auto largest = std::ranges::max_element(roster.shards, {}, &Shard::elements);
  const std::chrono::milliseconds work{static_cast<std::int64_t>(state_bytes(*largest) * 1000 / PREPARED_BYTES_PER_S)};
  return options.deadline + std::max(options.deadline / 4, options.heartbeat_limit) + work;
}

bool fetch_stands_still(const Roster& roster, const Peer& peer, Instant now) { return now - peer.transfer.last > transfer_limit(roster); }

std::string to_string(const Transfer& transfer) {
  return transfer.peer->hello.name + " has moved " + format_byte_count(transfer.moved_bytes) + " of about " +
         format_byte_count(transfer.needed_bytes) + " in " + format_duration(transfer.elapsed) + ", " +
         format_byte_count(transfer.bytes_per_s()) + "/s";
}

}  // namespace prime::membership

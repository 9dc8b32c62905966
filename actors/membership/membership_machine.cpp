#include "actors/membership/membership_machine.hpp"

#include <algorithm>

#include "actors/membership/departures.hpp"
#include "actors/membership/presence.hpp"
#include "actors/membership/replicas.hpp"

namespace prime::membership {
namespace {

/// No more than is believed, and nothing that no host is called.
bool are_sane(const Addresses& addresses) {
  return addresses.list.size() <= MAX_ADDRESSES &&
         std::all_of(addresses.list.begin(), addresses.list.end(), [](const Endpoint& each) { return each.host.size() <= 255; });
}

}  // namespace

std::optional<Error> refusal(const Roster& roster, const Hello& message, const std::optional<Error>& closed) {
  if (message.protocol != PROTOCOL_VERSION)
    return Error{ErrorName::VersionMismatch,
                 "the run speaks protocol " + std::to_string(PROTOCOL_VERSION) + ", the peer " + std::to_string(message.protocol)};
  if (message.run != roster.options.run)
    return Error{ErrorName::WrongRun, "run `" + roster.options.run + "`, the invite names `" + message.run + "`"};
  if (roster.options.shards == 1 && (!message.replica.empty() || message.shard > 0))
    return Error{ErrorName::Usage, "this run is not sharded, and the peer says that it holds shard " + std::to_string(message.shard)};
  if (message.name.size() > 64 || !are_sane(message.lanes))
    return Error{ErrorName::ProtocolViolation, "its name is too long, or it tells more or longer addresses than are taken"};
  if (roster.left.contains(message.peer)) return Error{ErrorName::PeerLost, "its replica left"};
  for (const auto& [id, cause] : roster.gone)
    if (id == message.peer && cause.name == ErrorName::RolledBack) return cause;
    else if (id == message.peer)
      return Error{ErrorName::Evicted, "it went with: " + (cause.name == ErrorName::Evicted ? cause.detail : to_string(cause))};
  if (closed) return closed;
  if (message.returning)
    return Error{ErrorName::Evicted, "it has no seat in epoch " + std::to_string(roster.view.epoch.value) + " any more"};
  if (whole_replicas(roster) >= roster.options.max_peers) {
    const auto limit = std::to_string(roster.options.max_peers);
    return Error{ErrorName::RunFull, limit + " of " + limit};
  }
  return std::nullopt;
}

std::string refuse(const Roster& roster, PeerId from, const Hello& message, const Error& cause, Effects& effects) {
  effects.emplace_back(events::PeerRefused{{from, message.name}, cause});
  effects.emplace_back(Send{from, Dismissed{told(roster, cause)}});
  return "refused " + message.name + ": " + to_string(cause);
}

std::string without_seat(const Roster& roster, PeerId from, Effects& effects) {
  const Error cause{ErrorName::Evicted, "it has no seat in epoch " + std::to_string(roster.view.epoch.value)};
  effects.emplace_back(Send{from, Dismissed{told(roster, cause)}});
  return "a message from a peer without a seat";
}

/// Until the run has trained, the peers that started with it have their ranks by their order there, however fast each of them is: who goes
/// on from a checkpoint has what the peer of its rank left.
std::uint64_t ordinal_for(Roster& roster, const Hello& hello) {
  if (const auto replica = replica_without(roster, hello)) return *replica;
  const auto& name = party(hello);
  const auto& founders = roster.options.founders;
  const auto place = static_cast<std::uint64_t>(std::ranges::find(founders, name) - founders.begin());
  const bool taken = std::ranges::any_of(roster.peers, [&](const auto& entry) { return entry.second.ordinal == place; });
  return place < founders.size() && !taken && !roster.has_trained() ? place : roster.next_ordinal++;
}

std::string hello(Roster& roster, PeerId from, const Hello& message, const std::optional<Error>& closed, Instant now, Effects& effects) {
  auto refused = from == message.peer ? refusal(roster, message, closed)
                                      : Error{ErrorName::ProtocolViolation, "the hello names another peer than the connection"};
  if (!refused) refused = misplaced(roster, message, now);
  if (refused) return refuse(roster, from, message, *refused, effects);
  Peer peer;
  peer.hello = message;
  peer.ordinal = ordinal_for(roster, message);
  peer.heard = peer.greeted = now;
  set_seat(peer, Seat::Greeted, now);
  const auto& newcomer = roster.peers.emplace(from, std::move(peer)).first->second;
  effects.emplace_back(Send{from, Welcome{newcomer.ordinal, roster.options.manifest}});
  effects.emplace_back(LookFor{from, message.lanes});
  tell_replica(roster, newcomer, effects);
  return message.name + " is welcome";
}

std::string returned(Roster& roster, PeerId from, const Hello& message, Instant now, Effects& effects) {
  auto& peer = roster.peers.at(from);
  peer.hello = message;
  set_seat(peer, Seat::Greeted, now);
  if (peer.absent) heard_again(roster, from, effects);
  effects.emplace_back(Send{from, Welcome{peer.ordinal, roster.options.manifest}});
  if (!is_whole(roster, peer)) effects.emplace_back(Send{from, ReplicaLacks{missing_in(roster, peer)}});
  return message.name + " is welcome again";
}

std::vector<PeerId> admit(Roster& roster, Instant now, Effects& effects) {
  std::vector<Peer*> admitted;
  std::map<std::uint64_t, std::uint32_t> caught_up;  // peers of each replica
  for (auto& [id, peer] : roster.peers) {
    if (peer.seat != Seat::CaughtUp || peer.absent || peer.seated.revision != roster.revision) continue;
    admitted.push_back(&peer);
    ++caught_up[peer.ordinal];
  }
  std::erase_if(admitted, [&](const Peer* peer) { return caught_up.at(peer->ordinal) < roster.options.shards; });
  // The first view waits for its quorum, so that all begin the first step together.
  const bool first = roster.view.members.empty() && !roster.has_trained();
  if (admitted.empty() || (first && admitted.size() / roster.options.shards < roster.options.start_quorum)) return {};
  if (first && roster.data_lent && !roster.founders_awaited.empty()) return {};  // nobody trains on a stranger's data
  std::ranges::sort(admitted, {}, [](const Peer* peer) { return std::pair{peer->ordinal, peer->hello.shard}; });
  auto& members = roster.view.members.edit();
  std::vector<PeerId> ids;
  for (auto* peer : admitted) {
    set_seat(*peer, Seat::Member, now);
    peer->fetch = {};
    ids.push_back(peer->hello.peer);
    members.push_back(Member{peer->hello.peer, peer->hello.name, peer->hello.lanes, peer->ordinal});
    effects.emplace_back(events::PeerAdmitted{.who = who(*peer), .epoch = roster.view.epoch, .revision = roster.revision});
  }
  std::ranges::stable_sort(members, {}, &Member::ordinal);  // those of one ordinal came together, by shard
  return ids;
}

}  // namespace prime::membership

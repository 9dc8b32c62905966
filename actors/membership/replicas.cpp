#include "actors/membership/replicas.hpp"

#include <algorithm>
#include <map>

#include "kernels/digest/digest.hpp"

namespace prime::membership {
namespace {

std::string shards_text(const std::vector<std::uint32_t>& shards) {
  std::string text = shards.size() > 1 ? "shards " : "shard ";
  for (const auto shard : shards) text += (shard == shards.front() ? "" : ", ") + std::to_string(shard);
  return text;
}

/// Of all replicas, by ordinal: one peer of each shard that has one.
std::map<std::uint64_t, std::vector<const Peer*>> by_replica(const Roster& roster) {
  std::map<std::uint64_t, std::vector<const Peer*>> replicas;
  for (const auto& [id, peer] : roster.peers) replicas[peer.ordinal].push_back(&peer);
  return replicas;
}

void tell_missing(const Roster& roster, const Peer& peer, const std::string& missing, Effects& effects) {
  for (const auto id : replica_of(roster, peer)) effects.emplace_back(Send{id, ReplicaLacks{missing}});
}

JournalEvent waits(const Peer& peer, const std::string& missing) {
  return events::ShardWaits{who(peer), peer.hello.pid, text_of(peer.hello.lanes), missing};
}

}  // namespace

const std::string& party(const Hello& hello) { return hello.replica.empty() ? hello.name : hello.replica; }

std::string place_of(const Hello& hello) { return "shard " + std::to_string(hello.shard) + " of replica " + hello.replica; }

std::vector<PeerId> replica_of(const Roster& roster, const Peer& peer) {
  if (roster.options.shards == 1) return {peer.hello.peer};
  std::vector<const Peer*> found;
  for (const auto& [id, other] : roster.peers)
    if (other.ordinal == peer.ordinal) found.push_back(&other);
  std::ranges::sort(found, {}, [](const Peer* each) { return each->hello.shard; });
  std::vector<PeerId> ids;
  for (const auto* each : found) ids.push_back(each->hello.peer);
  return ids;
}

bool is_whole(const Roster& roster, const Peer& peer) { return replica_of(roster, peer).size() == roster.options.shards; }

bool waits_for_replica(const Roster& roster, PeerId id) {
  if (roster.options.shards == 1) return false;
  const auto known = roster.peers.find(id);
  return known != roster.peers.end() && !is_whole(roster, known->second);
}

std::string missing_in(const Roster& roster, const Peer& peer) {
  std::set<std::uint32_t> there;
  for (const auto id : replica_of(roster, peer)) there.insert(roster.peers.at(id).hello.shard);
  std::vector<std::uint32_t> missing;
  for (std::uint32_t shard = 0; shard < roster.options.shards; ++shard)
    if (!there.contains(shard)) missing.push_back(shard);
  return shards_text(missing);
}

std::string lacking(const Roster& roster) {
  std::string text;
  if (roster.options.shards == 1) return text;
  for (const auto& [ordinal, peers] : by_replica(roster))
    if (peers.size() < roster.options.shards)
      text += (text.empty() ? "" : ", ") + std::string{"replica "} + peers.front()->hello.replica + " lacks " +
              missing_in(roster, *peers.front());
  return text;
}

std::optional<std::uint64_t> replica_without(const Roster& roster, const Hello& hello) {
  if (roster.options.shards == 1) return std::nullopt;
  for (const auto& [ordinal, peers] : by_replica(roster))
    if (peers.size() < roster.options.shards && peers.front()->hello.replica == hello.replica &&
        std::ranges::none_of(peers, [&](const Peer* each) { return each->hello.shard == hello.shard; }))
      return ordinal;
  return std::nullopt;
}

std::optional<Error> misplaced(const Roster& roster, const Hello& hello, Instant now) {
  const auto shards = roster.options.shards;
  if (shards == 1) return std::nullopt;
  if (hello.replica.empty() || hello.replica.size() > 64)
    return Error{ErrorName::Usage,
                 "this run has " + std::to_string(shards) + " shards: `--shard` and `--replica` say which one, and of what"};
  if (hello.shard >= shards)
    return Error{ErrorName::Usage, "this run has " + std::to_string(shards) + " shards, 0 to " + std::to_string(shards - 1) +
                                       ", and no shard " + std::to_string(hello.shard) + ": give `--shards " + std::to_string(shards) +
                                       "` for a whole replica"};
  if (roster.peers.size() >= std::size_t{MAX_PEERS} * shards) return Error{ErrorName::RunFull, "too many peers wait for their replicas"};
  for (const auto& [id, holder] : roster.peers) {
    if (holder.hello.replica != hello.replica || holder.hello.shard != hello.shard || holder.absent) continue;
    const bool whole = is_whole(roster, holder);
    if (!whole || now - holder.heard <= roster.options.heartbeat_limit / 2)
      return Error{ErrorName::Usage, place_of(hello) + " is held by " + holder.hello.name + " already; " +
                                         (whole ? "no other one of it is free: " : "free is " + missing_in(roster, holder) + ", or else ") +
                                         "give `--replica` another name"};
  }
  return std::nullopt;
}

std::size_t whole_replicas(const Roster& roster) {
  if (roster.options.shards == 1) return roster.peers.size();
  return static_cast<std::size_t>(
      std::ranges::count_if(by_replica(roster), [&](const auto& entry) { return entry.second.size() == roster.options.shards; }));
}

void tell_replica(const Roster& roster, const Peer& newcomer, Effects& effects) {
  const auto replica = replica_of(roster, newcomer);
  if (replica.size() < roster.options.shards) {
    const auto missing = missing_in(roster, newcomer);
    effects.emplace_back(waits(newcomer, missing));
    return tell_missing(roster, newcomer, missing, effects);
  }
  if (roster.options.shards > 1) tell_missing(roster, newcomer, {}, effects);
  for (const auto id : replica) {
    const auto& peer = roster.peers.at(id);
    effects.emplace_back(events::PeerJoining{who(peer), peer.hello.pid, text_of(peer.hello.lanes)});
  }
}

void tell_who_stays(const Roster& roster, std::uint64_t ordinal, Effects& effects) {
  const auto left = std::ranges::find_if(roster.peers, [&](const auto& entry) { return entry.second.ordinal == ordinal; });
  if (left == roster.peers.end()) return;
  const auto missing = missing_in(roster, left->second);
  for (const auto id : replica_of(roster, left->second)) effects.emplace_back(waits(roster.peers.at(id), missing));
  tell_missing(roster, left->second, missing, effects);
}

std::vector<std::pair<PeerId, Error>> waited_in_vain(const Roster& roster, Duration limit, Instant now) {
  std::vector<std::pair<PeerId, Error>> found;
  if (roster.options.shards == 1) return found;
  for (const auto& [ordinal, peers] : by_replica(roster)) {
    const auto first = *std::ranges::min_element(peers, {}, [](const Peer* each) { return each->greeted; });
    if (peers.size() == roster.options.shards || now - first->greeted <= limit) continue;
    for (const auto* peer : peers)
      found.emplace_back(peer->hello.peer,
                         Error{ErrorName::TooFewPeers, "its replica " + peer->hello.replica + " lacks " + missing_in(roster, *peer) +
                                                           " after " + format_duration(limit)});
  }
  return found;
}

Digest combined(std::span<const Digest> shards) { return kernels::combine_digests(shards, shards.size()); }

Digest whole_digest(std::span<const std::vector<Digest>> shards) {
  if (shards.size() == 1) return kernels::digest_of_parts(shards.front());
  std::vector<Digest> fragments;
  for (std::size_t fragment = 0; fragment < shards.front().size(); ++fragment) {
    std::vector<Digest> parts;
    for (const auto& shard : shards) parts.push_back(shard[fragment]);
    fragments.push_back(combined(parts));
  }
  return kernels::digest_of_parts(fragments);
}

void note_digest(Roster& roster) {
  std::vector<std::vector<Digest>> parts;
  for (const auto& shard : roster.shards) parts.push_back(shard.parts);
  roster.digest = whole_digest(parts);
}

void note_saved_state(Roster& roster, const Digest& whole, std::span<const Digest> shards) {
  roster.digest = whole;
  for (std::size_t shard = 0; shard < roster.shards.size(); ++shard) {
    auto& state = roster.shards[shard].state = std::nullopt;
    if (roster.shards.size() == 1) state = whole;
    else if (shard < shards.size()) state = shards[shard];
    roster.shards[shard].parts.clear();
  }
}

}  // namespace prime::membership

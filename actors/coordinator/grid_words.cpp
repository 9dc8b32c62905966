#include "actors/coordinator/grid_words.hpp"

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "actors/coordinator/progress.hpp"
#include "actors/coordinator/step_begin.hpp"
#include "kernels/digest/digest.hpp"

namespace prime::coordinator {
namespace {

/// What is said by all peers of a replica before the replica has said it: the words must be about the same.
auto subject(const Seated&) { return 0; }
auto subject(const Ready& m) { return std::tuple{m.step, m.base, m.weight > 0, m.fragments}; }
auto subject(const StateSaved&) { return 0; }
auto subject(const FinalReport&) { return 0; }

Digest join(Grid& grid, std::vector<Digest> shards) {
  const auto whole = combined(shards);
  grid.parts[whole] = std::move(shards);
  return whole;
}

/// What the shards hold, as one. Where one of them divides its own in another way the whole has no fragments.
template <class Message>
Fetched held_by_all(Grid& grid, const std::vector<Message>& held) {
  const auto fragments = grid.run.options.fragments;
  const auto parts_of = [](const Message& m) { return m.parts.empty() ? std::vector{m.state} : m.parts; };
  const auto fits = [&](const Message& m) {
    const auto parts = parts_of(m);
    return parts.size() == fragments && kernels::digest_of_parts(parts) == m.state;
  };
  Fetched whole{held.front().revision, {}};
  std::vector<Digest> states;
  for (const auto& m : held) {
    whole.revision = std::min(whole.revision, m.revision);  // of unequal ones the digest is nobody's: then they fetch
    states.push_back(m.state);
  }
  whole.state = join(grid, states);
  if (!std::ranges::all_of(held, fits)) return whole;
  for (std::uint32_t fragment = 0; fragment < fragments; ++fragment) {
    std::vector<Digest> shards;
    for (const auto& m : held) shards.push_back(parts_of(m)[fragment]);
    whole.parts.push_back(join(grid, std::move(shards)));
  }
  whole.state = kernels::digest_of_parts(whole.parts);
  grid.parts[whole.state] = std::move(states);
  return whole;
}

/// The shards of a replica train on the same samples: what one of them tells counts for all who do not. Of two that differ none is the
/// run's, unless the run's is that of both.
DataIdentity data_of(const std::vector<Seated>& said) {
  DataIdentity one;
  for (const auto& m : said) {
    if (!m.data.told() || m.data.digest == one.digest) continue;
    if (!one.told()) one = m.data;
    else one = {combined(std::array{one.digest, m.data.digest}), one.summary + " on one shard and " + m.data.summary + " on another"};
  }
  return one;
}

Seated as_one(Grid& grid, const std::vector<Seated>& said) {
  auto one = said.front();
  const auto held = held_by_all(grid, said);
  std::tie(one.revision, one.state, one.parts) = std::tie(held.revision, held.state, held.parts);
  std::vector<Digest> layouts;
  one.elements = 0;
  one.data = data_of(said);
  for (const auto& m : said) {
    layouts.push_back(m.layout);
    one.elements += m.elements;
  }
  one.layout = combined(layouts);
  return one;
}

/// Each has trained on its own tokens.
Ready as_one(Grid&, const std::vector<Ready>& said) {
  auto one = said.front();
  double loss = 0;
  double speed = 0;
  one.weight = 0;
  for (const auto& m : said) {
    one.weight += m.weight;
    loss += m.loss.value() * static_cast<double>(m.weight);
    speed += m.tokens_per_s.value();
    if (one.held_out.tokens == 0) one.held_out = m.held_out;  // all shards evaluate together
  }
  if (one.weight > 0) one.loss = Real{loss / static_cast<double>(one.weight)};
  one.tokens_per_s = Real{speed};
  return one;
}

Vote as_one(Grid& grid, const std::map<std::uint32_t, Vote>& said) {
  Vote one{said.begin()->second.op, {}, 0, 0};
  std::vector<Digest> shards;
  for (const auto& [shard, m] : said) {
    shards.push_back(m.state);
    one.wire_bytes += m.wire_bytes;
    one.reduce_ns = std::max(one.reduce_ns, m.reduce_ns);
  }
  one.state = join(grid, std::move(shards));
  return one;
}

/// A model is saved when all its shards are.
StateSaved as_one(Grid&, const std::vector<StateSaved>& said) {
  auto one = said.front();
  for (const auto& m : said)
    if (one.problem.empty()) one.problem = m.problem;
  return one;
}

FinalReport as_one(Grid&, const std::vector<FinalReport>& said) {
  auto one = said.front();
  for (const auto& m : said) {
    if (one.held_out.tokens == 0) one.held_out = m.held_out;
    if (one.sample.empty()) one.sample = m.sample;
    if (one.problem.empty()) one.problem = m.problem;
  }
  return one;
}

}  // namespace

std::string Words::heard(std::uint64_t key, std::uint32_t shard, const FromPeer& message) {
  return std::visit([&](const auto& m) { return hear(key, shard, m); }, message);
}

void Words::once_whole(std::uint64_t key) {
  if (g_.replicas.at(key).whole) once_all_said(key, &ShardPeer::seated);
}

std::string Words::beat(Replica& replica, PeerId from, const Heartbeat& beat) {
  std::uint64_t moved_bytes = 0;
  for (auto& shard : replica.shards) {
    if (shard && shard->hello.peer == from) shard->moved_bytes = beat.moved_bytes;
    if (shard) moved_bytes += shard->moved_bytes;
  }
  effects_.emplace_back(Send{from, HeartbeatSeen{g_.run.view.epoch}});
  const auto known = replica.whole ? g_.run.peers.find(replica.lead()) : g_.run.peers.end();
  if (known != g_.run.peers.end()) membership::note_moved(known->second, moved_bytes, now_);
  const bool comes_back = known != g_.run.peers.end() && known->second.absent && all_here(replica) &&
                          now_ - last_heard(replica) <= g_.run.options.heartbeat_limit;
  return comes_back ? rows_.forward(Received{replica.lead(), Heartbeat{0, moved_bytes}}) : std::string{};
}

std::string Words::hear(std::uint64_t key, std::uint32_t shard, const Seated& m) {
  auto& peer = *g_.replicas.at(key).shards[shard];
  peer.elements = m.elements;
  peer.trainer_pid = m.trainer_pid;
  peer.holds = {m.revision, m.state, m.parts};
  return note(key, shard, &ShardPeer::seated, m);
}

std::string Words::hear(std::uint64_t key, std::uint32_t shard, const Fetched& m) {
  auto& peer = *g_.replicas.at(key).shards[shard];
  peer.holds = m;
  if (!peer.asked || m.revision != peer.asked->revision || m.state != peer.asked->state) return "a fetch that nobody waits for";
  peer.fetched = m;
  return once_all_fetched(key);
}

std::string Words::hear(std::uint64_t key, std::uint32_t shard, const Ready& m) {
  auto& replica = g_.replicas.at(key);
  replica.shards[shard]->trainer_pid = m.trainer_pid;
  // It was told by now to begin anew.
  if (m.step == replica.begun.step && m.attempt < replica.begun.attempt) {
    effects_.emplace_back(Probe::ReadyOfVoidAttempt);
    return "a readiness of an attempt that is void";
  }
  return note(key, shard, &ShardPeer::ready, m);
}

std::string Words::hear(std::uint64_t key, std::uint32_t shard, const Vote& m) {
  auto& replica = g_.replicas.at(key);
  std::erase_if(replica.votes, [&](const auto& entry) { return g_.run.round_of(entry.first) == nullptr; });
  if (!replica.whole || g_.run.round_of(m.op) == nullptr) return "a vote on another operation";
  auto& votes = replica.votes[m.op];
  votes.insert_or_assign(shard, m);
  if (votes.size() < replica.shards.size()) {
    effects_.emplace_back(Probe::WordOfReplicaIncomplete);
    return "the others of its replica have yet to vote";
  }
  return rows_.forward(Received{replica.lead(), as_one(g_, votes)});
}

std::string Words::hear(std::uint64_t key, std::uint32_t shard, const StateSaved& m) { return note(key, shard, &ShardPeer::saved, m); }
std::string Words::hear(std::uint64_t key, std::uint32_t shard, const FinalReport& m) { return note(key, shard, &ShardPeer::report, m); }
std::string Words::hear(std::uint64_t key, std::uint32_t shard, const FetchFailed& m) {
  auto& peer = *g_.replicas.at(key).shards[shard];
  if (!peer.asked || m.revision != peer.asked->revision || m.donor != peer.asked->donor) return "a fetch that nobody waits for";
  peer.fetch_failed = m.error;
  return once_all_fetched(key);
}

std::string Words::hear(std::uint64_t key, std::uint32_t /*shard*/, ReduceFailed m) {
  m.suspect = lead_of(m.suspect);
  return passed_on(key, m);
}

std::string Words::hear(std::uint64_t key, std::uint32_t /*shard*/, const InDoubt& m) { return passed_on(key, m); }
std::string Words::hear(std::uint64_t key, std::uint32_t shard, const LinkMeasured& m) {
  return shard == 0 ? passed_on(key, m) : "a link that nobody asked for";
}

std::string Words::hear(std::uint64_t key, std::uint32_t shard, const LaneRelayed& m) {
  const auto name = [&](PeerId peer) {
    const auto place = g_.places.find(peer);
    return place == g_.places.end() ? to_string(peer) : g_.replicas.at(place->second.replica).shards[place->second.shard]->hello.name;
  };
  const auto& replica = g_.replicas.at(key);
  if (!replica.whole) return "a lane of who is no member";
  const bool direct = m.through == PeerId{};
  const auto from = who(replica, replica.shards[shard]->hello);
  if (direct) effects_.emplace_back(events::LaneDirect{from, name(m.to)});
  else effects_.emplace_back(events::LaneRelayed{from, name(m.to), name(m.through)});
  return shard == 0 ? passed_on(key, m) : "a lane of another shard than the first";
}

std::string Words::hear(std::uint64_t key, std::uint32_t /*shard*/, const TrainerRestarted& m) {
  auto& replica = g_.replicas.at(key);
  const auto known = replica.whole ? g_.run.peers.find(replica.lead()) : g_.run.peers.end();
  if (known == g_.run.peers.end() || known->second.seat != Seat::Member) return "a trainer of who is no member was started again";
  const auto& work = g_.run.round().work.at(replica.lead());
  const bool at_it = work.contributes && !work.ready && m.step == work.begun && m.attempt >= replica.begun.attempt;
  if (!at_it) return "a trainer was started again, and the others of its replica need not be";
  replica.begun.attempt = std::max(replica.begun.attempt, m.attempt) + 1;
  for (auto& peer : replica.shards) peer->ready.reset();
  const auto& members = g_.run.view.members;
  const auto at = std::ranges::find(members, replica.lead(), &Member::id);
  rows_.carry(Send{replica.lead(), BeginStep{.view = g_.run.view,
                                             .step = work.begun,
                                             .base = g_.run.revision,
                                             .rank = static_cast<std::uint32_t>(at - members.begin()),
                                             .first_sample = work.first_sample,
                                             .fragments = outer_step::lacking(g_.run, replica.lead())}});
  return replica.name + " begins step " + std::to_string(m.step.value) + " anew";
}

std::string Words::hear(std::uint64_t, std::uint32_t, const LeaseUsed&) { return "replicas have no leases of their own"; }
std::string Words::hear(std::uint64_t, std::uint32_t, const Hello&) { return {}; }
std::string Words::hear(std::uint64_t, std::uint32_t, const Heartbeat&) { return {}; }
std::string Words::hear(std::uint64_t, std::uint32_t, const Deathrattle&) { return {}; }

PeerId Words::lead_of(PeerId peer) const {
  const auto place = g_.places.find(peer);
  if (place == g_.places.end() || !g_.replicas.at(place->second.replica).whole) return peer;
  return g_.replicas.at(place->second.replica).lead();
}

std::string Words::passed_on(std::uint64_t key, FromPeer message) {
  const auto& replica = g_.replicas.at(key);
  if (!replica.whole) return "a message of a replica that is not whole";
  return rows_.forward(Received{replica.lead(), std::move(message)});
}

template <class Message>
std::string Words::note(std::uint64_t key, std::uint32_t shard, std::optional<Message> ShardPeer::*slot, const Message& message) {
  auto& replica = g_.replicas.at(key);
  (*replica.shards[shard]).*slot = message;
  return replica.whole ? once_all_said(key, slot) : replica.shards[shard]->hello.name + " waits for the others of its replica";
}

template <class Message>
std::string Words::once_all_said(std::uint64_t key, std::optional<Message> ShardPeer::*slot) {
  const auto found = g_.replicas.find(key);
  if (found == g_.replicas.end()) return {};
  std::vector<Message> said;
  for (const auto& peer : found->second.shards) {
    const auto& message = (*peer).*slot;
    if (!message || (!said.empty() && subject(said.front()) != subject(*message))) {
      effects_.emplace_back(Probe::WordOfReplicaIncomplete);
      return "the others of its replica have yet to say it";
    }
    said.push_back(*message);
  }
  auto reason = rows_.forward(Received{found->second.lead(), as_one(g_, said)});
  if (const auto still = g_.replicas.find(key); still != g_.replicas.end())
    for (auto& peer : still->second.shards) ((*peer).*slot).reset();
  return reason;
}

std::string Words::once_all_fetched(std::uint64_t key) {
  auto& replica = g_.replicas.at(key);
  const auto known = g_.run.peers.find(replica.lead());
  if (!replica.whole || known == g_.run.peers.end()) return "a fetch of a replica that is not whole";
  std::vector<Fetched> held;
  std::optional<Error> failed;
  for (const auto& peer : replica.shards) {
    if (!peer->fetched && !peer->fetch_failed) {
      effects_.emplace_back(Probe::FetchOfReplicaIncomplete);
      return "the others of its replica have yet to fetch";
    }
    if (peer->fetch_failed && !failed) failed = peer->fetch_failed;
    held.push_back(peer->holds);
  }
  for (auto& peer : replica.shards) peer->asked.reset();
  const auto whole = held_by_all(g_, held);
  const auto& fetch = known->second.fetch;
  if (!failed) return rows_.forward(Received{replica.lead(), Fetched{fetch.revision, whole.state, whole.parts}});
  auto& seated = known->second.seated;
  std::tie(seated.revision, seated.state, seated.parts) = std::tie(whole.revision, whole.state, whole.parts);
  return rows_.forward(Received{replica.lead(), FetchFailed{fetch.donor, fetch.revision, *failed}});
}

}  // namespace prime::coordinator

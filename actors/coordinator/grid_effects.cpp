#include "actors/coordinator/grid_effects.hpp"

#include <algorithm>

#include "actors/coordinator/commits.hpp"
#include "actors/membership/departures.hpp"
#include "kernels/digest/digest.hpp"
#include "messages/assert.hpp"

namespace prime::coordinator {
void Unfolding::carry(const Effect& effect) {
  std::visit(overloaded{
                 [&](const JournalEvent& e) { record(e); },
                 [&](const Send& e) { tell(e.to, e.message); },
                 [&](const Fence& e) {
                   const auto* replica = whole(e.peer);
                   if (replica == nullptr) return effects_.push_back(e);
                   for (const auto& peer : replica->shards) effects_.emplace_back(Fence{peer->hello.peer});
                 },
                 [&](const LookFor& e) {
                   const auto* replica = whole(e.peer);
                   if (replica == nullptr) return effects_.push_back(e);
                   for (const auto& peer : replica->shards) effects_.emplace_back(LookFor{peer->hello.peer, peer->hello.lanes});
                 },
                 [&](const Finish& e) { effects_.emplace_back(e); },
                 [&](Probe e) { effects_.emplace_back(e); },
             },
             effect);
}

void Unfolding::note_state() {
  const auto& run = grid_.run;
  if (!run.digest || run.parts.empty() || grid_.parts.contains(*run.digest)) return;
  auto& states = grid_.parts[*run.digest];
  for (std::uint32_t shard = 0; shard < run.options.shards; ++shard) {
    std::vector<Digest> own;
    for (const auto& digest : run.parts) own.push_back(part(digest, shard));
    states.push_back(kernels::digest_of_parts(own));
  }
}

void Unfolding::catch_up(const Replica& replica, std::uint32_t shard) {
  for (const auto& decided : commits::in_order(grid_.run))
    effects_.emplace_back(Send{replica.shards[shard]->hello.peer, unfolded(decided.commit, replica, shard)});
}

void Unfolding::send_away(const Hello& peer, const Error& cause) {
  if (!dismissed_.insert(peer.peer).second) return;
  effects_.emplace_back(Send{peer.peer, Dismissed{membership::told(grid_.run, cause)}});
  effects_.emplace_back(Fence{peer.peer});
}

void Unfolding::speak_of(PeerId speaker, const Error& to_others) { speaker_ = {speaker, to_others}; }

Snapshot Unfolding::of_peers(Snapshot decision) {
  const auto& run = grid_.run;
  std::set<Digest> decided{run.parts.begin(), run.parts.end()};
  if (run.digest) decided.insert(*run.digest);
  if (run.checkpoint) decided.insert(run.checkpoint->state);
  if (run.plan.origin) decided.insert(run.plan.origin->state);
  for (const auto& round : run.rounds)
    if (round.last) decided.insert({round.last->commit.state, round.last->commit.part});
  auto named = decided;  // anybody may yet found the state, or fetches it still
  for (const auto& [lead, peer] : run.peers) {
    named.insert({peer.seated.state, peer.fetch.state});
    named.insert(peer.seated.parts.begin(), peer.seated.parts.end());
  }
  for (const auto& round : run.rounds)  // what is voted for may be committed
    if (round.operation)
      for (const auto& [lead, vote] : round.operation->votes) named.insert(vote.state);
  std::erase_if(grid_.parts, [&](const auto& entry) { return !named.contains(entry.first); });
  for (const auto& [digest, parts] : grid_.parts)
    if (decided.contains(digest)) decision.shard_digests.emplace(digest, parts);
  for (auto& kept : decision.members)
    for (const auto& peer : whole(kept.member.id)->shards) {
      const auto& hello = peer->hello;
      kept.parts.push_back(
          {Member{hello.peer, hello.name, hello.lanes, kept.member.ordinal}, hello.pid, peer->trainer_pid, peer->elements});
    }
  return decision;
}

Replica* Unfolding::whole(PeerId lead) const {
  const auto place = grid_.places.find(lead);
  if (place == grid_.places.end()) return nullptr;
  auto& replica = grid_.replicas.at(place->second.replica);
  return replica.whole ? &replica : nullptr;
}

void Unfolding::tell(PeerId lead, const ToPeer& message) {
  auto* const replica = whole(lead);
  if (replica == nullptr) {
    effects_.emplace_back(Send{lead, message});
    return;
  }
  // Each was welcomed when it came, and hears of its own heartbeats.
  if (std::holds_alternative<Welcome>(message) || std::holds_alternative<HeartbeatSeen>(message)) return;
  if (const auto* begin = std::get_if<BeginStep>(&message)) {
    auto& begun = replica->begun;
    const bool same = begun.step == begin->step && begun.contribute == begin->contribute && begun.first_sample == begin->first_sample;
    const auto attempt = same ? begun.attempt : 0;
    begun = *begin;
    begun.attempt = attempt;
  }
  for (std::uint32_t shard = 0; shard < replica->shards.size(); ++shard) {
    auto& peer = *replica->shards[shard];
    if (const auto* farewell = std::get_if<Dismissed>(&message)) dismiss(peer, farewell->cause);
    // The links of the first stand for those of the others: the peers of a replica are near each other.
    else if (shard == 0 || !std::holds_alternative<MeasureLink>(message)) {
      auto own = unfolded(message, *replica, shard);
      if (const auto* fetch = std::get_if<FetchState>(&own)) {
        peer.asked = *fetch;
        peer.fetched.reset();
        peer.fetch_failed.reset();
      }
      effects_.emplace_back(Send{peer.hello.peer, std::move(own)});
    }
  }
}

void Unfolding::dismiss(const ShardPeer& peer, const Error& cause) {
  if (!dismissed_.insert(peer.hello.peer).second) return;
  const bool other = speaker_ && speaker_->first != peer.hello.peer && cause.name == ErrorName::PeerLost &&
                     grid_.places.at(speaker_->first).replica == grid_.places.at(peer.hello.peer).replica;
  effects_.emplace_back(Send{peer.hello.peer, Dismissed{other ? membership::told(grid_.run, speaker_->second) : cause}});
}

/// A line about a replica is one about each of its peers: who reads the journal finds every peer there, as in any other run.
void Unfolding::record(const JournalEvent& event) {
  const auto unfold = [&](const auto& of_replica) {
    using Event = std::remove_cvref_t<decltype(of_replica)>;
    if constexpr (OneOf<Event, events::LaneRelayed, events::LaneDirect>) {
      return;  // each shard's peer tells of its own
    } else if constexpr (std::is_same_v<Event, events::LinkRate>) {
      auto own = of_replica;  // the first shard's peers measure
      if (const auto* replica = whole(own.who.peer)) own.who = who(*replica, replica->shards.front()->hello);
      effects_.emplace_back(std::move(own));
    } else if constexpr (OneOf<Event, events::FinalStateSaved, events::FinalSaveFailed>) {
      effects_.push_back(event);  // a model is saved as a whole, or it is not
    } else if constexpr (requires { of_replica.who; }) {
      const auto* replica = whole(of_replica.who.peer);
      if (replica == nullptr) return effects_.push_back(event);
      for (std::uint32_t shard = 0; shard < replica->shards.size(); ++shard) {
        auto own = of_replica;
        own.who = who(*replica, replica->shards[shard]->hello);
        make_own(own, *replica, shard);
        effects_.emplace_back(std::move(own));
      }
    } else {
      effects_.push_back(event);
    }
  };
  std::visit(unfold, event);
}

template <class Event>
void Unfolding::make_own(Event& event, const Replica& replica, std::uint32_t shard) const {
  const auto& peer = *replica.shards[shard];
  if constexpr (std::is_same_v<Event, events::PeerJoining>) {
    event.pid = peer.hello.pid;
    event.address = text_of(peer.hello.lanes);
  }
  if constexpr (std::is_same_v<Event, events::StateFounded>) event.elements = peer.elements;
  if constexpr (std::is_same_v<Event, events::PeerReady>)
    if (peer.ready) {
      event.weight = peer.ready->weight;
      event.loss = peer.ready->loss.value();
      event.tokens_per_s = peer.ready->tokens_per_s.value();
      event.data_wait = data_wait_of(*peer.ready);
    }
  if constexpr (OneOf<Event, events::PeerSeated, events::PeerReady>) event.trainer_pid = peer.trainer_pid;
  if constexpr (requires { event.digest; }) event.digest = part(event.digest, shard);
  if constexpr (std::is_same_v<Event, events::PeerAbsent>) event.reason.insert(0, with_whom(replica, shard));
  if constexpr (OneOf<Event, events::PeerLost, events::PeerLeft, events::FetchFailed>)
    event.reason.text.insert(0, with_whom(replica, shard));
}

/// The others went because of one, who is named to them.
std::string Unfolding::with_whom(const Replica& replica, std::uint32_t shard) const {
  auto first = replica.lost_with;
  for (std::uint32_t i = 0; i < replica.shards.size() && !first; ++i)
    if (now_ - replica.shards[i]->heard > grid_.run.options.heartbeat_limit) first = i;
  return !first || first == shard ? "" : "with " + replica.shards[*first]->hello.name + ": ";
}

ToPeer Unfolding::unfolded(const ToPeer& message, const Replica& replica, std::uint32_t shard) {
  auto own = message;
  std::visit(overloaded{
                 [&](FetchState& m) {
                   const auto& donor = peer_of(m.donor, shard).hello;
                   m.donor = donor.peer;
                   m.lanes = donor.lanes;
                   m.relays = column(m.relays, shard);
                   m.state = part(m.state, shard);
                   for (auto& digest : m.parts) digest = part(digest, shard);
                 },
                 [&](BeginStep& m) {
                   m.view = column(m.view, shard);
                   m.attempt = replica.begun.attempt;
                 },
                 [&](StartReduce& m) {
                   m.contributions = column(m, shard);
                   m.view = column(m.view, shard);
                   m.elements = replica.shards[shard]->elements;
                 },
                 [&](Commit& m) {
                   m.state = part(m.state, shard);
                   m.part = part(m.part, shard);
                 },
                 [&](RunDone& m) { m.state = part(m.state, shard); },
                 [](auto&) {},
             },
             own);
  return own;
}

const Digest& Unfolding::part(const Digest& whole, std::uint32_t shard) const {
  const auto found = grid_.parts.find(whole);
  PRIME_ASSERT(found != grid_.parts.end(), "a digest of a whole model came from those of its shards");
  return found->second[shard];
}

const ShardPeer& Unfolding::peer_of(PeerId lead, std::uint32_t shard) const { return *whole(lead)->shards[shard]; }

View Unfolding::column(const View& view, std::uint32_t shard) {
  auto& made = grid_.views[shard];
  const std::pair of{view.epoch, view.members.size()};  // within an epoch members only come
  if (made.of != of) made = {of, column(view.members.list(), shard)};
  return View{view.epoch, made.list};
}

std::vector<Member> Unfolding::column(const std::vector<Member>& leads, std::uint32_t shard) const {
  std::vector<Member> members;
  for (const auto& lead : leads) {
    const auto& hello = peer_of(lead.id, shard).hello;
    members.push_back(Member{hello.peer, hello.name, hello.lanes, lead.ordinal});
  }
  return members;
}

SharedList<Contribution> Unfolding::column(const StartReduce& reduce, std::uint32_t shard) {
  auto& made = grid_.contributions[shard];
  if (made.of != reduce.op) {
    std::vector<Contribution> contributions;
    for (const auto& [lead, weight] : reduce.contributions) contributions.push_back({peer_of(lead, shard).hello.peer, weight});
    made = {reduce.op, std::move(contributions)};
  }
  return made.list;
}

}  // namespace prime::coordinator

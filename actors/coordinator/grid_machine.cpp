#include "actors/coordinator/grid_machine.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "actors/coordinator/departures.hpp"
#include "actors/coordinator/grid_effects.hpp"
#include "actors/coordinator/membership_machine.hpp"
#include "actors/coordinator/rollback_machine.hpp"
#include "actors/coordinator/waits.hpp"
#include "kernels/digest/digest.hpp"

namespace prime::coordinator {
namespace {

std::string name_of(const Replica& replica, std::uint32_t shard) {
  return "shard " + std::to_string(shard) + " of replica " + replica.name;
}

bool is_complete(const Replica& replica) {
  return std::all_of(replica.shards.begin(), replica.shards.end(), [](const auto& peer) { return peer.has_value(); });
}

bool all_here(const Replica& replica) {
  return std::all_of(replica.shards.begin(), replica.shards.end(), [](const auto& peer) { return peer->here; });
}

Instant last_heard(const Replica& replica) {
  auto heard = Instant::max();
  for (const auto& peer : replica.shards) heard = std::min(heard, peer->heard);
  return heard;
}

ShardPeer greeting(const Hello& hello, Instant now) {
  ShardPeer peer;
  peer.hello = hello;
  peer.heard = now;
  return peer;
}

std::string shards_text(const Named& shards) { return (shards.count > 1 ? "shards " : "shard ") + to_string(shards); }

std::string missing_in(const Replica& replica) {
  Named missing;
  for (std::uint32_t shard = 0; shard < replica.shards.size(); ++shard)
    if (const auto& peer = replica.shards[shard]; !peer || !peer->here) missing.add(std::to_string(shard));
  return shards_text(missing);
}

Record shard_record(const char* event, const Replica& replica, const Hello& hello) {
  return Record{event}
      .with("peer", to_string(hello.peer))
      .with("name", hello.name)
      .with("replica", replica.name)
      .with("shard", std::uint64_t{hello.shard});
}

/// What is said by all peers of a replica before the replica has said it: the words must be about the same.
auto subject(const Seated&) { return 0; }
auto subject(const Ready& m) { return std::tuple{m.step, m.base, m.weight > 0}; }
auto subject(const Vote& m) { return m.op; }
auto subject(const FinalReport&) { return 0; }

/// Handles one event.
class Folding {
 public:
  Folding(Grid& grid, Instant now, std::vector<Effect>& effects) : g_(grid), now_(now), effects_(effects), down_(grid, now, effects) {}
  ~Folding() { down_.keep(); }
  Folding(const Folding&) = delete;
  Folding& operator=(const Folding&) = delete;

  std::string operator()(const Received& event) {
    if (const auto* hello = std::get_if<Hello>(&event.message)) return greeted(event.from, *hello);
    const auto place = g_.places.find(event.from);
    if (place == g_.places.end()) return membership::without_seat(g_.run, event.from, effects_);
    const auto [key, shard] = place->second;
    auto& replica = g_.replicas.at(key);
    auto& peer = *replica.shards[shard];
    // It is cut off, and will say it again when it is back.
    if (!peer.here) return "a message over a connection that has ended";
    peer.heard = now_;
    note_silence(replica);
    if (const auto* farewell = std::get_if<Deathrattle>(&event.message)) return said_goodbye(replica, shard, *farewell);
    if (std::holds_alternative<Heartbeat>(event.message)) return beat(replica, event.from);
    // Once all of them are back, each of them says it again.
    if (replica.whole && !all_here(replica)) return "its replica waits for the return of another peer";
    return std::visit([&](const auto& message) { return hear(key, shard, message); }, event.message);
  }

  std::string operator()(const ConnectionLost& event) {
    const auto place = g_.places.find(event.peer);
    if (place == g_.places.end()) return "a connection of who has no seat was lost";
    const auto [key, shard] = place->second;
    auto& replica = g_.replicas.at(key);
    if (!replica.whole) {
      auto reason = leave_unformed(key, shard, Error{ErrorName::PeerLost, event.reason}, false);
      tell_who_stays(key);
      return reason;
    }
    if (!std::exchange(replica.shards[shard]->here, false)) return "a connection that was cut";
    auto reason = tear(key, shard, event.reason);
    if (const auto still = g_.replicas.find(key); still != g_.replicas.end()) tell_missing(still->second);
    return reason;
  }

  std::string operator()(const StopRequested& event) { return forward(event); }

  std::string operator()(const Coordinators& event) {
    for (const auto& [key, replica] : g_.replicas)
      for (const auto& peer : replica.shards)
        if (!replica.whole && peer) effects_.emplace_back(Send{peer->hello.peer, event});
    return forward(event);
  }

  std::string operator()(const Tick& event) {
    const auto& options = g_.run.options;
    const bool frozen = membership::was_frozen(g_.run, now_);
    std::vector<std::pair<Grid::Place, Error>> overdue;
    for (auto& [key, replica] : g_.replicas)
      for (std::uint32_t shard = 0; shard < replica.shards.size(); ++shard) {
        auto& peer = replica.shards[shard];
        if (frozen && peer) peer->heard = now_;
        if (replica.whole || !peer) continue;
        if (now_ - peer->heard > options.heartbeat_limit)
          overdue.emplace_back(Grid::Place{key, shard},
                               Error{ErrorName::Evicted, "no heartbeat for " + format_duration(now_ - peer->heard)});
        else if (now_ - replica.since > options.wait_limit)
          overdue.emplace_back(Grid::Place{key, shard},
                               Error{ErrorName::TooFewPeers, "its replica " + replica.name + " lacks " + missing_in(replica) + " after " +
                                                                 format_duration(options.wait_limit)});
      }
    for (const auto& [place, cause] : overdue) {
      down_.send_away(g_.replicas.at(place.replica).shards[place.shard]->hello, cause);
      leave_unformed(place.replica, place.shard, cause, false);
    }
    std::set<std::uint64_t> left_behind;
    for (const auto& [place, cause] : overdue) left_behind.insert(place.replica);
    for (const auto key : left_behind) tell_who_stays(key);
    return forward(event);
  }

 private:
  // The run ------------------------------------------------------------------------------------------------------------------

  std::string forward(const Event& event) {
    const bool restoring = g_.run.restoring.has_value();
    auto transition = step(std::move(g_.run), event, now_);
    g_.run = std::move(transition.state);
    for (const auto& effect : transition.effects) down_.carry(effect);
    settle(restoring);
    if (const auto* received = std::get_if<Received>(&event))
      if (const auto place = g_.places.find(received->from); place != g_.places.end()) note_silence(g_.replicas.at(place->second.replica));
    return std::move(transition.reason);
  }

  void settle(bool was_restoring) {
    if (g_.whole != g_.run.peers.size()) {
      std::vector<std::uint64_t> gone;
      for (const auto& [key, replica] : g_.replicas)
        if (replica.whole && !g_.run.peers.contains(replica.lead())) gone.push_back(key);
      for (const auto key : gone) dissolve(key);
    }
    if (!g_.torn.empty()) {
      std::erase_if(g_.torn, [&](std::uint64_t key) { return is_mended(key); });
      name_unformed();
    }
    if (g_.run.restoring || was_restoring) name_unformed();
    if (g_.run.phase >= Phase::Finishing) {
      const Error over{ErrorName::RunDone, "the last outer step was committed"};
      dismiss_unformed(g_.run.end_cause.value_or(over));
    } else if (!was_restoring && g_.run.restoring) {
      dismiss_unformed(rollback::cause(g_.run.checkpoint->revision));
    }
  }

  /// A seat that is kept is the replica's: the others come back, too, so that all hear what became of what was under way.
  bool is_mended(std::uint64_t key) {
    const auto found = g_.replicas.find(key);
    if (found == g_.replicas.end() || all_here(found->second)) return true;
    if (!g_.run.peers.at(found->second.lead()).absent) return false;  // what its loss means is decided at the next tick
    for (auto& peer : found->second.shards)
      if (!peer->back && std::exchange(peer->here, false)) effects_.emplace_back(Fence{peer->hello.peer});
    return false;
  }

  /// The run has sent it away, or lost it; who is still here takes part anew, and waits for who is not.
  void dissolve(std::uint64_t key) {
    const auto node = g_.replicas.extract(key);
    const auto& replica = node.mapped();
    const Error cause{ErrorName::Evicted,
                      replica.lost_with ? name_of(replica, *replica.lost_with) + " was lost" : "its replica was sent away"};
    const auto known =
        std::find_if(g_.run.gone.rbegin(), g_.run.gone.rend(), [&](const auto& gone) { return gone.first == replica.lead(); });
    const auto as_told = known != g_.run.gone.rend() ? known->second : cause;
    for (const auto& peer : replica.shards) {
      g_.places.erase(peer->hello.peer);
      if (peer->here) down_.send_away(peer->hello, cause);
      if (peer->hello.shard > 0) note_gone(g_.run, peer->hello.peer, as_told);
    }
    --g_.whole;
  }

  // Who comes and goes -------------------------------------------------------------------------------------------------------

  std::string greeted(PeerId from, const Hello& hello) {
    if (from != hello.peer) {
      const Error cause{ErrorName::ProtocolViolation, "the hello names another peer than the connection"};
      return membership::refuse(g_.run, from, hello, cause, effects_);
    }
    if (const auto place = g_.places.find(from); place != g_.places.end()) return returned(place->second, hello);
    // A peer that had no connection just then has not heard of it.
    if (g_.left.contains(from)) return membership::refuse(g_.run, from, hello, Error{ErrorName::PeerLost, "its replica left"}, effects_);
    auto refused = membership::refusal(g_.run, hello);
    if (!refused) refused = misplaced(hello);
    if (refused) return membership::refuse(g_.run, from, hello, *refused, effects_);
    const auto key = unformed(hello.replica).value_or(g_.next_replica);
    auto& replica = g_.replicas[key];
    if (key == g_.next_replica) {
      ++g_.next_replica;
      replica.name = hello.replica;
      replica.since = now_;
      replica.shards.resize(g_.run.options.shards);
    }
    replica.shards[hello.shard] = greeting(hello, now_);
    g_.places.emplace(from, Grid::Place{key, hello.shard});
    welcome(from);
    if (is_complete(replica)) return form(key);
    name_unformed();
    record_wait(replica, hello);
    tell_missing(replica);
    return hello.name + " waits for " + missing_in(replica) + " of replica " + replica.name;
  }

  void record_wait(const Replica& replica, const Hello& hello) {
    effects_.emplace_back(shard_record("shard_waits", replica, hello)
                              .with("pid", std::uint64_t{hello.pid})
                              .with("address", hello.lanes.host + ":" + std::to_string(hello.lanes.port))
                              .with("missing", missing_in(replica)));
  }

  /// To each peer that waits for the others of its replica, before it takes part or when all of them come back.
  void tell_missing(const Replica& replica) {
    for (const auto& peer : replica.shards)
      if (peer && peer->here && (!replica.whole || peer->back))
        effects_.emplace_back(Send{peer->hello.peer, ReplicaLacks{missing_in(replica)}});
  }

  void tell_whole(const Replica& replica) {
    for (const auto& peer : replica.shards) effects_.emplace_back(Send{peer->hello.peer, ReplicaLacks{}});
  }

  /// A peer has gone before its replica was whole: the others wait for one more, if any are left.
  void tell_who_stays(std::uint64_t key) {
    const auto found = g_.replicas.find(key);
    if (found == g_.replicas.end()) return;
    for (const auto& peer : found->second.shards)
      if (peer) record_wait(found->second, peer->hello);
    tell_missing(found->second);
  }

  void welcome(PeerId peer) {
    effects_.emplace_back(Send{peer, Welcome{g_.run.next_ordinal, g_.run.options.manifest}});
    if (!g_.run.coordinators.addresses.empty()) effects_.emplace_back(Send{peer, g_.run.coordinators});
  }

  [[nodiscard]] std::optional<std::uint64_t> unformed(const std::string& name) const {
    for (const auto& [key, replica] : g_.replicas)
      if (!replica.whole && replica.name == name) return key;
    return std::nullopt;
  }

  /// Who takes the place of a peer that was lost may be quicker than the news of that: it waits. A place whose peer was heard just now
  /// is taken.
  [[nodiscard]] std::optional<Error> misplaced(const Hello& hello) const {
    const auto shards = g_.run.options.shards;
    if (hello.replica.empty() || hello.replica.size() > 64)
      return Error{ErrorName::Usage,
                   "this run has " + std::to_string(shards) + " shards: `--shard` and `--replica` say which one, and of what"};
    if (hello.shard >= shards)
      return Error{ErrorName::Usage, "this run has " + std::to_string(shards) + " shards, 0 to " + std::to_string(shards - 1) +
                                         ", and no shard " + std::to_string(hello.shard) + ": give `--shards " + std::to_string(shards) +
                                         "` for a whole replica"};
    if (g_.places.size() >= std::size_t{MAX_PEERS} * shards) return Error{ErrorName::RunFull, "too many peers wait for their replicas"};
    for (const auto& [key, replica] : g_.replicas) {
      const auto& holder = replica.shards[hello.shard];
      if (replica.name != hello.replica || !holder || !holder->here) continue;
      if (!replica.whole || now_ - holder->heard <= g_.run.options.heartbeat_limit / 2)
        return Error{ErrorName::Usage,
                     name_of(replica, hello.shard) + " is held by " + holder->hello.name + " already; " +
                         (replica.whole ? "no other one of it is free: " : "free is " + missing_in(replica) + ", or else ") +
                         "give `--replica` another name"};
    }
    return std::nullopt;
  }

  /// From here on the run knows it.
  std::string form(std::uint64_t key) {
    auto& replica = g_.replicas.at(key);
    replica.whole = true;
    ++g_.whole;
    name_unformed();
    tell_whole(replica);
    auto hello = replica.shards.front()->hello;
    hello.name = replica.name;
    auto reason = forward(Received{hello.peer, hello});
    once_all_said(key, &ShardPeer::seated);
    return reason;
  }

  std::string returned(const Grid::Place& at, const Hello& hello) {
    const auto [key, shard] = at;
    auto& replica = g_.replicas.at(key);
    auto& peer = *replica.shards[shard];
    if (!replica.whole) {
      peer = greeting(hello, now_);
      welcome(hello.peer);
      tell_missing(replica);
      return hello.name + " greets again";
    }
    if (std::exchange(peer.here, false)) tear(key, shard, "its connection closed");
    if (!g_.replicas.contains(key) || !g_.run.peers.at(replica.lead()).absent) return greet_anew(hello);
    auto back = greeting(hello, now_);
    back.elements = peer.elements;
    back.trainer_pid = peer.trainer_pid;
    back.back = true;
    peer = std::move(back);
    name_unformed();
    if (!all_here(replica)) {
      tell_missing(replica);
      return hello.name + " is back, and waits for the others of replica " + replica.name;
    }
    tell_whole(replica);
    replica.lost_with.reset();
    for (auto& each : replica.shards) each->back = false;
    auto of_replica = replica.shards.front()->hello;
    of_replica.name = replica.name;
    return forward(Received{of_replica.peer, of_replica});
  }

  /// Its replica did not keep its seat, or what became of that is not decided yet; either way it is stale.
  std::string greet_anew(const Hello& hello) {
    const Error stale{ErrorName::Evicted, "its replica has no seat in epoch " + std::to_string(g_.run.view.epoch.value) + " any more"};
    return membership::refuse(g_.run, hello.peer, hello, stale, effects_);
  }

  /// One of its connections is gone.
  std::string tear(std::uint64_t key, std::uint32_t shard, const std::string& reason) {
    auto& replica = g_.replicas.at(key);
    if (!replica.lost_with) replica.lost_with = shard;
    const bool first = g_.torn.insert(key).second;
    if (!first) {
      name_unformed();
      return "another peer of a replica that waits for its peers was lost";
    }
    return forward(ConnectionLost{replica.lead(), name_of(replica, shard) + ": " + reason});
  }

  std::string said_goodbye(Replica& replica, std::uint32_t shard, const Deathrattle& message) {
    const auto& hello = replica.shards[shard]->hello;
    const auto key = g_.places.at(hello.peer).replica;
    if (!replica.whole) {
      down_.send_away(hello, Error{ErrorName::PeerLost, "left"});
      auto reason = leave_unformed(key, shard, message.cause, message.graceful);
      tell_who_stays(key);
      return reason;
    }
    const auto of = name_of(replica, shard);
    down_.speak_of(hello.peer, message.graceful ? Error{ErrorName::PeerLost, of + " left"}
                                                : Error{ErrorName::Evicted, of + " was lost: " + to_string(message.cause)});
    replica.lost_with = shard;
    if (message.graceful && g_.left.size() < MAX_GONE)
      for (const auto& peer : replica.shards) g_.left.insert(peer->hello.peer);
    return forward(Received{replica.lead(), message});
  }

  std::string leave_unformed(std::uint64_t key, std::uint32_t shard, const Error& cause, bool left) {
    auto& replica = g_.replicas.at(key);
    const auto hello = replica.shards[shard]->hello;
    effects_.emplace_back(
        shard_record(left ? "peer_left" : "peer_lost", replica, hello).with("reason", left ? cause.detail : to_string(cause)));
    g_.places.erase(hello.peer);
    note_gone(g_.run, hello.peer, cause);
    replica.shards[shard].reset();
    if (std::none_of(replica.shards.begin(), replica.shards.end(), [](const auto& peer) { return peer.has_value(); }))
      g_.replicas.erase(key);
    name_unformed();
    return hello.name + " went before its replica was whole";
  }

  void dismiss_unformed(const Error& cause) {
    std::vector<Grid::Place> waiting;
    for (const auto& [key, replica] : g_.replicas)
      for (std::uint32_t shard = 0; shard < replica.shards.size(); ++shard)
        if (!replica.whole && replica.shards[shard]) waiting.push_back({key, shard});
    for (const auto& [key, shard] : waiting) {
      down_.send_away(g_.replicas.at(key).shards[shard]->hello, cause);
      leave_unformed(key, shard, cause, cause.name == ErrorName::RunDone || cause.name == ErrorName::RolledBack);
    }
  }

  void name_unformed() {
    Named lacking;
    for (const auto& [key, replica] : g_.replicas)
      if (!replica.whole || !all_here(replica)) lacking.add("replica " + replica.name + " lacks " + missing_in(replica));
    if (const auto nowhere = not_brought_back(); !nowhere.empty()) lacking.add(nowhere);
    g_.run.incomplete = to_string(lacking);
  }

  /// Of the step that the run was rolled back to, what none of those who have come with their checkpoints holds.
  [[nodiscard]] std::string not_brought_back() const {
    const auto& run = g_.run;
    const auto parts = run.restoring && run.digest ? g_.parts.find(*run.digest) : g_.parts.end();
    if (parts == g_.parts.end()) return {};
    std::set<std::uint32_t> held;
    bool anybody = false;
    for (const auto& [lead, peer] : run.peers) {
      if (membership::holds_current_state(run, peer)) return {};
      if (peer.seat == Seat::Greeted) continue;
      anybody = true;
      const auto& shards = g_.replicas.at(g_.places.at(lead).replica).shards;
      for (std::uint32_t shard = 0; shard < shards.size(); ++shard)
        if (shards[shard]->holds.revision == run.revision && shards[shard]->holds.state == parts->second[shard]) held.insert(shard);
    }
    if (!anybody) return {};
    Named nobodys;
    for (std::uint32_t shard = 0; shard < run.options.shards; ++shard)
      if (!held.contains(shard)) nobodys.add(std::to_string(shard));
    const auto step = " of outer step " + std::to_string(run.revision.value);
    return nobodys.empty() ? "no replica holds all shards" + step : "nobody holds " + shards_text(nobodys) + step;
  }

  // What they say ------------------------------------------------------------------------------------------------------------

  /// A replica is as silent as the most silent of its peers.
  void note_silence(const Replica& replica) {
    const auto known = replica.whole ? g_.run.peers.find(replica.lead()) : g_.run.peers.end();
    if (known != g_.run.peers.end() && !known->second.absent) known->second.heard = last_heard(replica);
  }

  std::string beat(const Replica& replica, PeerId from) {
    effects_.emplace_back(Send{from, HeartbeatSeen{g_.run.view.epoch}});
    const auto known = replica.whole ? g_.run.peers.find(replica.lead()) : g_.run.peers.end();
    const bool comes_back = known != g_.run.peers.end() && known->second.absent && all_here(replica) &&
                            now_ - last_heard(replica) <= g_.run.options.heartbeat_limit;
    return comes_back ? forward(Received{replica.lead(), Heartbeat{}}) : std::string{};
  }

  std::string hear(std::uint64_t key, std::uint32_t shard, const Seated& m) {
    auto& peer = *g_.replicas.at(key).shards[shard];
    peer.elements = m.elements;
    peer.trainer_pid = m.trainer_pid;
    peer.holds = {m.revision, m.state};
    return note(key, shard, &ShardPeer::seated, m);
  }
  std::string hear(std::uint64_t key, std::uint32_t shard, const Fetched& m) {
    auto& peer = *g_.replicas.at(key).shards[shard];
    peer.holds = m;
    if (!peer.asked || m.revision != peer.asked->revision || m.state != peer.asked->state) return "a fetch that nobody waits for";
    peer.fetched = m;
    return once_all_fetched(key);
  }
  std::string hear(std::uint64_t key, std::uint32_t shard, const Ready& m) {
    auto& replica = g_.replicas.at(key);
    replica.shards[shard]->trainer_pid = m.trainer_pid;
    // It was told by now to begin anew.
    if (m.step == replica.begun.step && m.attempt < replica.begun.attempt) return "a readiness of an attempt that is void";
    return note(key, shard, &ShardPeer::ready, m);
  }
  std::string hear(std::uint64_t key, std::uint32_t shard, const Vote& m) { return note(key, shard, &ShardPeer::vote, m); }
  std::string hear(std::uint64_t key, std::uint32_t shard, const FinalReport& m) { return note(key, shard, &ShardPeer::report, m); }
  std::string hear(std::uint64_t key, std::uint32_t shard, const FetchFailed& m) {
    auto& peer = *g_.replicas.at(key).shards[shard];
    if (!peer.asked || m.revision != peer.asked->revision || m.donor != peer.asked->donor) return "a fetch that nobody waits for";
    peer.fetch_failed = m.error;
    return once_all_fetched(key);
  }
  std::string hear(std::uint64_t key, std::uint32_t /*shard*/, ReduceFailed m) {
    m.suspect = lead_of(m.suspect);
    return passed_on(key, m);
  }
  std::string hear(std::uint64_t key, std::uint32_t /*shard*/, const InDoubt& m) { return passed_on(key, m); }
  std::string hear(std::uint64_t key, std::uint32_t shard, const LinkMeasured& m) {
    return shard == 0 ? passed_on(key, m) : "a link that nobody asked for";
  }
  /// Each shard has lanes of its own; the topology is that of the first shards.
  std::string hear(std::uint64_t key, std::uint32_t shard, const LaneRelayed& m) {
    const auto name = [&](PeerId peer) {
      const auto place = g_.places.find(peer);
      return place == g_.places.end() ? to_string(peer) : g_.replicas.at(place->second.replica).shards[place->second.shard]->hello.name;
    };
    const auto& replica = g_.replicas.at(key);
    if (!replica.whole) return "a lane of who is no member";
    const bool direct = m.through == PeerId{};
    auto record = shard_record(direct ? "lane_direct" : "lane_relayed", replica, replica.shards[shard]->hello).with("to", name(m.to));
    effects_.emplace_back(direct ? record : std::move(record).with("through", name(m.through)));
    return shard == 0 ? passed_on(key, m) : "a lane of another shard than the first";
  }
  /// One that died has to be met again by the others, also by those that need nothing more of it. What all have contributed stays.
  std::string hear(std::uint64_t key, std::uint32_t /*shard*/, const TrainerRestarted& m) {
    auto& replica = g_.replicas.at(key);
    const auto known = replica.whole ? g_.run.peers.find(replica.lead()) : g_.run.peers.end();
    if (known == g_.run.peers.end() || known->second.seat != Seat::Member) return "a trainer of who is no member was started again";
    const auto& seat = known->second;
    const bool at_it = seat.contributes && !seat.ready && m.step == seat.begun && m.attempt >= replica.begun.attempt;
    if (!at_it) return "a trainer was started again, and the others of its replica need not be";
    replica.begun.attempt = std::max(replica.begun.attempt, m.attempt) + 1;
    for (auto& peer : replica.shards) peer->ready.reset();
    const auto& members = g_.run.view.members;
    const auto at = std::ranges::find(members, replica.lead(), &Member::id);
    down_.carry(Send{replica.lead(), BeginStep{g_.run.view, seat.begun, g_.run.revision, true,
                                               static_cast<std::uint32_t>(at - members.begin()), seat.first_sample}});
    return replica.name + " begins step " + std::to_string(m.step.value) + " anew";
  }
  std::string hear(std::uint64_t, std::uint32_t, const Hello&) { return {}; }
  std::string hear(std::uint64_t, std::uint32_t, const Heartbeat&) { return {}; }
  std::string hear(std::uint64_t, std::uint32_t, const Deathrattle&) { return {}; }

  [[nodiscard]] PeerId lead_of(PeerId peer) const {
    const auto place = g_.places.find(peer);
    if (place == g_.places.end() || !g_.replicas.at(place->second.replica).whole) return peer;
    return g_.replicas.at(place->second.replica).lead();
  }

  std::string passed_on(std::uint64_t key, FromPeer message) {
    const auto& replica = g_.replicas.at(key);
    if (!replica.whole) return "a message of a replica that is not whole";
    return forward(Received{replica.lead(), std::move(message)});
  }

  template <class Message>
  std::string note(std::uint64_t key, std::uint32_t shard, std::optional<Message> ShardPeer::*slot, const Message& message) {
    auto& replica = g_.replicas.at(key);
    (*replica.shards[shard]).*slot = message;
    return replica.whole ? once_all_said(key, slot) : replica.shards[shard]->hello.name + " waits for the others of its replica";
  }

  template <class Message>
  std::string once_all_said(std::uint64_t key, std::optional<Message> ShardPeer::*slot) {
    const auto found = g_.replicas.find(key);
    if (found == g_.replicas.end()) return {};
    std::vector<Message> said;
    for (const auto& peer : found->second.shards) {
      const auto& message = (*peer).*slot;
      if (!message || (!said.empty() && subject(said.front()) != subject(*message))) return "the others of its replica have yet to say it";
      said.push_back(*message);
    }
    auto reason = forward(Received{found->second.lead(), as_one(said)});
    if (const auto still = g_.replicas.find(key); still != g_.replicas.end())
      for (auto& peer : still->second.shards) ((*peer).*slot).reset();
    return reason;
  }

  /// Only when all fetches have ended is it known what the replica holds.
  std::string once_all_fetched(std::uint64_t key) {
    auto& replica = g_.replicas.at(key);
    const auto known = g_.run.peers.find(replica.lead());
    if (!replica.whole || known == g_.run.peers.end()) return "a fetch of a replica that is not whole";
    std::vector<Fetched> held;
    std::optional<Error> failed;
    for (const auto& peer : replica.shards) {
      if (!peer->fetched && !peer->fetch_failed) return "the others of its replica have yet to fetch";
      if (peer->fetch_failed && !failed) failed = peer->fetch_failed;
      held.push_back(peer->holds);
    }
    for (auto& peer : replica.shards) peer->asked.reset();
    const auto& fetch = known->second.fetch;
    if (!failed) return forward(Received{replica.lead(), Fetched{fetch.revision, join(held, &Fetched::state)}});
    known->second.seated.state = join(held, &Fetched::state);
    known->second.seated.revision =
        std::ranges::min_element(held, {}, &Fetched::revision)->revision;  // of unequal ones the digest is nobody's
    return forward(Received{replica.lead(), FetchFailed{fetch.donor, fetch.revision, *failed}});
  }

  template <class Messages, class Member>
  Digest join(const Messages& said, Member member) {
    std::vector<Digest> parts;
    for (const auto& message : said) parts.push_back(message.*member);
    const auto whole = combined(parts);
    g_.parts[whole] = std::move(parts);
    return whole;
  }

  Seated as_one(const std::vector<Seated>& said) {
    auto one = said.front();
    one.state = join(said, &Seated::state);
    std::vector<Digest> layouts;
    one.elements = 0;
    for (const auto& m : said) {
      layouts.push_back(m.layout);
      one.elements += m.elements;
      one.revision = std::min(one.revision, m.revision);  // of unequal ones the digest is nobody's: then they fetch
    }
    one.layout = combined(layouts);
    return one;
  }

  /// Each has trained on its own tokens.
  static Ready as_one(const std::vector<Ready>& said) {
    auto one = said.front();
    double loss = 0;
    double speed = 0;
    one.weight = 0;
    for (const auto& m : said) {
      one.weight += m.weight;
      loss += m.loss.value() * static_cast<double>(m.weight);
      speed += m.tokens_per_s.value();
      if (std::isnan(one.held_out_loss.value())) one.held_out_loss = m.held_out_loss;
    }
    if (one.weight > 0) one.loss = Real{loss / static_cast<double>(one.weight)};
    one.tokens_per_s = Real{speed};
    return one;
  }

  Vote as_one(const std::vector<Vote>& said) {
    Vote one{said.front().op, join(said, &Vote::state), 0, 0};
    for (const auto& m : said) {
      one.wire_bytes += m.wire_bytes;
      one.reduce_ns = std::max(one.reduce_ns, m.reduce_ns);
    }
    return one;
  }

  static FinalReport as_one(const std::vector<FinalReport>& said) {
    auto one = said.front();
    for (const auto& m : said) {
      if (std::isnan(one.held_out_loss.value())) one.held_out_loss = m.held_out_loss;
      if (one.sample.empty()) one.sample = m.sample;
      if (one.problem.empty()) one.problem = m.problem;
    }
    return one;
  }

  Grid& g_;
  Instant now_;
  std::vector<Effect>& effects_;
  Unfolding down_;
};

}  // namespace

Digest combined(std::span<const Digest> shards) { return kernels::combine_digests(shards, shards.size()); }

Grid initial_grid(Options options, Instant now) {
  Grid grid;
  grid.views.resize(options.shards);
  grid.contributions.resize(options.shards);
  grid.run = initial(std::move(options), now);
  return grid;
}

Grid restore_grid(Options options, const Snapshot& snapshot, Instant now) {
  auto grid = initial_grid(options, now);
  grid.run = restore(std::move(options), snapshot, now);
  if (grid.run.options.shards == 1) return grid;
  grid.parts = snapshot.shard_digests;
  for (const auto& kept : snapshot.members) {
    const auto key = grid.next_replica++;
    auto& replica = grid.replicas[key];
    replica.name = kept.member.name;
    replica.whole = true;
    ++grid.whole;
    grid.torn.insert(key);
    for (std::uint32_t shard = 0; shard < kept.parts.size(); ++shard) {
      const auto& [member, pid, trainer_pid, elements] = kept.parts[shard];
      const Hello hello{PROTOCOL_VERSION, grid.run.options.run, member.id, member.name, member.lanes, pid, true, shard, replica.name};
      auto& peer = replica.shards.emplace_back(greeting(hello, now));
      peer->here = false;
      peer->elements = elements;
      peer->trainer_pid = trainer_pid;
      grid.places.emplace(member.id, Grid::Place{key, shard});
    }
  }
  return grid;
}

GridTransition step(Grid grid, const Event& event, Instant now) {
  GridTransition result{std::move(grid), {}, {}};
  auto& state = result.state;
  // After the end, whoever comes hears of it, and everybody else was told.
  if (state.run.options.shards == 1 || state.run.phase == Phase::Over) {
    auto transition = step(std::move(state.run), event, now);
    state.run = std::move(transition.state);
    result.effects = std::move(transition.effects);
    result.reason = std::move(transition.reason);
    return result;
  }
  result.reason = std::visit(Folding{state, now, result.effects}, event);
  return result;
}

}  // namespace prime::coordinator

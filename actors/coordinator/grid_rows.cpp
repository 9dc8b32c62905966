#include "actors/coordinator/grid_rows.hpp"

#include <algorithm>
#include <utility>

#include "actors/coordinator/outer_step_machine.hpp"
#include "actors/coordinator/rollback_machine.hpp"
#include "actors/coordinator/waits.hpp"
#include "actors/membership/departures.hpp"
#include "actors/membership/membership_machine.hpp"

namespace prime::coordinator {
std::string Rows::forward(const Event& event) {
  const bool restoring = g_.run.restoring.has_value();
  auto transition = step(std::move(g_.run), event, now_);
  g_.run = std::move(transition.state);
  if (transition.decided) decided_ = std::move(transition.decided);
  down_.note_state();
  for (const auto& effect : transition.effects) down_.carry(effect);
  settle(restoring);
  if (const auto* received = std::get_if<Received>(&event))
    if (const auto place = g_.places.find(received->from); place != g_.places.end()) note_silence(g_.replicas.at(place->second.replica));
  return std::move(transition.reason);
}

std::optional<Snapshot> Rows::decided() {
  if (!decided_) return std::nullopt;
  return down_.of_peers(*std::exchange(decided_, std::nullopt));
}

void Rows::settle(bool was_restoring) {
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
    dismiss_unformed(rollback::cause(g_.run.checkpoint->step));
  }
}

bool Rows::is_mended(std::uint64_t key) {
  const auto found = g_.replicas.find(key);
  if (found == g_.replicas.end() || all_here(found->second)) return true;
  for (auto& peer : found->second.shards)
    if (!peer->back && std::exchange(peer->here, false)) effects_.emplace_back(Fence{peer->hello.peer});
  return false;
}

void Rows::dissolve(std::uint64_t key) {
  const auto node = g_.replicas.extract(key);
  const auto& replica = node.mapped();
  const Error cause{ErrorName::Evicted,
                    replica.lost_with ? name_of(replica, *replica.lost_with) + " was lost" : "its replica was sent away"};
  const auto known = std::find_if(g_.run.gone.rbegin(), g_.run.gone.rend(), [&](const auto& gone) { return gone.first == replica.lead(); });
  const auto as_told = known != g_.run.gone.rend() ? known->second : cause;
  for (const auto& peer : replica.shards) {
    g_.places.erase(peer->hello.peer);
    if (peer->here) down_.send_away(peer->hello, cause);
    if (peer->hello.shard > 0) membership::note_gone(g_.run, peer->hello.peer, as_told);
  }
  --g_.whole;
}

std::string Rows::greeted(PeerId from, const Hello& hello) {
  if (from != hello.peer) {
    const Error cause{ErrorName::ProtocolViolation, "the hello names another peer than the connection"};
    return membership::refuse(g_.run, from, hello, cause, effects_);
  }
  if (const auto place = g_.places.find(from); place != g_.places.end()) return returned(place->second, hello);
  // A peer that had no connection just then has not heard of it.
  if (g_.left.contains(from)) return membership::refuse(g_.run, from, hello, Error{ErrorName::PeerLost, "its replica left"}, effects_);
  auto refused = membership::refusal(g_.run, hello, outer_step::closed(g_.run));
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

void Rows::welcome(PeerId peer) {
  effects_.emplace_back(Send{peer, Welcome{g_.run.next_ordinal, g_.run.options.manifest}});
  if (!g_.run.coordinators.addresses.empty()) effects_.emplace_back(Send{peer, g_.run.coordinators});
}

std::optional<std::uint64_t> Rows::unformed(const std::string& name) const {
  for (const auto& [key, replica] : g_.replicas)
    if (!replica.whole && replica.name == name) return key;
  return std::nullopt;
}

std::optional<Error> Rows::misplaced(const Hello& hello) const {
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

std::string Rows::form(std::uint64_t key) {
  auto& replica = g_.replicas.at(key);
  replica.whole = true;
  ++g_.whole;
  name_unformed();
  tell_whole(replica);
  auto hello = replica.shards.front()->hello;
  hello.name = replica.name;
  return forward(Received{hello.peer, hello});
}

std::string Rows::returned(const Grid::Place& at, const Hello& hello) {
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
    down_.catch_up(replica, shard);
    tell_missing(replica);
    return hello.name + " is back, and waits for the others of replica " + replica.name;
  }
  tell_whole(replica);
  replica.lost_with.reset();
  if (g_.run.peers.at(replica.lead()).seat != Seat::Member)
    for (const auto& each : replica.shards) welcome(each->hello.peer);
  for (auto& each : replica.shards) each->back = false;
  auto of_replica = replica.shards.front()->hello;
  of_replica.name = replica.name;
  return forward(Received{of_replica.peer, of_replica});
}

std::string Rows::greet_anew(const Hello& hello) {
  const Error stale{ErrorName::Evicted, "its replica has no seat in epoch " + std::to_string(g_.run.view.epoch.value) + " any more"};
  return membership::refuse(g_.run, hello.peer, hello, stale, effects_);
}

std::string Rows::lost(const ConnectionLost& event) {
  const auto place = g_.places.find(event.peer);
  if (place == g_.places.end()) return "a connection of who has no seat was lost";
  const auto [key, shard] = place->second;
  auto& replica = g_.replicas.at(key);
  if (!replica.whole) {
    auto reason = leave_unformed(key, shard, Error{ErrorName::PeerLost, event.reason}, false);
    tell_who_stays(key);
    return reason;
  }
  if (!std::exchange(replica.shards[shard]->here, false)) {
    effects_.emplace_back(Probe::CutConnectionEnded);
    return "a connection that was cut";
  }
  auto reason = tear(key, shard, event.reason);
  if (const auto still = g_.replicas.find(key); still != g_.replicas.end()) tell_missing(still->second);
  return reason;
}

std::string Rows::vanished(const ProcessGone& event) {
  const auto place = g_.places.find(event.peer);
  if (place == g_.places.end()) return "the process of who has no seat is gone";
  const auto [key, shard] = place->second;
  auto& replica = g_.replicas.at(key);
  if (!replica.whole || replica.shards[shard]->here) return "a process that is here all the same";
  replica.lost_with = shard;
  return forward(ProcessGone{replica.lead(), name_of(replica, shard) + ": " + event.reason});
}

std::string Rows::tear(std::uint64_t key, std::uint32_t shard, const std::string& reason) {
  auto& replica = g_.replicas.at(key);
  if (!replica.lost_with) replica.lost_with = shard;
  const bool first = g_.torn.insert(key).second;
  if (!first) {
    name_unformed();
    return "another peer of a replica that waits for its peers was lost";
  }
  return forward(ConnectionLost{replica.lead(), name_of(replica, shard) + ": " + reason});
}

std::string Rows::said_goodbye(Replica& replica, std::uint32_t shard, const Deathrattle& message) {
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
  if (message.graceful && g_.left.size() < membership::MAX_GONE)
    for (const auto& peer : replica.shards) g_.left.insert(peer->hello.peer);
  return forward(Received{replica.lead(), message});
}

std::string Rows::leave_unformed(std::uint64_t key, std::uint32_t shard, const Error& cause, bool left) {
  auto& replica = g_.replicas.at(key);
  const auto hello = replica.shards[shard]->hello;
  effects_.push_back(membership::gone(who(replica, hello), cause, left));
  g_.places.erase(hello.peer);
  membership::note_gone(g_.run, hello.peer, cause);
  replica.shards[shard].reset();
  if (std::none_of(replica.shards.begin(), replica.shards.end(), [](const auto& peer) { return peer.has_value(); })) g_.replicas.erase(key);
  name_unformed();
  return hello.name + " went before its replica was whole";
}

void Rows::send_away_overdue() {
  const auto& options = g_.run.options;
  const auto wait_limit = g_.run.plan.wait_limit;
  const bool frozen = membership::was_frozen(g_.run, now_);
  std::vector<std::pair<Grid::Place, Error>> overdue;
  for (auto& [key, replica] : g_.replicas)
    for (std::uint32_t shard = 0; shard < replica.shards.size(); ++shard) {
      auto& peer = replica.shards[shard];
      if (frozen && peer) peer->heard = now_;
      if (replica.whole || !peer) continue;
      if (now_ - peer->heard > options.heartbeat_limit)
        overdue.emplace_back(Grid::Place{key, shard}, Error{ErrorName::Evicted, "no heartbeat for " + format_duration(now_ - peer->heard)});
      else if (now_ - replica.since > wait_limit)
        overdue.emplace_back(Grid::Place{key, shard},
                             Error{ErrorName::TooFewPeers, "its replica " + replica.name + " lacks " + missing_in(replica) + " after " +
                                                               format_duration(wait_limit)});
    }
  for (const auto& [place, cause] : overdue) {
    down_.send_away(g_.replicas.at(place.replica).shards[place.shard]->hello, cause);
    leave_unformed(place.replica, place.shard, cause, false);
  }
  std::set<std::uint64_t> left_behind;
  for (const auto& [place, cause] : overdue) left_behind.insert(place.replica);
  for (const auto key : left_behind) tell_who_stays(key);
}

void Rows::dismiss_unformed(const Error& cause) {
  std::vector<Grid::Place> waiting;
  for (const auto& [key, replica] : g_.replicas)
    for (std::uint32_t shard = 0; shard < replica.shards.size(); ++shard)
      if (!replica.whole && replica.shards[shard]) waiting.push_back({key, shard});
  for (const auto& [key, shard] : waiting) {
    down_.send_away(g_.replicas.at(key).shards[shard]->hello, cause);
    leave_unformed(key, shard, cause, cause.name == ErrorName::RunDone || cause.name == ErrorName::RolledBack);
  }
}

void Rows::record_wait(const Replica& replica, const Hello& hello) {
  effects_.emplace_back(events::ShardWaits{who(replica, hello), hello.pid, text_of(hello.lanes), missing_in(replica)});
}

void Rows::tell_missing(const Replica& replica) {
  for (const auto& peer : replica.shards)
    if (peer && peer->here && (!replica.whole || peer->back))
      effects_.emplace_back(Send{peer->hello.peer, ReplicaLacks{missing_in(replica)}});
}

void Rows::tell_whole(const Replica& replica) {
  for (const auto& peer : replica.shards) effects_.emplace_back(Send{peer->hello.peer, ReplicaLacks{}});
}

void Rows::tell_who_stays(std::uint64_t key) {
  const auto found = g_.replicas.find(key);
  if (found == g_.replicas.end()) return;
  for (const auto& peer : found->second.shards)
    if (peer) record_wait(found->second, peer->hello);
  tell_missing(found->second);
}

void Rows::tell_unformed(const Coordinators& coordinators) {
  for (const auto& [key, replica] : g_.replicas)
    for (const auto& peer : replica.shards)
      if (!replica.whole && peer) effects_.emplace_back(Send{peer->hello.peer, coordinators});
}

void Rows::name_unformed() {
  Named lacking;
  for (const auto& [key, replica] : g_.replicas)
    if (!replica.whole || !all_here(replica)) lacking.add("replica " + replica.name + " lacks " + missing_in(replica));
  if (const auto nowhere = not_brought_back(); !nowhere.empty()) lacking.add(nowhere);
  g_.run.incomplete = to_string(lacking);
}

std::string Rows::not_brought_back() const {
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
  const auto step = " of outer step " + std::to_string(run.made.value);
  return nobodys.empty() ? "no replica holds all shards" + step : "nobody holds " + shards_text(nobodys) + step;
}

void Rows::note_silence(const Replica& replica) {
  const auto known = replica.whole ? g_.run.peers.find(replica.lead()) : g_.run.peers.end();
  if (known != g_.run.peers.end() && !known->second.absent) known->second.heard = last_heard(replica);
}

}  // namespace prime::coordinator

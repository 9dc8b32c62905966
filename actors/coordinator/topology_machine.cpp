#include "actors/coordinator/topology_machine.hpp"

#include <algorithm>
#include <numeric>
#include <set>
#include <tuple>

#include "actors/coordinator/columns.hpp"

namespace prime::coordinator::topology {
namespace {

/// A pair that does not answer is asked again after this long; its peers give up before.
constexpr Duration ANSWER_LIMIT = 20s;
/// No link is believed to be faster, whoever says so: products with it must fit.
constexpr std::uint64_t FASTEST_BYTES_PER_S = 1'000'000'000'000;

using Pair = std::pair<PeerId, PeerId>;

bool measures(const State& state) { return state.plan.measure_links && replicas(state) > 1 && replicas(state) <= MAX_MEASURED_PEERS; }

/// Those whose links count, as the ring has them.
SharedList<Member> measured_members(const State& state) { return column_of(in_ring_order(state), 0, state.options.shards); }

/// When the older one of its two links was measured; the beginning of time when one never was.
Instant last_measured(const Topology& topology, PeerId a, PeerId b) {
  const auto of = [&](const Pair& link) {
    const auto found = topology.links.find(link);
    return found == topology.links.end() ? Instant{} : found->second.measured;
  };
  return std::min(of({a, b}), of({b, a}));
}

/// Empty as long as one is not known.
std::optional<LinkSpeeds> speeds_between(const State& state, const SharedList<Member>& members) {
  LinkSpeeds speeds(members.size());
  for (std::size_t from = 0; from < members.size(); ++from)
    for (std::size_t to = 0; to < members.size(); ++to) {
      if (from == to) continue;
      const auto found = state.topology.links.find({members[from].id, members[to].id});
      if (found == state.topology.links.end()) return std::nullopt;
      speeds.at(from, to) = found->second.bytes_per_s;
    }
  return speeds;
}

std::uint64_t slowest_of_all(const LinkSpeeds& speeds) {
  std::uint64_t slowest = speeds.at(0, 1);
  for (std::size_t from = 0; from < speeds.peers(); ++from)
    for (std::size_t to = 0; to < speeds.peers(); ++to)
      if (from != to) slowest = std::min(slowest, speeds.at(from, to));
  return slowest;
}

/// Small changes are noise, and no reason to look for another ring. Whether this was a large one.
bool note(Topology& topology, const Pair& pair, const Link& measured) {
  auto& link = topology.links[pair];
  const bool changed = link.measured == Instant{} || measured.bytes_per_s * GAIN_IN > link.bytes_per_s * GAIN_OF ||
                       link.bytes_per_s * GAIN_IN > measured.bytes_per_s * GAIN_OF;
  topology.changed = topology.changed || changed;
  link = measured;
  return changed;
}

/// How fast the links of the ring are, as far as they are known: all, or this one if it is one of them.
void tell_ring(const State& state, std::optional<Pair> only, Effects& effects) {
  const auto members = measured_members(state);
  for (std::size_t at = 0; at < members.size(); ++at) {
    const auto& next = members[(at + 1) % members.size()];
    const Pair pair{members[at].id, next.id};
    const auto link = state.topology.links.find(pair);
    if (link != state.topology.links.end() && only.value_or(pair) == pair)
      effects.emplace_back(events::LinkRate{membership::who(state.peers.at(members[at].id)), next.name, link->second.bytes_per_s});
  }
}

}  // namespace

void measure(State& state, Instant now, Effects& effects) {
  // When all are ready, a reduce waits for what is under way, and for no more.
  if (!measures(state) || state.phase != Phase::Training || state.collection.unready == 0) return;
  auto& topology = state.topology;
  std::erase_if(topology.measuring, [&](const auto& entry) { return now - entry.second.first > ANSWER_LIMIT; });
  std::set<PeerId> busy;
  for (const auto& [pair, asked] : topology.measuring) busy.insert({pair.first, pair.second});
  struct Due {
    bool in_use;  // a link of the ring, on which a reduce waits
    Instant last;
    const Member* a;
    const Member* b;
  };
  std::vector<Due> due;
  const auto members = measured_members(state);
  for (std::size_t a = 0; a < members.size(); ++a)
    for (std::size_t b = a + 1; b < members.size(); ++b) {
      const auto last = last_measured(topology, members[a].id, members[b].id);
      if (last == Instant{} || last < topology.due || now - last >= state.plan.measure_every)
        due.push_back({b - a == 1 || b - a == members.size() - 1, last, &members[a], &members[b]});
    }
  // What was never measured keeps any ring from being found; after that, what slowed a reduce down is most likely in use.
  const auto urgency = [](const Due& entry) { return std::tuple{entry.last != Instant{}, !entry.in_use, entry.last}; };
  std::ranges::stable_sort(due, {}, urgency);
  for (const auto& [in_use, last, a, b] : due) {
    if (busy.contains(a->id) || busy.contains(b->id) || state.peers.at(a->id).absent || state.peers.at(b->id).absent) continue;
    busy.insert({a->id, b->id});
    topology.measuring[std::minmax(a->id, b->id)] = {now, false};
    // The one with the smaller id opens the lane (LaneEngine).
    if (a->id < b->id) effects.emplace_back(Send{a->id, MeasureLink{*b}});
    else effects.emplace_back(Send{b->id, MeasureLink{*a}});
  }
}

std::optional<Instant> held_since(const State& state, Instant now) {
  std::optional<Instant> first;
  for (const auto& [pair, asked] : state.topology.measuring)
    if (now - asked.first < MEASURE_HOLD) first = std::min(first.value_or(asked.first), asked.first);
  return first;
}

std::string measured(State& state, PeerId from, const LinkMeasured& message, Instant now, Effects& effects) {
  auto& topology = state.topology;
  const auto asked = topology.measuring.find(std::minmax(from, message.to));
  const bool back = from > message.to;
  if (asked == topology.measuring.end() || asked->second.second != back) return "a link that nobody asked for";
  const auto& members = state.view.members;
  const auto self = std::find_if(members.begin(), members.end(), [&](const Member& m) { return m.id == from; });
  // One way after the other: what acknowledges the one would wait behind what fills the other.
  const bool goes_on = message.known && !back && message.bytes_per_s > 0 && self != members.end();
  if (goes_on) {
    asked->second = {now, true};
    effects.emplace_back(Send{message.to, MeasureLink{*self}});
  } else {
    topology.measuring.erase(asked);
  }
  if (!message.known) return "a link could not be measured just then";
  const bool changed = note(topology, {from, message.to}, {std::min(message.bytes_per_s, FASTEST_BYTES_PER_S), now});
  if (message.bytes_per_s == 0) note(topology, {message.to, from}, {0, now});  // a lane is for both ways
  if (changed) tell_ring(state, Pair{from, message.to}, effects);
  return "a link carries " + std::to_string(message.bytes_per_s) + " bytes/s";
}

std::string relayed(State& state, PeerId from, const LaneRelayed& message, Effects& effects) {
  const auto& members = state.view.members;
  const auto name_of = [&](PeerId id) -> const std::string* {
    const auto member = std::find_if(members.begin(), members.end(), [&](const Member& m) { return m.id == id; });
    return member == members.end() ? nullptr : &member->name;
  };
  const auto* const name = name_of(from);
  const auto* const to = name_of(message.to);
  if (name == nullptr || to == nullptr || from == message.to) return "a lane of who is no member";
  // What was measured was measured on another way.
  state.topology.links.erase({from, message.to});
  state.topology.links.erase({message.to, from});
  const bool direct = message.through == PeerId{};
  const auto* const through = name_of(message.through);
  const auto& peer = state.peers.at(from);
  if (direct) {
    state.topology.relayed.erase(std::minmax(from, message.to));
    effects.emplace_back(events::LaneDirect{membership::who(peer), *to});
  } else {
    if (peer.hello.shard == 0) state.topology.relayed[std::minmax(from, message.to)] = message.through;
    effects.emplace_back(events::LaneRelayed{membership::who(peer), *to, through == nullptr ? to_string(message.through) : *through});
  }
  return *name + (direct ? " reaches " + *to + " directly again" : " reaches " + *to + " through another one");
}

SharedList<Member> in_ring_order(const State& state) {
  auto members = state.view.members;
  const auto& ring = state.topology.ring;
  const auto place = [&](const Member& member) { return std::ranges::find(ring, member.ordinal) - ring.begin(); };
  if (!ring.empty()) std::ranges::stable_sort(members.edit(), {}, place);
  return members;
}

std::optional<LinkSpeeds> direct_links(const State& state, const SharedList<Member>& members) {
  if (!measures(state)) return std::nullopt;
  LinkSpeeds speeds(members.size());
  for (std::size_t from = 0; from < members.size(); ++from)
    for (std::size_t to = 0; to < members.size(); ++to) {
      const Pair link{members[from].id, members[to].id};
      const auto found = state.topology.links.find(link);
      const bool usable = found != state.topology.links.end() && !state.topology.relayed.contains(std::minmax(link.first, link.second));
      if (usable) speeds.at(from, to) = found->second.bytes_per_s;
    }
  return speeds;
}

void arrange(State& state, Effects& effects) {
  auto& topology = state.topology;
  if (!topology.changed || !measures(state)) return;
  const auto members = measured_members(state);
  const auto speeds = speeds_between(state, members);
  if (!speeds) return;
  topology.changed = false;
  Ring current(speeds->peers());
  std::iota(current.begin(), current.end(), 0);
  const auto before = slowest_link(*speeds, current);
  const auto better = best_ring(*speeds, current);
  const auto after = better ? slowest_link(*speeds, *better) : before;
  const bool adopted = better && after * GAIN_IN > before * GAIN_OF;
  // Every pair carries two parts of a tensor in n when all send directly; each link of a ring carries n - 1 times as much.
  topology.ring_is_faster = (adopted ? after : before) > (speeds->peers() - 1) * slowest_of_all(*speeds);
  if (!adopted) {
    effects.emplace_back(events::RingKept{state.step(), before, after, topology.ring_is_faster});
    return;
  }
  topology.ring.clear();
  std::string order;
  for (const auto place : *better) {
    topology.ring.push_back(members[place].ordinal);
    order += (order.empty() ? "" : ", ") + members[place].name;
  }
  topology.reduce_time = {};
  effects.emplace_back(events::RingAdopted{state.step(), state.view.epoch, order, after, before, topology.ring_is_faster});
  tell_ring(state, {}, effects);
}

void note_reduce(State& state, Duration took, Instant now) {
  auto& topology = state.topology;
  const auto before = std::exchange(topology.reduce_time, took);
  if (!measures(state) || before == Duration{} || took < SLOWED * before) return;
  topology.due = now;
}

void members_changed(State& state) {
  auto& topology = state.topology;
  const auto is_member = [&](PeerId id) {
    return std::any_of(state.view.members.begin(), state.view.members.end(), [&](const Member& m) { return m.id == id; });
  };
  const auto has_gone = [&](const auto& entry) { return !is_member(entry.first.first) || !is_member(entry.first.second); };
  std::erase_if(topology.relayed, has_gone);
  if (!state.plan.measure_links) return;
  std::erase_if(topology.ring, [&](std::uint64_t ordinal) {
    return std::ranges::none_of(state.view.members, [&](const Member& member) { return member.ordinal == ordinal; });
  });
  std::erase_if(topology.links, has_gone);
  std::erase_if(topology.measuring, has_gone);
  topology.changed = true;
  topology.ring_is_faster = false;
  topology.reduce_time = {};
}

}  // namespace prime::coordinator::topology

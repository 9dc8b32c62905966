// Owns the proof that the oracle sees: each invariant is broken once, by a machine that decides what it must not, and is named.
//
// Judging only what an event changed must find the same at the same event as judging everybody after each.
#include "runtime/simulation/oracle.hpp"

#include <boost/test/unit_test.hpp>

#include "runtime/simulation/swarm.hpp"

namespace {

using namespace prime;
using namespace prime::sim;

struct Breakage {
  std::string seen;  ///< the number of the invariant, and some words of the violation
  std::function<void(Swarm&)> arrange;
};

// What a transition holds ---------------------------------------------------------------------------------------------------

template <class Message>
std::vector<Message*> sent(coordinator::Transition& transition) {
  std::vector<Message*> found;
  for (auto& effect : transition.effects)
    if (auto* send = std::get_if<coordinator::Send>(&effect))
      if (auto* message = std::get_if<Message>(&send->message)) found.push_back(message);
  return found;
}

template <class Event>
Event* journaled(coordinator::Transition& transition) {
  for (auto& effect : transition.effects)
    if (auto* event = std::get_if<JournalEvent>(&effect); event != nullptr && std::holds_alternative<Event>(*event))
      return &std::get<Event>(*event);
  return nullptr;
}

template <class Wanted>
Wanted* emitted(peer::Transition& transition) {
  for (auto& effect : transition.effects)
    if (auto* found = std::get_if<Wanted>(&effect)) return found;
  return nullptr;
}

template <class Message>
const Message* heard(const peer::Event& event) {
  const auto* from = std::get_if<peer::FromCoordinator>(&event);
  return from != nullptr ? std::get_if<Message>(from) : nullptr;
}

// How a machine is broken ---------------------------------------------------------------------------------------------------

using Coordinator = coordinator::Transition;
using Peer = peer::Transition;
using Committed = events::RoundCommitted;

Breakage coordinator_breaks(std::string seen, std::function<void(Coordinator&)> action) {
  return {std::move(seen), [=](Swarm& swarm) { swarm.break_coordinator([=](const auto&, Coordinator& t) { action(t); }); }};
}

/// At the outer step's second reduce, so that there is something before it.
Breakage reduce_breaks(std::string seen, std::function<void(Coordinator&, std::vector<StartReduce*>)> action) {
  return coordinator_breaks(std::move(seen), [=](Coordinator& t) {
    if (const auto started = sent<StartReduce>(t); !started.empty() && t.state.sequence.value > 1) action(t, started);
  });
}

Breakage commit_breaks(std::string seen, std::function<void(Coordinator&, Committed&)> action, std::uint64_t revision = 2) {
  return coordinator_breaks(std::move(seen), [=](Coordinator& t) {
    auto* done = journaled<Committed>(t);
    if (done != nullptr && done->revision == Revision{revision}) action(t, *done);
  });
}

Breakage peer_breaks(std::string seen, std::function<void(const peer::Event&, Peer&)> action) {
  return {std::move(seen), [=](Swarm& swarm) { swarm.break_peers(action); }};
}

Breakage dismissal(ErrorName name, std::string seen, std::string detail = "") {
  return reduce_breaks(std::move(seen), [=](Coordinator& t, auto) {
    t.effects.emplace_back(coordinator::Send{t.state.view.members.front().id, Dismissed{Error{name, detail}}});
  });
}

void drop_contributor(Committed& done) {
  done.weights.erase(done.weights.begin());
  done.contributors.erase(done.contributors.begin());
}

void kill_one(Swarm& swarm) {
  swarm.after_each([](Swarm& s) {
    if (s.coordinator().revision == Revision{2}) s.kill(1);
  });
}

template <class Unwanted>
void erase(std::vector<coordinator::Effect>& effects, Unwanted unwanted) {
  std::erase_if(effects, unwanted);
}

template <class Event>
bool is(const coordinator::Effect& effect) {
  const auto* event = std::get_if<JournalEvent>(&effect);
  return event != nullptr && std::holds_alternative<Event>(*event);
}

// The breakages -------------------------------------------------------------------------------------------------------------

std::vector<Breakage> of_epochs_and_views() {
  return {
      reduce_breaks("LAW-1 the epoch fell", [](Coordinator& t, auto) { t.state.view.epoch = Epoch{}; }),
      reduce_breaks("LAW-1 a member went and the epoch stayed", [](Coordinator& t, auto) { t.state.view.members.edit().pop_back(); }),
      reduce_breaks("LAW-1 nobody went and the epoch grew", [](Coordinator& t, auto) { t.state.view.epoch = t.state.view.epoch.next(); }),
      reduce_breaks("LAW-1 operation 1.1#1 is not newer",
                    [](Coordinator&, auto started) {
                      for (auto* message : started) {
                        message->op.sequence = Sequence{1};
                        message->op.tag = Tag{1};
                      }
                    }),
      reduce_breaks("LAW-1 an operation belongs to another epoch",
                    [](Coordinator&, auto started) {
                      for (auto* message : started) message->op.epoch = Epoch{9};
                    }),
      reduce_breaks("LAW-1 operation 1.2 is told to its members in different words",
                    [](Coordinator&, auto started) { ++started.back()->next_sample; }),
      peer_breaks("LAW-1 fell back to an older epoch",
                  [](const peer::Event& event, Peer& t) {
                    if (heard<Commit>(event) != nullptr) t.state.epoch = Epoch{};
                  }),
      {"SIM-2 peer-1 came back",
       [](Swarm& swarm) {
         kill_one(swarm);
         swarm.break_coordinator([kept = coordinator::Peer{}, was_gone = false](const auto&, Coordinator& t) mutable {
           for (const auto& [id, peer] : t.state.peers)
             if (peer.hello.name == "peer-1") kept = peer;
           if (was_gone) t.state.peers.emplace(kept.hello.peer, kept);
           was_gone = std::ranges::any_of(t.state.gone, [&](const auto& entry) { return entry.first == kept.hello.peer; });
         });
       }},
      reduce_breaks("SIM-2 a contributor is gone", [](Coordinator& t, auto) { t.state.peers.erase(t.state.view.members.front().id); }),
      commit_breaks("SIM-2 peer-1 is gone and contributes",
                    [](Coordinator& t, Committed&) { t.state.peers.erase(t.state.view.members.front().id); }),
      reduce_breaks("SIM-6 seat and view differ",
                    [](Coordinator& t, auto) { t.state.peers.at(t.state.view.members.front().id).seat = coordinator::Seat::Seated; }),
      commit_breaks("SIM-6 ranks do not follow",
                    [](Coordinator& t, Committed&) {
                      auto& members = t.state.view.members.edit();
                      std::swap(members.front(), members.back());
                    }),
      coordinator_breaks("SIM-6 peer-1 has no seat and is a member",
                         [](Coordinator& t) {
                           if (t.state.phase == coordinator::Phase::Reducing && sent<StartReduce>(t).empty())
                             t.state.peers.erase(t.state.view.members.front().id);
                         }),
  };
}

std::vector<Breakage> of_commits() {
  return {
      commit_breaks("LAW-2 committed without the vote", [](Coordinator&, Committed& r) { r.digest.high ^= 1U; }),
      commit_breaks("LAW-2 operation 1.2 was aborted after its commit",
                    [](Coordinator& t, Committed&) {
                      t.effects.emplace_back(coordinator::Send{PeerId{}, Abort{t.state.operation, ""}});
                    }),
      reduce_breaks("LAW-2 operation 1.2 is committed after its abort",
                    [](Coordinator& t, auto) {
                      t.effects.emplace_back(coordinator::Send{PeerId{}, Abort{t.state.operation, ""}});
                    }),
      peer_breaks("LAW-2 applies what was not committed",
                  [](const peer::Event& event, Peer& t) {
                    const auto* ended = std::get_if<peer::ReduceEnded>(&event);
                    if (ended == nullptr || t.state.operations.empty() || !t.state.operations.front().prepared) return;
                    const auto digest = *t.state.operations.front().prepared;
                    t.effects.emplace_back(peer::ApplyCommit{Commit{ended->op, OuterStep{1}, Revision{1}, digest, 0, digest}});
                  }),
      peer_breaks("LAW-2 applies what it did not prepare",
                  [](const peer::Event&, Peer& t) {
                    if (auto* apply = emitted<peer::ApplyCommit>(t)) t.effects.emplace_back(peer::ApplyCommit{*apply});
                  }),
      peer_breaks("LAW-3 holds other bits",
                  [](const peer::Event& event, Peer& t) {
                    if (std::holds_alternative<peer::Tick>(event) && t.state.revision == Revision{2}) t.state.digest.low ^= 1U;
                  }),
      peer_breaks("LAW-3 holds another revision",
                  [](const peer::Event& event, Peer& t) {
                    if (std::holds_alternative<peer::Tick>(event) && t.state.revision == Revision{2}) t.state.revision = Revision{1};
                  }),
      peer_breaks("LAW-3 peer-3 differs from the committed revision",
                  [](const peer::Event& event, Peer& t) {
                    if (!std::holds_alternative<peer::Tick>(event) || t.state.revision != Revision{2}) return;
                    if (t.state.options.hello.name != "peer-3") return;
                    t.state.trainer_bound = false;
                    t.state.revision = Revision{1};
                  }),
      commit_breaks(
          "LAW-4 the first commit is no mean", [](Coordinator&, Committed& r) { drop_contributor(r); }, 1),
      commit_breaks("LAW-4 revision 2 is not the mean", [](Coordinator&, Committed& r) { drop_contributor(r); }),
      commit_breaks("LAW-4 the journaled weight", [](Coordinator&, Committed& r) { ++r.weights.front(); }),
      commit_breaks("SIM-1 revision 3 is committed after 1", [](Coordinator&, Committed& r) { ++r.revision.value; }),
      commit_breaks("SIM-1 a step begins from a revision",
                    [](Coordinator& t, Committed&) { sent<BeginStep>(t).front()->base = Revision{1}; }),
      {"SIM-2 a step begins for a peer that is gone",
       [](Swarm& swarm) {
         kill_one(swarm);
         swarm.break_coordinator([](const auto&, Coordinator& t) {
           if (const auto begun = sent<BeginStep>(t); !begun.empty() && !t.state.gone.empty())
             t.effects.emplace_back(coordinator::Send{t.state.gone.front().first, *begun.front()});
         });
       }},
      peer_breaks("SIM-3 is ahead of the journal",
                  [](const peer::Event& event, Peer& t) {
                    if (!std::holds_alternative<peer::Tick>(event) || t.state.revision != Revision{2}) return;
                    t.state.trainer_bound = false;
                    t.state.revision = Revision{99};
                  }),
  };
}

std::vector<Breakage> of_contributions() {
  const auto each = [](std::string seen, std::function<void(StartReduce&)> action) {
    return reduce_breaks(std::move(seen), [=](Coordinator&, const auto& started) {
      for (auto* message : started) action(*message);
    });
  };
  return {
      each("LAW-4 one contribution for each member", [](StartReduce& m) { m.contributions.edit().pop_back(); }),
      each("LAW-4 one contribution for each member",
           [](StartReduce& m) {
             auto& list = m.contributions.edit();
             list.front().peer = list.back().peer;
           }),
      each("LAW-4 the mean length", [](StartReduce& m) { m.radii.edit().front() = Real{1.0}; }),
      each("LAW-4 weighs", [](StartReduce& m) { ++m.contributions.edit().front().weight; }),
      each("SIM-5 the cursor is behind", [](StartReduce& m) { m.next_sample = 0; }),
      coordinator_breaks("LAW-12 the samples from 0 on are handed out twice",
                         [](Coordinator& t) {
                           for (auto* begin : sent<BeginStep>(t)) begin->first_sample = 0;
                         }),
      coordinator_breaks("SIM-5 samples are consumed twice",
                         [](Coordinator& t) {
                           auto begins = sent<BeginStep>(t);
                           if (!begins.empty() && begins[0]->step == OuterStep{2}) begins[0]->first_sample = 0;
                         }),
      {"LAW-12 on are left behind",
       [](Swarm& swarm) {
         swarm.break_coordinator([](const auto&, Coordinator& t) { t.state.given_back.clear(); });
         swarm.after_each([](Swarm& s) {
           const bool trains = s.hosts().size() > 1 && s.hosts()[1].machine.phase == peer::Phase::Training;
           if (s.coordinator().revision == Revision{2} && trains) s.kill(1);
         });
       }},
      coordinator_breaks("LAW-4 a contributor never began",
                         [](Coordinator& t) {  // somebody is slipped in who is only welcome
                           for (auto* message : sent<StartReduce>(t))
                             for (const auto& [id, peer] : t.state.peers)
                               if (peer.seat == coordinator::Seat::Greeted) {
                                 message->contributions.push_back({id, 1});
                                 message->view.members.push_back(Member{id, peer.hello.name, {}, peer.ordinal});
                               }
                         }),
      {"LAW-5 reduces with 1 contributors",
       [](Swarm& swarm) {
         swarm.break_coordinator([](const auto&, Coordinator& t) { t.state.plan.min_peers = 1; });
         swarm.after_each([](Swarm& s) {
           if (s.coordinator().revision == Revision{2})
             for (std::size_t i = 1; i < s.hosts().size(); ++i) s.kill(i);
         });
       }},
      peer_breaks("SIM-4 keeps what was prepared",
                  [](const peer::Event&, Peer& t) {
                    for (auto& each : t.state.operations) each.prepared.reset();
                  }),
      peer_breaks("SIM-4 runs an operation twice",
                  [](const peer::Event&, Peer& t) {
                    if (auto* run = emitted<peer::RunReduce>(t)) t.effects.emplace_back(peer::RunReduce{*run});
                  }),
      peer_breaks("SIM-4 has no input",
                  [](const peer::Event&, Peer& t) {
                    if (auto* run = emitted<peer::RunReduce>(t)) run->reduce.base = Revision{77};
                  }),
      peer_breaks("SIM-4 discards what it does not hold",
                  [](const peer::Event&, Peer& t) {
                    if (auto* run = emitted<peer::RunReduce>(t)) t.effects.emplace_back(peer::Discard{run->reduce.op});
                  }),
      peer_breaks("SIM-4 fetches twice at once",
                  [](const peer::Event&, Peer& t) {
                    if (auto* start = emitted<peer::StartFetch>(t)) t.effects.emplace_back(peer::StartFetch{*start});
                  }),
  };
}

/// What it holds is not worth a checkpoint to it.
void ends_unsaved(const peer::Event&, Peer& t) {
  if (t.state.phase != peer::Phase::Saving) return;
  t.state.phase = peer::Phase::Over;
  t.effects = {peer::End{t.state.ending->cause}};
}

std::vector<Breakage> of_ends() {
  return {
      {"LAW-6 the run hangs",
       [](Swarm& swarm) {
         swarm.break_peers([](const peer::Event&, Peer& t) {
           std::erase_if(t.effects, [](const auto& effect) { return std::holds_alternative<peer::BeginTraining>(effect); });
         });
       }},
      {"LAW-6 does not notice that the coordinator is gone",
       [](Swarm& swarm) {
         swarm.after_each([](Swarm& s) {
           if (s.coordinator().revision == Revision{2}) s.kill_coordinator();
         });
         swarm.break_peers([](const peer::Event&, Peer& t) {
           if (t.state.absence) t.state.absence->since = Instant::max();
         });
       }},
      {"LAW-8 lost the coordinator and saved nothing",
       [](Swarm& swarm) {
         swarm.after_each([](Swarm& s) {
           if (s.coordinator().revision == Revision{2}) s.kill_coordinator();
         });
         swarm.break_peers(ends_unsaved);
       }},
      {"SIM-15 which is on no disk",
       [](Swarm& swarm) {
         swarm.after_each([](Swarm& s) {
           if (s.coordinator().revision == Revision{2}) s.stop_run();
         });
         swarm.break_peers(ends_unsaved);
       }},
      {"SIM-15 gives up saving after",
       [](Swarm& swarm) {
         swarm.after_each([](Swarm& s) {
           if (s.coordinator().revision != Revision{2}) return;
           for (std::size_t i = 0; i < s.hosts().size(); ++i) s.fill_disk(i, Duration{});
           s.stop_run();
         });
         swarm.break_peers([](const peer::Event&, Peer& t) { t.state.options.save_retry = 1s; });
       }},
      {"SIM-14 is on no disk",
       [](Swarm& swarm) {
         swarm.break_peers([](const peer::Event&, Peer& t) {
           const bool final = t.state.phase == peer::Phase::Finishing;
           for (auto& effect : t.effects)
             if (final && std::holds_alternative<peer::SaveState>(effect)) effect = peer::Tell{StateSaved{"/untrue", ""}};
         });
       }},
      {"SIM-17 outer step",
       [](Swarm& swarm) {
         swarm.after_each([](Swarm& s) {
           if (s.coordinator().revision == Revision{2}) s.pause_run();
         });
         swarm.break_coordinator([](const coordinator::Event& event, Coordinator& t) {
           if (std::holds_alternative<coordinator::PauseRequested>(event)) t.state.paused_by_owner.reset();
         });
       }},
      {"LAW-8 whether its owner has paused the run is forgotten",
       [](Swarm& swarm) {
         swarm.after_each([](Swarm& s) {
           if (s.coordinator().revision != Revision{2}) return;
           s.pause_run();
           s.kill_coordinator(1s);
         });
         swarm.break_coordinator([](const auto&, Coordinator& t) {
           if (t.decided) t.decided->paused_by_owner = false;
         });
       }},
      {"LAW-8 revision 2 is forgotten",
       [](Swarm& swarm) {
         swarm.break_coordinator([](const auto&, Coordinator& t) {
           if (t.state.revision > Revision{1}) t.decided.reset();
         });
         swarm.after_each([](Swarm& s) {
           if (s.coordinator().revision != Revision{2}) return;
           s.kill_coordinator();
           s.restart_coordinator();
         });
       }},
      {"LAW-8 an operation is forgotten",
       [](Swarm& swarm) {
         swarm.break_coordinator([](const auto&, Coordinator& t) {
           if (t.state.sequence > Sequence{1}) t.decided.reset();
         });
         swarm.after_each([](Swarm& s) {
           if (s.coordinator().phase != coordinator::Phase::Reducing || s.coordinator().sequence != Sequence{2}) return;
           s.kill_coordinator();
           s.restart_coordinator();
         });
       }},
      commit_breaks("LAW-8 commit of 1.2 was told before",
                    [](Coordinator& t, Committed&) {
                      erase(t.effects, is<events::OuterStepCommitted>);
                      erase(t.effects, is<Committed>);
                    }),
      commit_breaks("LAW-8 a commit differs from its journal", [](Coordinator& t, Committed&) { sent<Commit>(t).back()->state.low ^= 1U; }),
      coordinator_breaks("LAW-8 the run finished before that was journaled", [](Coordinator& t) { erase(t.effects, is<events::RunDone>); }),
      commit_breaks("SIM-10 without its final report",
                    [](Coordinator& t, Committed&) {
                      t.effects = {events::RunDone{}, coordinator::Finish{}};
                    }),
      dismissal(ErrorName::ProtocolViolation, "SIM-7 is sent away for"),
      dismissal(ErrorName::ParityBroken, "SIM-7 is sent away for"),
      dismissal(ErrorName::FetchFailed, "SIM-7 although there were donors"),
      dismissal(ErrorName::DeadlineExceeded, "SIM-7 is called slow", "not ready in time"),
      reduce_breaks("SIM-16 peer-1 lives",
                    [](Coordinator& t, const std::vector<StartReduce*>&) {
                      const auto& member = t.state.view.members.front();
                      t.effects.emplace_back(events::PeerLost{{member.id, member.name}, Error{ErrorName::PeerLost, "reset"}});
                    }),
      peer_breaks("SIM-8 survived at revision 3",
                  [](const peer::Event&, Peer& t) {
                    if (auto* end = emitted<peer::End>(t); end != nullptr && !end->cause) t.state.revision = Revision{3};
                  }),
  };
}

/// Of a state of two fragments: revision 3 is that of the first one of outer step 2.
std::vector<Breakage> of_fragments() {
  return {
      commit_breaks(
          "LAW-8 a commit differs from its journal", [](Coordinator& t, Committed&) { sent<Commit>(t).back()->completes = true; }, 3),
      commit_breaks(
          "LAW-8 a commit differs from its journal", [](Coordinator& t, Committed&) { sent<Commit>(t).back()->part.low ^= 1U; }, 3),
      commit_breaks(
          "SIM-1 outer step 2 is called complete before all fragments",
          [](Coordinator& t, Committed& done) {
            const auto at = std::ranges::find_if(t.effects, is<Committed>);
            t.effects.insert(at + 1, JournalEvent{events::OuterStepCommitted{.outer_step = done.version, .revision = done.revision}});
          },
          3),
      commit_breaks(
          "LAW-4 names others than its last fragment's contributors",
          [](Coordinator& t, Committed&) { journaled<events::OuterStepCommitted>(t)->contributors.pop_back(); }, 4),
      commit_breaks(
          "LAW-2 another version than the operation's is committed", [](Coordinator&, Committed& done) { done.fragment ^= 1U; }, 3),
      reduce_breaks("LAW-4 and should 0",
                    [](Coordinator& t, const auto&) {  // its work is in the first fragment already
                      auto& rounds = t.state.rounds;
                      if (t.state.revision == Revision{3}) rounds[0].operation = std::exchange(rounds[1].operation, std::nullopt);
                      for (auto* message : sent<StartReduce>(t)) message->fragment = 0;
                    }),
  };
}

std::vector<Breakage> of_several_in_flight() {
  return {
      coordinator_breaks("LAW-2 3 reduces are in flight at once", [](Coordinator& t) { t.state.plan.in_flight = 3; }),
      reduce_breaks("LAW-2 fragment 0 is reduced twice at once",
                    [](Coordinator& t, const auto&) {
                      for (auto* message : sent<StartReduce>(t)) message->fragment = 0;
                    }),
      commit_breaks("LAW-2 which is not in flight, is committed",
                    [](Coordinator&, Committed& done) { done.operation.sequence = Sequence{77}; }),
  };
}

/// Nobody waits for anybody.
std::vector<Breakage> of_decoupled() {
  return {
      reduce_breaks("LAW-4 and should",
                    [](Coordinator&, const std::vector<StartReduce*>& messages) {
                      for (auto* message : messages) message->contributions.edit().front().weight += 1;
                    }),
      coordinator_breaks("LAW-12 are handed out twice",
                         [](Coordinator& t) {
                           for (auto& effect : t.effects) {
                             auto* send = std::get_if<coordinator::Send>(&effect);
                             auto* begin = send != nullptr ? std::get_if<BeginStep>(&send->message) : nullptr;
                             if (begin == nullptr || t.state.revision < Revision{3}) continue;
                             for (const auto& [member, leases] : t.state.leases)
                               if (member != send->to) begin->first_sample = leases.back().first_sample;
                           }
                         }),
      peer_breaks("LAW-4 a contribution is of another version than that which it is for",
                  [](const peer::Event&, Peer& t) {
                    for (auto& effect : t.effects)
                      if (auto* tell = std::get_if<peer::Tell>(&effect))
                        if (auto* ready = std::get_if<Ready>(&tell->message); ready != nullptr && ready->step > OuterStep{1})
                          ready->base = Revision{};
                  }),
  };
}

/// Four peers, and one that joins in the middle.
Outcome judge(const Breakage& breakage, bool everybody, std::uint32_t fragments, std::uint32_t in_flight, bool decoupled) {
  auto scenario = calm_scenario(4, 8);
  scenario.options.decoupled = decoupled;
  scenario.options.fragments = fragments;
  scenario.options.in_flight = in_flight;
  scenario.options.max_peers = 5;
  scenario.joiners.emplace_back().bind_time = 6s;
  Fault join{.kind = FaultKind::Join, .at = 4s, .at_event = {}, .at_phase = {}};
  scenario.faults.push_back(join);
  Probes probes;
  Swarm swarm{std::move(scenario), probes};
  if (everybody) swarm.judge_everybody();
  breakage.arrange(swarm);
  return swarm.run();
}

}  // namespace

BOOST_AUTO_TEST_CASE(each_invariant_is_named_when_a_machine_breaks_it) {
  using Group = std::tuple<std::vector<Breakage>, std::uint32_t, std::uint32_t, bool>;
  for (const auto& [group, fragments, in_flight, decoupled] : {Group{of_epochs_and_views(), 1, 1, false},
                                                               {of_commits(), 1, 1, false},
                                                               {of_contributions(), 1, 1, false},
                                                               {of_ends(), 1, 1, false},
                                                               {of_fragments(), 2, 1, false},
                                                               {of_several_in_flight(), 3, 2, false},
                                                               {of_decoupled(), 2, 2, true}})
    for (const auto& breakage : group) {
      const auto outcome = judge(breakage, false, fragments, in_flight, decoupled);
      const auto seen = outcome.violation.value_or("nothing");
      const auto blank = breakage.seen.find(' ');
      BOOST_TEST((seen.starts_with(breakage.seen.substr(0, blank + 1)) && seen.find(breakage.seen.substr(blank + 1)) != std::string::npos),
                 "to be seen: " << breakage.seen << "; was seen: " << seen);
      const auto reference = judge(breakage, true, fragments, in_flight, decoupled);
      BOOST_TEST(outcome.violation.value_or("") == reference.violation.value_or(""));
      BOOST_TEST(outcome.events == reference.events, breakage.seen << " is seen at another event");
    }
}

BOOST_AUTO_TEST_CASE(a_decision_after_the_end_is_named) {
  Oracle oracle{coordinator::Options{}};
  const auto state = coordinator::initial({}, Instant{});
  oracle.coordinator_stepped(coordinator::Tick{}, state, {events::FinalReport{}, events::RunDone{}, coordinator::Finish{}}, Instant{},
                             Instant{});
  BOOST_TEST(oracle.violation().value_or("") == "");
  oracle.coordinator_stepped(coordinator::Tick{}, state, {events::Waiting{}}, Instant{}, Instant{});
  BOOST_TEST(oracle.violation().value_or("") == "SIM-9 something was decided after the end");
}

BOOST_AUTO_TEST_CASE(no_machine_notices_that_the_clocks_differ) {
  const auto hash = [](Duration skew, bool breaks) {
    auto scenario = random_scenario(3);
    scenario.clock_skew = skew;
    Probes probes;
    Swarm swarm{std::move(scenario), probes};
    if (breaks)  // what it remembers is a time of day rather than one of its own clock
      swarm.break_peers([](const peer::Event&, Peer& t) { t.state.heard = Instant{}; });
    return swarm.run().trace_hash;
  };
  BOOST_TEST(hash(0min, false) == hash(60min, false));
  BOOST_TEST(hash(0min, true) != hash(60min, true));
}

BOOST_AUTO_TEST_CASE(runs_are_the_same_whether_all_or_only_what_changed_is_judged) {
  Probes probes;
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    Swarm changed{random_scenario(seed), probes};
    Swarm everybody{random_scenario(seed), probes};
    everybody.judge_everybody();
    const auto outcome = changed.run();
    const auto reference = everybody.run();
    BOOST_TEST(outcome.trace_hash == reference.trace_hash);
    BOOST_TEST(outcome.events == reference.events);
  }
}

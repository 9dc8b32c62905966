// Owns the simulation of a whole run: the shipping machines on virtual time, one thread, one seed.
//
// One coordinator machine and N peer machines exchange their effects through a simulated network, data plane, state fetch and
// trainer. After every event the oracle judges the invariants. The same scenario gives the same events, bit for bit.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "actors/coordinator/coordinator_state.hpp"
#include "actors/coordinator/ledger.hpp"
#include "actors/peer/trainer_machine.hpp"
#include "actors/supervisor/restart_machine.hpp"
#include "runtime/simulation/oracle.hpp"
#include "runtime/simulation/probes.hpp"
#include "runtime/simulation/random.hpp"
#include "runtime/simulation/scenario.hpp"

namespace prime::sim {

/// A machine's monotonic clock: when it began to count, and how fast it goes, are its own.
struct Clock {
  Duration ahead{};
  std::int64_t drift = 0;  ///< parts per million
  [[nodiscard]] Instant read(Instant world) const {
    const auto passed = world - Instant{};
    return world + ahead + passed / 1'000'000 * drift;
  }
};

struct Contributed {
  OuterStep step;
  Revision base;
  Numbers gradient{};
  std::uint32_t attempt = 0;
  bool from_shared = false;  ///< all of it: the trainer had nothing of its own, as one that was just started
};

/// What a simulated trainer is at.
struct Training {
  std::uint64_t number = 0;          ///< of its begin: another one takes its place
  std::uint32_t next = 0;            ///< fragment, where they are published in turn
  bool waits = false;                ///< for a commit
  std::set<std::uint32_t> untold{};  ///< published, and not heard of
  Fragments published{};             ///< by an earlier life, or not wanted
  std::uint64_t first_sample = 0;
  Contributed result;
};

/// With Plan::decoupled: what a simulated trainer has of one fragment.
struct Pace {
  bool held = false;  ///< it has a version
  OuterStep version;  ///< that it has taken over
  Numbers numbers{};  ///< of that version
  OuterStep told;     ///< that is to be taken over
  Numbers told_numbers{};
  std::uint32_t slices = 0;  ///< trained since it was taken over
  std::uint32_t since = 0;   ///< since it was published, or taken over without
  bool published = false;    ///< and its result is not taken over
  std::optional<OuterStep> asked;
};

/// One peer: its machine and its part of the world.
struct Host {
  PeerId id;
  PeerSpec spec;
  Clock clock;
  Instant started{};
  Instant resumed{};
  bool admitted = false;
  peer::State machine;
  bool alive = true;
  bool paused = false;
  bool left = false;  ///< was asked to leave
  /// What a paused process has not read yet.
  std::deque<std::variant<peer::Event, trainer_life::Event>> backlog;
  std::optional<peer::End> end;

  std::uint64_t connection = 0;  ///< which one: what an older one carried is lost with it
  bool up_open = true;           ///< messages to the coordinator still arrive
  bool down_open = true;
  bool parted = false;       ///< by a partition: it reaches nobody
  bool unreachable = false;  ///< its machine is down, or never lets anybody in
  Instant up_last{};
  Instant down_last{};

  bool born = false;
  Model model;
  std::optional<Model> checkpoint;  ///< the newest on its disk
  Instant disk_full_until{};
  Instant disk_busy_until{};
  bool gave_up_saving = false;
  Training training;
  std::vector<Pace> paces;                     ///< by fragment, of this life of its trainer
  std::map<std::uint32_t, Contributed> local;  ///< what its trainer has brought, by fragment
  std::map<std::uint32_t, Contributed> contributions;
  std::deque<Commit> applying;  ///< the reduce worker has yet to carry them out
  struct Prepared {
    Model model;
    std::uint64_t next_sample = 0;
    trainer_life::Applied then;
    bool heard = false;
  };
  std::map<OperationId, Prepared> prepared;
  bool fetching = false;
  bool fetch_stopped = false;  ///< it ends without a state
  bool stalls = false;         ///< in its next reduce
  std::optional<OperationId> stalled_in;
  std::map<Revision, Model> fetched;
  trainer_life::State life;    ///< its trainer's
  std::uint64_t trainers = 0;  ///< which process: what an older one would have said is lost with it
  std::uint64_t begun = 0;     ///< the last of them that was told a step
  bool trainer_up = false;
  supervisor::State restarts;
};

struct Outcome {
  bool over = false;           ///< the coordinator finished the run
  std::optional<Error> cause;  ///< why it failed; empty when it is done or the coordinator was killed
  std::optional<std::string> violation;
  std::uint64_t trace_hash = 0;
  std::uint64_t events = 0;
  Duration took{};
  std::vector<std::string> tail;  ///< the last lines of the trace
  std::vector<Duration> joins;    ///< of those who came while the run was under way: from the start of the process to the first step
};

class Swarm {
 public:
  Swarm(Scenario scenario, Probes& probes);

  /// Runs until nobody has anything left to do, an invariant breaks, or the run hangs.
  Outcome run();
  /// Called after every event: the place for a test to strike at an exact moment.
  void after_each(std::function<void(Swarm&)> action) { after_each_ = std::move(action); }
  /// Lets a test break a machine: what it decided is changed before anybody sees it.
  using BreakCoordinator = std::function<void(const coordinator::Event&, coordinator::Transition&)>;
  using BreakPeer = std::function<void(const peer::Event&, peer::Transition&)>;
  void break_coordinator(BreakCoordinator action) { break_coordinator_ = std::move(action); }
  void break_peers(BreakPeer action) { break_peers_ = std::move(action); }
  /// Judges every host after every event, instead of those that the event changed: the reference for that.
  void judge_everybody() { judges_everybody_ = true; }

  /// With a checkpoint on its disk, which it brings along or not.
  std::size_t join(const PeerSpec& spec, const std::optional<Model>& checkpoint = {}, bool brings_it = false);
  void kill(std::size_t host, bool silently = false);
  void pause(std::size_t host, Duration hold);
  void leave(std::size_t host);
  void kill_trainer(std::size_t host);
  void reset_link();
  void cut_control(std::size_t host);
  void kill_coordinator();
  /// For so long.
  void kill_coordinator(Duration hold);
  void restart_coordinator();
  void redial(std::size_t host);
  void part(Duration hold);
  void isolate_coordinator(Duration hold);
  /// No checkpoint can be written for so long; zero: for ever.
  void fill_disk(std::size_t host, Duration hold);
  /// The next entry of the coordinator's ledger takes so long.
  void stall_ledger(Duration hold) { ledger_stall_ = hold; }
  /// As `primectl down` does it.
  void stop_run();
  /// As `primectl pause` and `primectl resume` do it.
  void pause_run();
  void resume_run();

  [[nodiscard]] const coordinator::State& coordinator() const { return state_; }
  [[nodiscard]] const std::deque<Host>& hosts() const { return hosts_; }
  [[nodiscard]] const std::vector<JournalEvent>& journal() const { return journal_; }
  [[nodiscard]] Instant now() const { return now_; }

 private:
  struct Item {
    Instant at;
    std::uint64_t order = 0;
    std::function<void()> act;
    friend bool operator>(const Item& a, const Item& b) { return a.at != b.at ? a.at > b.at : a.order > b.order; }
  };
  /// One operation on the data plane.
  struct Reduce {
    struct Part {
      bool started = false;
      bool ended = false;
      Numbers input{};
    };
    StartReduce message;
    std::vector<std::size_t> members;  ///< hosts, in rank order
    std::map<std::size_t, Part> parts;
    std::size_t running = 0;          ///< parts that have begun and not ended
    std::optional<std::size_t> dead;  ///< a member that died before it began
    std::optional<std::size_t> broken_by;
    std::optional<Numbers> mean;  ///< once all parts have begun
  };

  /// One event of the coordinator, and what it made of it.
  struct Judgement {
    const coordinator::Event& event;
    const coordinator::State& state;  ///< after it
    const std::vector<coordinator::Effect>& effects;
    Instant at{};
  };
  /// The same, of which nobody has heard yet: it is judged once it is written, or it never was.
  struct Untold {
    std::uint64_t entry = 0;  ///< of the ledger, behind which it waits
    coordinator::Event event;
    coordinator::State state;
    std::vector<coordinator::Effect> effects;
    Instant at{};
  };

  // judging.cpp
  void judge();
  void judge_silence();
  void watch_silence(Instant from, const Host& host);
  [[nodiscard]] Oracle& oracle_of(const Host& host) { return oracles_[host.spec.shard]; }
  void violate(const std::string& what) { oracles_.front().violate(what); }
  [[nodiscard]] const std::optional<std::string>& violation() const;
  [[nodiscard]] std::size_t commits() const;
  [[nodiscard]] std::uint64_t weigh(PeerId peer, OuterStep step) const;
  void note_replicas(const coordinator::State& run);
  [[nodiscard]] PeerId mate(PeerId peer, std::uint32_t shard) const;
  [[nodiscard]] coordinator::State column(const coordinator::State& run, std::uint32_t shard) const;
  [[nodiscard]] JournalEvent column(const coordinator::State& run, const JournalEvent& event, std::uint32_t shard) const;
  [[nodiscard]] std::vector<coordinator::Effect> column(const Judgement& of, std::uint32_t shard) const;
  void judge_coordinator(const Judgement& judgement);
  void judge_replicas(coordinator::State run, const std::vector<coordinator::Effect>& effects);
  void note_seats();
  void judge_given_up();
  [[nodiscard]] std::vector<Digest> told_parts(const Model& model) const;
  [[nodiscard]] bool is_on_a_disk(Revision revision, std::uint32_t shard) const;
  void judge_saved();
  void judge_ended(const Host& host, const peer::End& end);
  void judge_restoring();
  void judge_lost(const events::PeerLost& lost);

  // swarm.cpp: time, network, machines
  void schedule(Duration delay, std::function<void()> act);
  void tick_coordinator(std::uint64_t life);
  void post_lost(std::size_t host, const std::string& reason, Duration delay);
  void tick_peer(std::size_t host);
  void settle();
  [[nodiscard]] bool everybody_is_done() const;
  [[nodiscard]] Holding holding(const Host& host) const;
  Duration message_delay();
  void send_up(std::size_t host, peer::ToCoordinator message);
  void send_down(PeerId to, coordinator::ToPeer message);
  void post(std::size_t host, peer::Event event, Duration delay);
  void step_coordinator(const coordinator::Event& event);
  Duration writing_time();
  void carry_out(std::vector<coordinator::Action> actions);
  void write(coordinator::Entry entry);
  void land();
  void deliver(std::size_t host, peer::Event event);
  void step_peer(std::size_t host, const peer::Event& event);
  void carry_out(std::size_t host, const peer::Effect& effect);
  void fence(PeerId peer);
  void look_for(PeerId peer);
  void coordinator_finished(const coordinator::Finish& finish);
  void journaled(JournalEvent event);
  void rejoin(const PeerSpec& spec, const std::optional<Model>& checkpoint, bool brings_it);
  void end_process(std::size_t host);
  void trace(const std::string& who, const std::string& event, const std::string& reason);
  void probe(const std::string& name) { ++probes_[name]; }
  void probe(WorldProbe hit) { probe(probe_of(hit)); }
  [[nodiscard]] std::optional<std::size_t> index_of(PeerId id) const;

  // world.cpp: data plane, fetches, trainers
  [[nodiscard]] std::map<OperationId, Reduce>& reduces_of(std::size_t host) { return reduces_[hosts_[host].spec.shard]; }
  [[nodiscard]] std::optional<std::size_t> holds_up(const Reduce& reduce, OperationId op) const;
  void watch_reduce(std::size_t host, OperationId op);
  void note_moved(std::size_t host);
  Duration reduce_time();
  void open_reduce(Reduce& reduce, const StartReduce& message);
  [[nodiscard]] Numbers mean_of(const Reduce& reduce) const;
  [[nodiscard]] std::vector<Lengths> lengths_of(std::size_t host, const Fragments& fragments) const;
  void run_reduce(std::size_t host, const StartReduce& message);
  void complete_reduce(std::size_t host, OperationId op);
  void fail_part(std::size_t host, OperationId op, std::size_t suspect, ErrorName name, Duration delay);
  void break_reduces(std::size_t host, std::optional<OperationId> only);
  void abort_reduce(std::size_t host, OperationId op);
  void start_fetch(std::size_t host, const FetchState& fetch);
  void end_fetch(std::size_t host, const FetchState& fetch);
  void start_measure(std::size_t host, PeerId to);
  /// Of the links as they are at this time.
  [[nodiscard]] std::uint64_t link_speed(PeerId from, PeerId to) const;
  Result<std::uint64_t> relayed_speed(std::size_t host, std::size_t to);
  void hear_trainer(std::size_t host, trainer_life::Event event, Duration delay);
  void deliver(std::size_t host, trainer_life::Event event);
  void step_trainer(std::size_t host, const trainer_life::Event& event);
  void carry_out(std::size_t host, const trainer_life::Effect& effect);
  void launch_trainer(std::size_t host);
  void end_trainer(std::size_t host, std::optional<Error> cause, Duration delay);
  void trainer_died(std::size_t host, const trainer_life::Died& died);
  void train(std::size_t host, const trainer_life::TellBegin& order);
  void train_slice(std::size_t host);
  void end_slice(std::size_t host);
  void publish(std::size_t host, const Fragments& fragments);
  // Where nobody waits: a boundary after each slice.
  void note_told(std::size_t host, std::uint32_t fragment);
  void begin_lease(std::size_t host);
  void end_lease_slice(std::size_t host);
  void publish_decoupled(std::size_t host, std::uint32_t fragment);
  [[nodiscard]] Fragments what_is_left(const Fragments& published) const;
  void finish_training(std::size_t host, const RunDone& done);
  void save(std::size_t host, const peer::SaveState& order);
  [[nodiscard]] bool disk_takes(const Host& host);
  void apply_commit(std::size_t host, const peer::ApplyCommit& apply);
  void carry_out_commits(std::size_t host);

  // faults.cpp
  std::size_t join_replica(PeerSpec spec);
  void arm_faults();
  void strike(const Fault& fault, std::optional<std::size_t> victim);
  void watch_event_count();
  void heal(const std::vector<std::size_t>& minority, Revision parted_at, const std::vector<Revision>& held);
  void drop_control(std::size_t host);
  Clock new_clock();
  void phase_entered(std::size_t host, peer::Phase phase);

  Scenario scenario_;
  Probes& probes_;
  Random random_;
  Random clocks_;                                          ///< of its own, so that a clock changes nothing else
  Random disk_;                                            ///< likewise
  Random takes_;                                           ///< likewise
  std::vector<Oracle> oracles_;                            ///< by shard: each judges the peers of one as a run of its own
  std::unordered_map<PeerId, std::vector<PeerId>> mates_;  ///< the peers of a replica, by each of them
  std::size_t next_replica_ = 0;
  Instant now_{};
  std::uint64_t orders_ = 0;
  std::vector<Item> queue_;  ///< a heap
  std::function<void(Swarm&)> after_each_;
  BreakCoordinator break_coordinator_;
  BreakPeer break_peers_;

  coordinator::State state_;
  coordinator::Ledger ledger_;
  std::uint64_t entry_ = 0;     ///< the last that was begun
  coordinator::Entry writing_;  ///< as long as it is on its way
  Duration writing_time_{};     ///< of the next
  Duration ledger_stall_{};     ///< likewise, once
  std::deque<Untold> untold_;
  Clock coordinator_clock_;
  bool coordinator_alive_ = true;
  bool coordinator_isolated_ = false;
  bool resume_due_ = false;                ///< its owner wanted the run to go on while the coordinator was away
  std::optional<Duration> dies_deciding_;  ///< at its next decision, before anybody hears of it; for so long
  std::uint64_t coordinator_life_ = 0;
  std::optional<coordinator::Snapshot> kept_;  ///< what is on the coordinator's disk
  Instant coordinator_died_{};
  std::vector<JournalEvent> journal_;
  std::deque<Host> hosts_;
  std::unordered_map<PeerId, std::size_t> indices_;
  std::set<PeerId> refused_;          ///< by a router, in the name of this peer
  std::vector<std::size_t> changed_;  ///< hosts that the oracle has yet to judge
  std::size_t judged_commits_ = 0;
  bool judges_everybody_ = false;
  Instant silence_due_ = Instant::max();  ///< not later than the first host that must have noticed the coordinator's death
  std::size_t paused_ = 0;
  std::vector<std::map<OperationId, Reduce>> reduces_;  ///< by shard
  std::size_t armed_resets_ = 0;
  std::size_t armed_corruptions_ = 0;
  std::size_t next_joiner_ = 0;
  std::size_t founders_ = 0;
  std::vector<Fault> armed_;
  std::uint64_t untimed_events_ = 0;  ///< all but ticks
  Outcome outcome_;
};

}  // namespace prime::sim

#include <atomic>
#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/send.hpp>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <unistd.h>

#include "actors/coordinator/columns.hpp"
#include "actors/coordinator/coordinator_actor.hpp"
#include "actors/coordinator/departures.hpp"
#include "actors/coordinator/ledger.hpp"
#include "actors/coordinator/rollback_machine.hpp"
#include "actors/supervisor/root.hpp"
#include "runtime/agent/decision_file.hpp"
#include "runtime/agent/end_signal.hpp"
#include "runtime/agent/leadership.hpp"
#include "runtime/agent/lookout.hpp"
#include "runtime/agent/owners_wish.hpp"
#include "runtime/agent/process_watch.hpp"
#include "runtime/agent/processes.hpp"
#include "runtime/agent/random_id.hpp"
#include "runtime/agent/reason_log.hpp"
#include "runtime/agent/record_journal.hpp"
#include "runtime/clock.hpp"
#include "runtime/manifest/canonical.hpp"
#include "runtime/net/acceptor.hpp"
#include "runtime/net/basp_transport.hpp"
#include "runtime/net/probe.hpp"
#include "runtime/net/reachable.hpp"
#include "runtime/store/journal.hpp"
#include "runtime/telemetry/event_json.hpp"
#include "runtime/telemetry/notice_board.hpp"
#include "runtime/telemetry/process_identity.hpp"

namespace prime {
namespace {

/// How long the coordinator stays after the last word, so that every peer hears it.
constexpr Duration LAST_WORD_LIMIT = 5s;

/// What the journal tells of the coordinators before this one. One that was killed after it kept a decision and before the journal had it
/// leaves a gap there, which the next one fills.
struct Told {
  std::map<PeerId, Who> members;  ///< those who were admitted and are not told as gone
  bool admitted = false;          ///< whether anybody ever was
  Revision revision;              ///< of the last commit, or of what the run was rolled back to since
  Revision completed;             ///< of the last outer step that all fragments have made; likewise

  void note(const JournalEvent& event) {
    if (const auto* e = std::get_if<events::PeerAdmitted>(&event)) {
      members[e->who.peer] = e->who;
      admitted = true;
    }
    if (const auto* e = std::get_if<events::PeerLost>(&event)) members.erase(e->who.peer);
    if (const auto* e = std::get_if<events::PeerLeft>(&event)) members.erase(e->who.peer);
    if (const auto* e = std::get_if<events::RoundCommitted>(&event)) revision = e->revision;
    if (const auto* e = std::get_if<events::OuterStepCommitted>(&event)) completed = e->revision;
    if (const auto* e = std::get_if<events::RolledBack>(&event)) revision = completed = e->revision;
  }
};

Result<Told> read_told(const std::filesystem::path& path) {
  Told told;
  PRIME_CHECK(store::JournalReader{path}.read_to_end([&](const store::JournalLine& line) {
    if (const auto event = telemetry::read_event(JournalWriter::Coordinator, line); event && *event) told.note(**event);
  }));
  return told;
}

/// Nobody was told then of what is missing there, but everybody will be. The journal of a standby that takes over begins so.
void fill_gaps(Told told, const coordinator::Snapshot& kept, RecordJournal& journal) {
  for (const auto& decided : kept.commits) {
    for (const auto& line : decided.lines) {
      const auto* round = std::get_if<events::RoundCommitted>(&line);
      const auto* step = std::get_if<events::OuterStepCommitted>(&line);
      if ((round != nullptr && told.revision < round->revision) || (step != nullptr && told.completed < step->revision))
        journal.append(line);
    }
  }
  if (kept.restoring && told.revision > kept.revision)
    journal.append(coordinator::rollback::rolled_back(kept.epoch, told.revision, *kept.checkpoint));
  const auto admit = [&](Who who, std::uint32_t pid, std::uint32_t trainer_pid) {
    if (told.members.erase(who.peer) == 0)
      journal.append(events::PeerAdmitted{std::move(who), pid, trainer_pid, kept.epoch, kept.revision});
  };
  for (const auto& one : kept.members) admit({one.member.id, one.member.name, one.replica, one.shard}, one.pid, one.trainer_pid);
  // Whose loss made the run go back was told before that; all others were sent away by it, and join anew.
  const auto cause = kept.restoring ? coordinator::rollback::cause(kept.checkpoint->step)
                                    : Error{ErrorName::PeerLost, "it went just before the coordinator ended"};
  for (const auto& [peer, who] : told.members) journal.append(membership::gone(who, cause, kept.restoring));
}

/// Whether a coordinator that ends so was the one that led until then.
bool leads_still(const Error& cause) { return cause.name != ErrorName::LeadershipLost && cause.name != ErrorName::StandbyStoreFailed; }

coordinator::LossPolicy loss_policy(manifest::CorrelatedLoss said) {
  switch (said) {
    case manifest::CorrelatedLoss::Continue: return coordinator::LossPolicy::Continue;
    case manifest::CorrelatedLoss::Pause: return coordinator::LossPolicy::Pause;
    case manifest::CorrelatedLoss::Rollback: return coordinator::LossPolicy::RollBack;
  }
  return coordinator::LossPolicy::Continue;
}

coordinator::Options machine_options(const CoordinatorOptions& options) {
  const auto& shared = options.manifest.shared;
  coordinator::Options machine;
  machine.run = options.run;
  machine.manifest = manifest::shared_yaml(options.manifest);
  machine.min_peers = shared.membership.peers.minimum;
  machine.max_peers = shared.membership.peers.maximum;
  machine.start_quorum = std::max(options.start_quorum, shared.membership.peers.minimum);
  machine.outer_steps = shared.train.outer_steps;
  machine.samples_per_peer = std::uint64_t{shared.sync.inner_steps} * shared.train.batch;
  machine.coordinator_grace = shared.membership.coordinator_grace;
  machine.on_correlated_loss = loss_policy(shared.membership.correlated_loss);
  machine.checkpoint_every = shared.checkpoint.every;
  machine.evaluate_every = shared.train.evaluate.every;
  machine.evaluate_limit = shared.train.evaluate.time_limit;
  machine.schedule = shared.sync.wire.schedule;
  machine.codec = shared.sync.wire.codec;
  machine.result_codec = shared.sync.wire.result_codec;
  machine.measure_links = shared.topology.ring == manifest::RingOrder::MeasuredBandwidth;
  machine.measure_every = shared.topology.measure_every;
  machine.stop_when_alone = shared.sync.alone == manifest::Alone::Stop;
  machine.heartbeat_limit = shared.membership.heartbeat.dead_after;
  machine.deadline = shared.sync.deadline;
  machine.quorum = shared.sync.quorum;
  machine.grace = shared.sync.grace;
  machine.shards = shared.membership.shards;
  machine.fragments = shared.sync.fragments.count;
  machine.in_flight = shared.sync.in_flight;
  machine.overlap = shared.sync.overlap > 0;
  machine.streams = shared.sync.streams();
  machine.decoupled = shared.sync.decoupled();
  machine.founders = options.founders;
  if (const auto& origin = options.origin) {
    machine.origin = coordinator::Origin{origin->revision,
                                         origin->outer_step,
                                         origin->state,
                                         origin->next_sample,
                                         origin->tokens,
                                         origin->versions,
                                         {origin->given_back.begin(), origin->given_back.end()}};
    machine.origin_data = origin->data;
  }
  machine.wait_limit = shared.membership.wait_limit;
  return machine;
}

/// Fencing is the acceptor's: it knows the connections of a peer by its certificate.
class AcceptorFence final : public FencePort {
 public:
  explicit AcceptorFence(net::Acceptor& acceptor) : acceptor_(acceptor) {}
  void fence(PeerId peer) override { acceptor_.fence(peer); }

 private:
  net::Acceptor& acceptor_;
};

/// What was decided before, by whomever: etcd knows where there is one, else the file here.
Result<std::optional<coordinator::Snapshot>> kept_decisions(const CoordinatorOptions& options, const DecisionFile& file,
                                                            Leadership* leadership) {
  PRIME_TRY(auto kept, leadership != nullptr ? leadership->take_over(options.plan, options.founded) : file.read());
  if (kept || !options.again) return kept;
  PRIME_TRY(const auto told, read_told(options.directory / "coordinator" / "journal.jsonl"));
  if (told.admitted) return fail(ErrorName::StorageFailed, file.path().string() + " is gone, and with it what this run has decided");
  return kept;
}

/// What a coordinator before this one has decided, if there was one; told in the journal.
Result<coordinator::State> state_of(const CoordinatorOptions& options, const std::optional<coordinator::Snapshot>& kept,
                                    RecordJournal& journal) {
  if (!kept) {
    if (const auto& origin = options.origin)
      journal.append(events::RunContinues{origin->run, origin->outer_step, origin->revision, origin->state, origin->tokens,
                                          options.fresh.empty() ? std::nullopt : std::optional{options.fresh}});
    return coordinator::initial(machine_options(options), monotonic_now());
  }
  auto state = coordinator::restore(machine_options(options), *kept, monotonic_now());
  PRIME_TRY(auto told, read_told(options.directory / "coordinator" / "journal.jsonl"));
  events::CoordinatorRestarted restarted{state.view.epoch, state.revision, coordinator::replicas(state), std::nullopt};
  if (!options.killed.empty()) restarted.reason = "the one before it was " + options.killed;
  fill_gaps(std::move(told), *kept, journal);
  journal.append(restarted);
  if (kept->paused_by_owner) journal.append(events::RunPaused{state.made});
  return state;
}

/// The port of this process. Who knocks while there is nobody to serve it is turned away, and tries elsewhere.
class FrontDoor {
 public:
  static Result<std::unique_ptr<FrontDoor>> open(const CoordinatorOptions& options) {
    PRIME_TRY(auto credentials, net::Credentials::make(options.key, options.run, net::Identity{net::Role::Coordinator, random_peer_id()}));
    auto self = std::make_unique<FrontDoor>();
    const auto listening = net::listening_for(options.listen);
    net::AcceptorOptions acceptor_options;
    acceptor_options.listen = listening.at;
    const auto knock = [raw = self.get()](net::Protocol protocol, net::ChannelPtr channel, const std::string& host) {
      if (protocol == net::Protocol::Probe) return raw->probes_.serve(std::move(channel), host);
      if (protocol == net::Protocol::Control) raw->admit(std::move(channel));  // a coordinator has no lanes
    };
    PRIME_TRY(self->acceptor_, net::Acceptor::open(acceptor_options, credentials, knock));
    const auto port = self->acceptor_->address().port;
    self->served_ = {net::told_addresses(listening, port, options.manifest.local.network.advertise), port};
    return self;
  }
  [[nodiscard]] const ServedAt& served() const { return served_; }
  /// From now on, as long as this process leads; without `leadership` it always does.
  void lead_to(net::BaspTransport& transport, const Leadership* leadership) {
    leadership_ = leadership;
    transport_.store(&transport);
  }
  /// Nobody knocks any more; to be called before the transport goes.
  void close() { acceptor_->stop(); }
  net::Acceptor& acceptor() { return *acceptor_; }

 private:
  void admit(net::ChannelPtr channel) {
    auto* const transport = transport_.load();
    if (transport != nullptr && (leadership_ == nullptr || leadership_->holds())) transport->accept(std::move(channel));
  }

  ServedAt served_;
  net::ProbeServer probes_;
  const Leadership* leadership_ = nullptr;  ///< written before transport_, and read after it
  std::atomic<net::BaspTransport*> transport_{nullptr};
  std::unique_ptr<net::Acceptor> acceptor_;  ///< last: its thread uses what is above
};

/// Its guard says why.
[[noreturn]] void end_stuck(const Error&) { std::_Exit(telemetry::STUCK_EXIT_CODE); }

/// A disk may take so long for an entry without a word of it.
constexpr Duration UNWRITTEN_NOTED = 2s;

/// What the coordinator notices of itself while its actor works; a disk that stands still takes no line of the journal that would say so.
class SelfWatch {
 public:
  SelfWatch(RecordJournal& journal, const LedgerWriter& ledger, Duration ledger_limit)
      : journal_(journal), ledger_(ledger), ledger_limit_(ledger_limit), descriptors_(journal), standstill_(monotonic_now()) {}

  void look() {
    const auto now = monotonic_now();
    const auto unwritten = ledger_.unwritten();
    const bool stuck = unwritten && now - unwritten->since >= UNWRITTEN_NOTED;
    board_.show(stuck ? notice_of(*unwritten) : telemetry::Notice{});
    // It may have stood still while an entry was on its way: that is told once the entry is there.
    if (const auto stood = standstill_.look(now)) stood_ = stood;
    if (stuck) return;  // whoever writes a line now waits for that disk, too
    if (const auto stood = std::exchange(stood_, std::nullopt)) journal_.append(events::CoordinatorStoodStill{*stood});
    descriptors_.look(now);
  }

 private:
  [[nodiscard]] telemetry::Notice notice_of(const LedgerWriter::Unwritten& unwritten) const {
    const auto limit = std::chrono::duration_cast<std::chrono::milliseconds>(ledger_limit_);
    return {{}, unwritten.where, store::format_utc(unwritten.since_utc), store::format_utc(unwritten.since_utc + limit)};
  }

  RecordJournal& journal_;
  const LedgerWriter& ledger_;
  const Duration ledger_limit_;
  telemetry::NoticeBoard board_;
  DescriptorWatch descriptors_;
  StandstillWatch standstill_;
  std::optional<Duration> stood_;  ///< and not told yet
};

/// Serves the run from `state` until it is over, or `end` says so.
Result<void> lead(coordinator::State state, DecisionStore& decisions, Leadership* leadership, FrontDoor& door, net::Credentials looking,
                  EndSignal& end, OwnersWish& owner, RecordJournal& journal, const std::string& journal_place,
                  const std::function<void()>& open) {
  caf::actor_system_config config;
  add_messages(config);
  net::configure(config);
  caf::actor_system system{config};
  AcceptorFence fence{door.acceptor()};
  CoordinatorShell shell;  // it is there before anybody who greets it is looked for
  Lookout lookout{std::move(looking), [&shell](PeerId peer, std::string reason) {
                    caf::anon_send(shell, PeerGoneNow{peer, std::move(reason)});
                  }};
  LedgerWriter ledger{decisions, journal, journal_place};
  SelfWatch watch{journal, ledger, coordinator::open_ledger(state.options).limit};
  CoordinatorPorts ports{&ledger,
                         &fence,
                         &lookout,
                         monotonic_now,
                         [&end](std::optional<Error> cause) { end.end(std::move(cause)); },
                         [&end] { end.release(); },
                         end_stuck,
                         reason_log("coordinator")};
  shell = system.spawn<CoordinatorActorImpl>(std::move(state), ports);
  end_with(shell, "coordinator actor", [&end](Error cause) { end.end(std::move(cause)); });
  net::BaspTransport transport{system};
  transport.publish(caf::actor_cast<CoordinatorActor>(shell));
  door.lead_to(transport, leadership);
  open();
  const auto interrupted = [&](int count) {
    if (count == 1) caf::anon_send(shell, StopNow{});
    else end.end(Error{ErrorName::Interrupted, "the coordinator was told twice to end"});
  };
  auto cause = end.wait(interrupted, [&] {
    if (auto news = leadership != nullptr ? leadership->news() : std::nullopt) caf::anon_send(shell, CoordinatorsNow{*std::move(news)});
    if (const auto wish = owner.take()) caf::anon_send(shell, PauseNow{*wish == Wish::Pause});
    watch.look();
  });
  // Who leads no more has no last word.
  const bool at_once = cause && (cause->name == ErrorName::Interrupted || !leads_still(*cause));
  if (!at_once && !end.wait_for_release(LAST_WORD_LIMIT)) journal.append(events::LastWordUnanswered{LAST_WORD_LIMIT});
  caf::anon_send_exit(shell, caf::exit_reason::user_shutdown);
  system.await_all_actors_done();
  door.close();
  transport.shutdown_connections();
  if (cause) return fail(std::move(*cause));
  return {};
}

/// Waits until this process leads. `waits` is called once, when it has to.
Result<void> stand_by(Leadership& leadership, const std::string& address, EndSignal& turn, RecordJournal& journal,
                      const std::function<void()>& waits) {
  PRIME_TRY(auto leader, leadership.campaign());
  if (!leader) return {};
  const auto tell = [&] { journal.append(events::StandingBy{leader->address, address}); };
  tell();
  waits();
  const auto campaign = [&] {
    auto outcome = leadership.campaign();
    if (!outcome) return turn.end(outcome.error());
    if (!*outcome) return turn.end(std::nullopt);
    const bool other = (*outcome)->address != leader->address;
    leader = std::move(*outcome);
    if (other) tell();
  };
  auto cause = turn.wait(
      [&](int) {
        turn.end(Error{ErrorName::Interrupted, "it stood by for the coordinator at " + leader->address});
      },
      campaign);
  return cause ? Result<void>{fail(std::move(*cause))} : Result<void>{};
}

/// What was decided and could not be kept must not be told, nor may anything after it: this process ends on the spot.
[[noreturn]] void end_untold(const Error& cause, RecordJournal& journal) {
  journal.append(process_ended(fail(cause)));
  std::fputs(render(cause).c_str(), stderr);
  std::_Exit(info(cause.name).exit_code);
}

Result<void> serve(const CoordinatorOptions& options, const std::function<void(const ServedAt&)>& listening, OwnersWish& owner,
                   RecordJournal& journal) {
  EndSignal turn;
  EndSignal end;
  PRIME_TRY(const auto door, FrontDoor::open(options));
  const auto address = net::format_addresses(door->served().addresses);
  bool announced = false;
  const auto announce = [&] {
    if (!std::exchange(announced, true)) listening(door->served());
  };
  const auto path = options.directory / "coordinator" / "decisions.json";
  const auto& standby = options.manifest.shared.membership.standby;
  std::unique_ptr<Leadership> leadership;
  if (!standby.etcd.empty()) {
    const auto lost = [&](const Error& cause) {
      turn.end(cause);
      end.end(cause);
    };
    const auto refused = [&journal](const Error& cause) { end_untold(cause, journal); };
    PRIME_TRY(auto access, etcd::access_of(standby.etcd, options.manifest.local.etcd));
    PRIME_TRY(leadership, Leadership::enter({std::move(access), options.run, standby.lease, address, path}, {lost, refused}));
    PRIME_CHECK(stand_by(*leadership, address, turn, journal, announce));
    journal.append(events::Leading{address});
  }
  DecisionFile file{path, coordinator::open_ledger(machine_options(options)).limit};
  PRIME_TRY(const auto kept, kept_decisions(options, file, leadership.get()));
  PRIME_TRY(auto state, state_of(options, kept, journal));
  // All that is left to do is to end as the one before it would have.
  if (state.phase == coordinator::Phase::Over) {
    if (state.end_cause) return fail(*state.end_cause);
    if (leadership) journal.append(events::RunDone{.outer_step = OuterStep{state.revision.value}, .tokens = state.tokens});
    return {};
  }
  PRIME_TRY(auto looking, net::Credentials::make(options.key, options.run, net::Identity{net::Role::Peer, random_peer_id()}));
  DecisionStore& decisions = leadership ? static_cast<DecisionStore&>(*leadership) : file;
  return lead(std::move(state), decisions, leadership.get(), *door, std::move(looking), end, owner, journal,
              "the disk of " + (options.directory / "coordinator" / "journal.jsonl").string() + TAKES_NO_ENTRY, [&] {
                journal.append(events::CoordinatorListening{address});
                announce();
              });
}

}  // namespace

Result<void> run_coordinator(const CoordinatorOptions& options, const std::function<void(const ServedAt&)>& listening) {
  OwnersWish owner;
  PRIME_TRY(auto journal, RecordJournal::open(options.directory / "coordinator" / "journal.jsonl"));
  auto started = process_started<events::CoordinatorStarted>("coordinator", options.run);
  started.name = options.manifest.shared.run;
  started.guard_pid = options.guard;
  started.guard_start_ticks = telemetry::start_ticks(static_cast<pid_t>(options.guard)).value_or(0);
  if (const auto shards = options.manifest.shared.membership.shards; shards > 1) started.shards = shards;
  journal.append(started);
  auto outcome = serve(options, listening, owner, journal);
  journal.append(process_ended(outcome));
  return outcome;
}

void note_end(const std::filesystem::path& run_directory, const Error& cause) {
  const auto end = process_ended(fail(cause));
  // Where the journal cannot be written any more, that is the least of the troubles.
  if (auto journal = store::Journal::open(run_directory / "coordinator" / "journal.jsonl"))
    static_cast<void>(journal->append(info(JournalEvent{end}).name, telemetry::fields_of(end)));
}

}  // namespace prime

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/send.hpp>
#include <map>
#include <unistd.h>

#include "actors/coordinator/coordinator_actor.hpp"
#include "actors/coordinator/rollback_machine.hpp"
#include "runtime/agent/decision_file.hpp"
#include "runtime/agent/end_signal.hpp"
#include "runtime/agent/processes.hpp"
#include "runtime/agent/random_id.hpp"
#include "runtime/agent/record_journal.hpp"
#include "runtime/clock.hpp"
#include "runtime/manifest/canonical.hpp"
#include "runtime/net/acceptor.hpp"
#include "runtime/net/basp_transport.hpp"
#include "runtime/net/reachable.hpp"
#include "runtime/store/journal.hpp"
#include "runtime/telemetry/journal_fields.hpp"
#include "runtime/telemetry/process_identity.hpp"

namespace prime {
namespace {

/// How long the coordinator stays after the last word, so that every peer hears it.
constexpr Duration LAST_WORD_LIMIT = 5s;

/// What the journal tells of the coordinators before this one. One that was killed after it kept a decision and before the journal had it
/// leaves a gap there, which the next one fills.
struct Told {
  std::map<std::string, std::string> members;  ///< names by peer id, of those who were admitted and are not told as gone
  bool admitted = false;                       ///< whether anybody ever was
  std::uint64_t revision = 0;                  ///< of the last commit, or of what the run was rolled back to since
};

Result<Told> read_told(const std::filesystem::path& path) {
  Told told;
  PRIME_CHECK(store::JournalReader{path}.read_to_end([&](const store::JournalLine& line) {
    const auto peer = telemetry::text_field(line.fields, "peer").value_or("");
    if (line.event == "peer_admitted") told.members[peer] = telemetry::text_field(line.fields, "name").value_or("");
    if (line.event == "peer_lost" || line.event == "peer_left") told.members.erase(peer);
    if (line.event == "outer_step_committed" || line.event == "rolled_back")
      told.revision = telemetry::count_field(line.fields, "revision").value_or(0);
    told.admitted = told.admitted || line.event == "peer_admitted";
  }));
  return told;
}

/// Nobody was told then of what is missing there, but everybody will be.
void fill_gaps(Told told, const coordinator::Snapshot& kept, RecordJournal& journal) {
  if (kept.last_commit_record && told.revision < kept.revision.value) journal.append(*kept.last_commit_record);
  if (kept.restoring && told.revision > kept.revision.value)
    journal.append(coordinator::rollback::rolled_back_record(kept.epoch, Revision{told.revision}, *kept.checkpoint));
  for (const auto& kept_one : kept.members) told.members.erase(to_string(kept_one.member.id));
  // Whose loss made the run go back was told before that; all others were sent away by it, and join anew.
  const auto reason = kept.restoring ? coordinator::rollback::cause(kept.checkpoint->revision).detail
                                     : to_string(Error{ErrorName::PeerLost, "it went just before the coordinator ended"});
  for (const auto& [peer, name] : told.members)
    journal.append(Record{kept.restoring ? "peer_left" : "peer_lost"}.with("peer", peer).with("name", name).with("reason", reason));
}

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
  machine.measure_links = shared.topology.ring == manifest::RingOrder::MeasuredBandwidth;
  machine.measure_every = shared.topology.measure_every;
  machine.stop_when_alone = shared.sync.alone == manifest::Alone::Stop;
  machine.heartbeat_limit = shared.membership.heartbeat.dead_after;
  machine.deadline = shared.sync.deadline;
  machine.quorum = shared.sync.quorum;
  machine.grace = shared.sync.grace;
  if (const auto& origin = options.origin)
    machine.origin = coordinator::Origin{origin->revision, origin->state, origin->next_sample, origin->tokens};
  machine.wait_limit = shared.membership.wait_limit;
  return machine;
}

/// Fencing is the acceptor's: it knows the connections of a peer by its certificate.
class AcceptorFence final : public FencePort {
 public:
  void fence(PeerId peer) override {
    if (acceptor != nullptr) acceptor->fence(peer);
  }
  net::Acceptor* acceptor = nullptr;
};

/// What a coordinator before this one has decided, if there was one; told in the journal.
Result<coordinator::State> state_of(const CoordinatorOptions& options, const DecisionFile& decisions, RecordJournal& journal) {
  PRIME_TRY(const auto kept, decisions.read());
  const auto journal_path = options.directory / "coordinator" / "journal.jsonl";
  if (!kept && options.again) {
    PRIME_TRY(const auto told, read_told(journal_path));
    if (told.admitted) return fail(ErrorName::StorageFailed, decisions.path().string() + " is gone, and with it what this run has decided");
  }
  if (!kept) {
    if (const auto& origin = options.origin)
      journal.append(Record{"run_continues"}
                         .with("from", origin->run)
                         .with("outer_step", origin->outer_step.value)
                         .with("revision", origin->revision.value)
                         .with("digest", to_string(origin->state))
                         .with("tokens", origin->tokens));
    return coordinator::initial(machine_options(options), monotonic_now());
  }
  auto state = coordinator::restore(machine_options(options), *kept, monotonic_now());
  PRIME_TRY(auto told, read_told(journal_path));
  fill_gaps(std::move(told), *kept, journal);
  journal.append(Record{"coordinator_restarted"}
                     .with("epoch", state.view.epoch.value)
                     .with("revision", state.revision.value)
                     .with("members", std::uint64_t{state.view.members.size()}));
  return state;
}

Result<void> serve(const CoordinatorOptions& options, const std::function<void(const Endpoint&)>& listening, RecordJournal& journal) {
  EndSignal end;
  DecisionFile decisions{options.directory / "coordinator" / "decisions.json"};
  PRIME_TRY(auto state, state_of(options, decisions, journal));
  // All that is left to do is to end as the one before it would have.
  if (state.phase == coordinator::Phase::Over) return state.end_cause ? Result<void>{fail(*state.end_cause)} : Result<void>{};
  PRIME_TRY(auto credentials, net::Credentials::make(options.key, options.run, net::Identity{net::Role::Coordinator, random_peer_id()}));
  caf::actor_system_config config;
  add_messages(config);
  net::configure(config);
  caf::actor_system system{config};
  AcceptorFence fence;
  CoordinatorPorts ports{&journal,
                         &decisions,
                         &fence,
                         monotonic_now,
                         [&end](std::optional<Error> cause) { end.end(std::move(cause)); },
                         [&end] { end.release(); }};
  const auto shell = system.spawn<CoordinatorActorImpl>(std::move(state), ports);
  std::optional<Error> cause;
  {
    net::BaspTransport transport{system};
    transport.publish(caf::actor_cast<CoordinatorActor>(shell));
    net::AcceptorOptions acceptor_options;
    acceptor_options.listen = options.listen;
    auto acceptor = net::Acceptor::open(acceptor_options, credentials,
                                        [&transport](net::Protocol protocol, net::ChannelPtr channel, const std::string&) {
                                          if (protocol == net::Protocol::Control)
                                            transport.accept(std::move(channel));  // a coordinator has no lanes
                                        });
    if (acceptor) {
      fence.acceptor = acceptor->get();
      const Endpoint address{net::coordinator_host((*acceptor)->address().host, options.manifest.local.network.advertise),
                             (*acceptor)->address().port};
      journal.append(Record{"coordinator_listening"}.with("address", net::format_endpoint(address)));
      listening(address);
      const auto interrupted = [&](int count) {
        if (count == 1) caf::anon_send(shell, StopNow{});
        else end.end(Error{ErrorName::Interrupted, "the coordinator was told twice to end"});
      };
      cause = end.wait(interrupted, [] {});
      end.wait_for_release(cause && cause->name == ErrorName::Interrupted ? Duration{} : LAST_WORD_LIMIT);
    } else {
      cause = acceptor.error();
    }
    caf::anon_send_exit(shell, caf::exit_reason::user_shutdown);
    system.await_all_actors_done();
    if (acceptor) (*acceptor)->stop();
    fence.acceptor = nullptr;
    transport.shutdown_connections();
  }
  if (cause) return fail(std::move(*cause));
  return {};
}

}  // namespace

Result<void> run_coordinator(const CoordinatorOptions& options, const std::function<void(const Endpoint&)>& listening) {
  PRIME_TRY(auto journal, RecordJournal::open(options.directory / "coordinator" / "journal.jsonl"));
  const auto guard = ::getppid();
  journal.append(process_started("coordinator", options.run)
                     .with("name", options.manifest.shared.run)
                     .with("guard_pid", static_cast<std::uint64_t>(guard))
                     .with("guard_start_ticks", telemetry::start_ticks(guard).value_or(0)));
  auto outcome = serve(options, listening, journal);
  journal.append(process_ended(outcome));
  return outcome;
}

void note_end(const std::filesystem::path& run_directory, const Error& cause) {
  const nlohmann::json fields{{"exit_code", info(cause.name).exit_code}, {"reason", to_string(cause)}};
  // Where the journal cannot be written any more, that is the least of the troubles.
  if (auto journal = store::Journal::open(run_directory / "coordinator" / "journal.jsonl"))
    static_cast<void>(journal->append("process_ended", fields));
}

}  // namespace prime

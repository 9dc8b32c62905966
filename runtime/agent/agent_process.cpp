#include <atomic>
#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/send.hpp>
#include <mutex>
#include <system_error>
#include <thread>
#include <unistd.h>

#include "actors/peer/peer_actor.hpp"
#include "actors/supervisor/root.hpp"
#include "runtime/agent/end_signal.hpp"
#include "runtime/agent/fault_point.hpp"
#include "runtime/agent/memory_keeper.hpp"
#include "runtime/agent/peer_host.hpp"
#include "runtime/agent/process_watch.hpp"
#include "runtime/agent/processes.hpp"
#include "runtime/agent/random_id.hpp"
#include "runtime/agent/reason_log.hpp"
#include "runtime/agent/record_journal.hpp"
#include "runtime/agent/run_terms.hpp"
#include "runtime/agent/state_transfer.hpp"
#include "runtime/clock.hpp"
#include "runtime/lanes/dialing.hpp"
#include "runtime/lanes/engine.hpp"
#include "runtime/lanes/link_options.hpp"
#include "runtime/net/acceptor.hpp"
#include "runtime/net/basp_transport.hpp"
#include "runtime/net/dial.hpp"
#include "runtime/net/reachable.hpp"
#include "runtime/net/relay.hpp"
#include "runtime/net/send_cap.hpp"
#include "runtime/net/stop_signal.hpp"
#include "runtime/store/atomic_file.hpp"
#include "runtime/store/checkpoint.hpp"
#include "runtime/store/private_state.hpp"
#include "runtime/telemetry/error_text.hpp"
#include "runtime/telemetry/run_lock.hpp"

namespace prime {
namespace {

constexpr Duration CONNECT_LIMIT = 10s;
/// Of one attempt to reach a lost coordinator again.
constexpr Duration REDIAL_LIMIT = 3s;
/// For a coordinator that is started again just when an evicted peer joins anew.
constexpr Duration REJOIN_PATIENCE = 10s;
constexpr Duration REDIAL_PAUSE = 250ms;
/// A signal that ends the first dial is looked for so often, and the found coordinator waits so long for who looks.
constexpr Duration SIGNAL_BEAT = 20ms;
/// Of one process: who is evicted again and again is a burden to the others, and somebody should look at it.
constexpr supervisor::Options LIVES{5, 10min};
/// How long a reduce waits for the other end of a lane to open it anew: an attempt of its own to do so, all relays included, and a little.
constexpr Duration RECONNECT_GRACE = 6s;
/// After the farewell, until the coordinator has closed the connection.
constexpr Duration FAREWELL_LIMIT = 3s;
/// So long a trainer may go on when its run is done, or it has left.
constexpr Duration TRAINER_FAREWELL_LIMIT = 60s;

net::Transport transport_of(const manifest::Shared& shared) {
  return shared.trust.transport == manifest::Transport::Plain ? net::Transport::Plain : net::Transport::Tls;
}

/// Everything of one agent, in the order in which it must be destroyed (last member first).
class Agent {
 public:
  Agent(AgentOptions options, PeerId self, std::string name, std::filesystem::path directory, RecordJournal& journal,
        const std::function<void(const AgentIdentity&)>& welcome, Duration patience)
      : options_(std::move(options)),
        self_(self),
        name_(std::move(name)),
        directory_(std::move(directory)),
        journal_(journal),
        welcome_(welcome),
        patience_(patience),
        coordinator_(options_.invite.addresses) {}

  Result<void> run() {
    EndSignal end;
    end_ = &end;
    PRIME_CHECK(faults_.arm());
    const auto& network = options_.local.network;
    PRIME_TRY(const auto towards, net::addresses_towards(options_.invite.addresses, CONNECT_LIMIT));
    net::Listening listening{net::listen_towards(towards)};
    if (network.listen) {
      PRIME_TRY(const auto asked, net::parse_endpoint(*network.listen));
      listening = net::listening_for(asked);
    }
    // Before anything is opened: what could not be told is refused at once.
    PRIME_CHECK(net::peer_addresses(listening, listening.at.port, network.advertise, towards));
    PRIME_TRY(auto credentials, net::Credentials::make(options_.invite.key, options_.invite.run, net::Identity{net::Role::Peer, self_}));
    credentials_.emplace(std::move(credentials));
    if (network.cap_bits_per_s) cap_ = std::make_shared<net::SendCap>(*network.cap_bits_per_s / 8);
    make_engine();
    PRIME_CHECK(make_host());
    StateServer donors{[this] { return host_->snapshot(); }};
    net::AcceptorOptions acceptor_options;
    acceptor_options.listen = listening.at;
    acceptor_options.memory = network.shared_memory;
    acceptor_options.relay = [this](net::ChannelPtr asker, PeerId target) { relay_->serve(std::move(asker), target); };
    PRIME_TRY(const auto acceptor, net::Acceptor::open(acceptor_options, *credentials_,
                                                       [&](net::Protocol protocol, net::ChannelPtr channel, const std::string&) {
                                                         channel = net::capped(std::move(channel), cap_);
                                                         if (protocol == net::Protocol::Lane) engine_->adopt(std::move(channel));
                                                         if (protocol == net::Protocol::State) donors.serve(std::move(channel));
                                                       }));
    acceptor_ = acceptor.get();
    PRIME_TRY(const auto lanes, net::peer_addresses(listening, acceptor->address().port, network.advertise, towards));
    auto outcome = take_part(lanes);
    acceptor->stop();
    acceptor_ = nullptr;
    return outcome;
  }

  /// Whether the run took it: it was sent for the state, or trained.
  [[nodiscard]] bool entered() const { return entered_.load(); }
  /// By a signal, which may have come when its part was over already.
  [[nodiscard]] bool told_to_end() const { return told_to_end_; }
  /// Where the run was served last.
  [[nodiscard]] Addresses coordinator() const { return ways_.order(coordinator_); }

 private:
  ReduceTerms terms() {
    const std::lock_guard lock(terms_mutex_);
    return terms_;
  }

  void make_engine() {
    lanes::EngineOptions engine;
    engine.self = self_;
    engine.streams = [this] { return streams_.load(); };
    engine.dial = [this](const Member& member, net::DialLimit limit) {
      if (options_.local.network.shared_memory)
        if (auto local = net::dial_memory(*credentials_, member.id, limit)) return local;
      return capped(net::dial(member.lanes, net::Protocol::Lane, *credentials_, net::Expectation::peer(member.id), limit,
                              lane_transport_.load(), &ways_));
    };
    engine.dial_through = [this](const Member& through, const Member& member, net::DialLimit limit) {
      return capped(net::dial_through(through.lanes, through.id, net::Protocol::Lane, *credentials_, member.id, limit,
                                      lane_transport_.load(), &ways_));
    };
    engine.on_way = [this](PeerId to, PeerId through) { caf::anon_send(shell_, PeerHappening{peer::WayChanged{to, through}}); };
    engine.reconnect_grace = RECONNECT_GRACE;
    engine.on_chunk = [this](OperationId op, std::uint64_t done, std::uint64_t total) {
      faults_.reached(FaultPoint::Phase::Reducing, op, done, total);
    };
    engine_ = std::make_unique<lanes::LaneEngine>(std::move(engine));
    const auto find = [this](PeerId id) -> std::optional<Addresses> {
      const auto member = engine_->member(id);
      return member ? std::optional{ways_.order(member->lanes)} : std::nullopt;
    };
    relay_ = std::make_unique<net::Relay>(
        find, [this](PeerId id) { return engine_->is_gone(id); }, [](int fd) { (void)lanes::apply_link_options(fd); }, cap_);
  }

  /// What carries tensors or state is under `local.network.cap`; control is not, which is little and must not wait.
  Result<net::ChannelPtr> capped(Result<net::ChannelPtr> channel) const {
    if (channel) *channel = net::capped(*std::move(channel), cap_);
    return channel;
  }

  Result<void> make_host() {
    PeerHostOptions host;
    if (options_.trainer_descriptor) {
      PRIME_TRY(host.external, PacketSocket::inherit(*options_.trainer_descriptor));
    }
    host.run = options_.invite.run;
    host.self = self_;
    host.name = name_;
    host.shard = options_.shard;
    host.replica = options_.replica;
    host.shards = options_.shards;
    host.directory = directory_;
    host.checkpoints = directory_ / "checkpoints";
    host.origin = options_.checkpoint;
    host.private_state = options_.private_state;
    host.local = options_.local;
    host.default_trainer = options_.trainer_program;
    host.report = [this](peer::Event event) { caf::anon_send(shell_, PeerHappening{std::move(event)}); };
    host.trainer_died = [this](Error cause, bool began) { caf::anon_send(supervisor_, TrainerDied{std::move(cause), began}); };
    host.save = [this](peer::SaveState order) { caf::anon_send(supervisor_, SaveOrder{std::move(order)}); };
    host.dial_donor = [this](const FetchState& fetch, const manifest::Shared& shared) { return dial_donor(fetch, transport_of(shared)); };
    host.saving = [this](OuterStep step, bool done) {
      faults_.reached(FaultPoint::Phase::Saving, FaultPoint::Place{step.value}, done ? 1 : 0);
    };
    host.journal = [this](const JournalEvent& event) { journal_.append(event); };
    host.log = reason_log("trainer");
    host.members = [this](const View& view) { engine_->know(view); };
    host.configured = [this](const manifest::Shared& shared) {
      lane_transport_.store(transport_of(shared));
      // Only now is the manifest known: it comes with the welcome, which needs the address first.
      if (transport_of(shared) == net::Transport::Plain) acceptor_->allow_plain();
      streams_.store(shared.sync.wire.streams);
      {
        const std::lock_guard lock(terms_mutex_);
        terms_ = reduce_terms(shared);
      }
      welcome_(AgentIdentity{self_, name_, directory_});
    };
    host_ = std::make_unique<PeerHost>(std::move(host));
    return {};
  }

  Result<void> take_part(const Addresses& lanes) {
    caf::actor_system_config config;
    add_messages(config);
    net::configure(config);
    caf::actor_system system{config};
    std::optional<Error> cause;
    {
      net::BaspTransport transport{system};
      const auto found = [&] {
        net::StopSignal told;  // nobody else listens for signals yet
        const std::jthread listens([&](const std::stop_token& over) {
          while (!over.stop_requested())
            if (end_->signalled_within(SIGNAL_BEAT)) return told.stop();
        });
        return transport.remote_actor<CoordinatorActor>(*credentials_, options_.invite.addresses, {CONNECT_LIMIT, &told}, &ways_);
      };
      const auto until = monotonic_now() + patience_;
      auto coordinator = found();
      while (!coordinator && coordinator.error().name == ErrorName::RunUnreachable && monotonic_now() < until &&
             !end_->signalled_within(REDIAL_PAUSE))
        coordinator = found();
      if (!coordinator)
        return fail(std::move(coordinator.error())
                        .with_context("connecting to the coordinator at " + net::format_addresses(options_.invite.addresses)));
      transport_ = &transport;
      spawn_actors(system, *coordinator, lanes);
      DescriptorWatch descriptors{journal_};
      cause = end_->wait(
          [this](int count) {
            told_to_end_ = true;
            if (count == 1) caf::anon_send(shell_, PeerHappening{peer::LeaveRequested{}});
            else end_->end(Error{ErrorName::Interrupted, "interrupted twice"});
          },
          [&] {
            host_->watch();
            descriptors.look(monotonic_now());
          });
      (void)end_->wait_for_release(FAREWELL_LIMIT);
      // A trainer may have something to save after its last step, and would die with this process.
      const auto limit = monotonic_now() + TRAINER_FAREWELL_LIMIT;
      while (!cause && !told_to_end_ && host_->trainer_lives() && monotonic_now() < limit && !end_->signalled_within(SIGNAL_BEAT)) {
      }
      ends_.stop();
      redialing_ = {};
      end_actors(system);
      transport.shutdown_connections();
      transport_ = nullptr;
    }
    if (cause) return fail(std::move(*cause));
    return {};
  }

  void spawn_actors(caf::actor_system& system, const CoordinatorActor& coordinator, const Addresses& lanes) {
    const auto report = [this](peer::Event event) { caf::anon_send(shell_, PeerHappening{std::move(event)}); };
    ReduceWorkerPorts worker{engine_.get(), host_.get(), self_, [this] { return terms(); }, report, reason_log("reduce worker")};
    worker_ = system.spawn<ReduceWorkerImpl, caf::detached>(worker);
    SupervisorPorts supervisor;
    supervisor.checkpoint_server =
        CheckpointServerPorts{host_.get(), &journal_, report, [this](std::optional<Error> cause) { end_->end(std::move(cause)); }};
    supervisor.trainer = host_.get();
    supervisor.now = monotonic_now;
    supervisor.trainer_intensity = [this] { return host_->trainer_intensity(); };
    supervisor.log = reason_log("supervisor");
    supervisor_ = system.spawn<SupervisorImpl, caf::detached>(supervisor);
    peer::Options options;
    options.hello = Hello{PROTOCOL_VERSION, options_.invite.run, self_, name_, lanes, static_cast<std::uint32_t>(::getpid())};
    options.hello.shard = options_.shard;
    options.hello.replica = options_.replica;
    PeerPorts ports{coordinator,
                    worker_,
                    supervisor_,
                    host_.get(),
                    &faults_,
                    monotonic_now,
                    [this] { return engine_->bytes_moved() + host_->fetched_bytes(); },
                    [this](const Member& to) { measure(to); },
                    [this](const std::vector<Addresses>& others) { redial(others); },
                    [this](const peer::SaveState& order) { host_->save(order); },
                    [this] { end_->release(); },
                    [this](const peer::State& state) {
                      learn_members(state);
                      at_fault_point(state);
                    },
                    reason_log("peer")};
    // It begins with its first message, when what it causes to be reported finds its handle here.
    shell_ = system.spawn<PeerActorImpl, caf::lazy_init>(options, ports);
    const auto crashed = [this](Error cause) { end_->end(std::move(cause)); };
    end_with(worker_, "reduce worker", crashed);
    end_with(supervisor_, "supervisor", crashed);
    end_with(shell_, "peer actor", crashed);
    caf::anon_send(shell_, PeerHappening{peer::Tick{}});
  }

  /// Directly or through one of those that the coordinator named.
  Result<net::ChannelPtr> dial_donor(const FetchState& fetch, net::Transport transport) {
    const auto until = monotonic_now() + CONNECT_LIMIT;
    const auto directly = fetch.relays.empty() ? CONNECT_LIMIT : lanes::DIRECT_LIMIT;
    auto channel = net::dial(fetch.lanes, net::Protocol::State, *credentials_, net::Expectation::peer(fetch.donor), {directly, &ends_},
                             transport, &ways_);
    for (std::size_t i = 0; i < fetch.relays.size() && !channel; ++i) {
      const auto& through = fetch.relays[i];
      const auto share = (until - monotonic_now()) / static_cast<std::int64_t>(fetch.relays.size() - i);
      auto relayed = net::dial_through(through.lanes, through.id, net::Protocol::State, *credentials_, fetch.donor, {share, &ends_},
                                       transport, &ways_);
      if (relayed) return relayed;
      channel.error().detail += "; " + relayed.error().detail;
    }
    if (channel) return channel;
    const auto reason =
        channel.error().detail +
        "; on its machine, open this port (`local.network.listen` gives it a fixed one), or name an address that leads there "
        "(`local.network.advertise`)";
    journal_.append(events::DonorUnreached{fetch.donor, reason});
    return fail(ErrorName::FetchFailed, "its donor is not reached: " + reason);
  }

  void measure(const Member& to) {
    engine_->measure(to, [this, to = to.id](Result<std::uint64_t> speed) {
      caf::anon_send(shell_, PeerHappening{peer::MeasureEnded{to, std::move(speed)}});
    });
  }

  /// Dialing blocks, so it has a thread of its own; the machine asks again only after an answer.
  void redial(std::vector<Addresses> addresses) {
    std::erase(addresses, coordinator_);
    addresses.insert(addresses.begin(), coordinator_);
    const auto dial = [this, addresses = std::move(addresses)](const std::stop_token& ended) {
      transport_->shutdown_connections();  // of one that only fell silent
      std::optional<Error> cause;
      for (const auto& address : addresses) {
        if (ended.stop_requested()) break;
        auto found = transport_->remote_actor<CoordinatorActor>(*credentials_, address, {REDIAL_LIMIT, &ends_}, &ways_);
        if (found) {
          coordinator_ = address;
          return caf::anon_send(shell_, CoordinatorFound{std::move(*found)});
        }
        cause = std::move(found.error());
      }
      if (cause) caf::anon_send(shell_, PeerHappening{peer::RedialFailed{std::move(*cause)}});
    };
    try {
      redialing_ = std::jthread(dial);
    } catch (const std::system_error& thrown) {  // it is tried again later, when this agent may have threads again
      Error cause{ErrorName::MemoryUnavailable, std::string{"a thread to look for the coordinator: "} + thrown.what()};
      caf::anon_send(shell_, PeerHappening{peer::RedialFailed{std::move(cause)}});
    }
  }

  void end_actors(caf::actor_system& system) {
    for (const auto& actor :
         {caf::actor_cast<caf::actor>(shell_), caf::actor_cast<caf::actor>(worker_), caf::actor_cast<caf::actor>(supervisor_)})
      caf::anon_send_exit(actor, caf::exit_reason::user_shutdown);
    system.await_all_actors_done();
    // Nobody drives them any more; what they still say goes to actors that have ended, which the system must outlive.
    acceptor_->stop();
    relay_.reset();
    engine_.reset();
    host_->end();
    shell_ = PeerShell{};
    worker_ = ReduceWorkerActor{};
    supervisor_ = SupervisorActor{};
  }

  /// Who enters a step that it does not train in may be asked to pass something on before it reduces.
  void learn_members(const peer::State& state) {
    if (state.begin || state.fetch) entered_.store(true);
    if (!state.begin) return;
    const auto& view = state.begin->view;
    if (std::exchange(learnt_, std::pair{view.epoch, view.members.size()}) != std::pair{view.epoch, view.members.size()})
      engine_->know(view);
  }

  void at_fault_point(const peer::State& state) {
    if (!faults_.are_set()) return;
    if (peer::phase_of(state) == peer::Phase::Training && state.inner_steps > 0)
      faults_.reached(FaultPoint::Phase::Training, FaultPoint::Place{state.begin->step.value});
    for (const auto& each : state.operations)
      if (each.prepared) faults_.reached(FaultPoint::Phase::Voting, each.reduce.op);
    if (state.phase == peer::Phase::Fetching) faults_.reached(FaultPoint::Phase::Fetching, FaultPoint::Place{state.fetch->revision.value});
  }

  AgentOptions options_;
  PeerId self_;
  std::string name_;
  std::filesystem::path directory_;
  RecordJournal& journal_;
  std::function<void(const AgentIdentity&)> welcome_;
  std::shared_ptr<net::SendCap> cap_;  ///< of all that it sends but control; null: none
  net::StopSignal ends_;               ///< its dials
  Duration patience_;                  ///< with an address at which nobody serves the run
  Addresses coordinator_;              ///< written while redialing, which the machine knows to be over before it asks again
  bool told_to_end_ = false;
  EndSignal* end_ = nullptr;
  net::Acceptor* acceptor_ = nullptr;
  AgentFaults faults_{journal_, [this] { return host_->trainer_pid(); }};
  std::atomic<net::Transport> lane_transport_{net::Transport::Tls};
  std::atomic<std::uint32_t> streams_{1};
  std::mutex terms_mutex_;
  ReduceTerms terms_;  ///< guarded by terms_mutex_
  std::atomic<bool> entered_{false};
  std::pair<Epoch, std::size_t> learnt_;  ///< the last view of a step that the engine was told; the peer actor's own
  net::AddressMemory ways_;
  std::optional<net::Credentials> credentials_;
  std::unique_ptr<PeerHost> host_;
  std::unique_ptr<lanes::LaneEngine> engine_;
  std::unique_ptr<net::Relay> relay_;
  PeerShell shell_;
  ReduceWorkerActor worker_;
  SupervisorActor supervisor_;
  net::BaspTransport* transport_ = nullptr;  ///< while it takes part
  std::jthread redialing_;
};

/// What a peer has saved of one revision; empty: nothing.
struct OnDisk {
  std::filesystem::path checkpoint;
  std::filesystem::path private_state;
};

struct Life {
  Result<void> outcome;
  bool told_to_end = false;
  Addresses coordinator{};  ///< where the run was served last
  OnDisk saved{};           ///< the newest whole one that it wrote
};

OnDisk newest_whole(const std::filesystem::path& checkpoints) {
  const auto entries = store::list_checkpoints(checkpoints);
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
    const auto state = store::verify_checkpoint(entry->path);
    if (!state) continue;
    const auto beside = store::private_state_path(checkpoints, state->outer_step);
    const auto of_trainer = store::verify_private_state(beside);
    return {entry->path, of_trainer && of_trainer->state == state->state ? beside : std::filesystem::path{}};
  }
  return {};
}

/// Of a peer that the run never let in: its journal would read as a run that has failed here. Directories that hold nothing else go with
/// it.
void remove_traces(const std::filesystem::path& run_directory, const std::filesystem::path& peer_directory) {
  std::error_code ignored;
  if (!store::remove_directory_atomically(peer_directory)) return;
  std::filesystem::remove(run_directory / "peers", ignored);
  std::filesystem::remove(run_directory, ignored);
}

/// One life of a peer in the run, from the hello to its end, under an id and a journal of its own. `before`: who was sent away, when
/// this one takes part in its place.
Life live(const AgentOptions& options, PeerId self, std::optional<PeerId> before,
          const std::function<void(const AgentIdentity&)>& welcome) {
  const auto directory = options.directory / "peers" / (options.name + "-" + to_string(self).substr(0, 8));
  std::error_code made;
  std::filesystem::create_directories(directory, made);
  if (made) return {fail(ErrorName::StorageFailed, directory.string() + ": " + made.message())};
  const auto lock = telemetry::RunLock::take(directory);
  if (!lock) return {fail(lock.error())};
  auto journal = RecordJournal::open(directory / "journal.jsonl", NoRoom::IsKept);
  if (!journal) return {fail(std::move(journal.error()))};
  auto started = process_started<events::AgentStarted>("agent", options.invite.run);
  started.who = {self, options.name, options.replica, options.shard};
  started.instead_of = before;
  journal->append(started);
  std::atomic<bool> welcomed{false};
  const auto let_in = [&](const AgentIdentity& identity) {
    welcomed = true;
    welcome(identity);
  };
  Agent agent{options, self, options.name, directory, *journal, let_in, before ? REJOIN_PATIENCE : Duration{}};
  auto outcome = agent.run();
  journal->append(process_ended(outcome));
  const bool refused = !outcome && telemetry::is_refusal(outcome.error()) && !agent.entered();
  if (!before && (!welcomed || (refused && options.attended))) remove_traces(options.directory, directory);
  const bool rolled_back = !outcome && outcome.error().name == ErrorName::RolledBack;
  return {std::move(outcome), agent.told_to_end(), agent.coordinator(), rolled_back ? newest_whole(directory / "checkpoints") : OnDisk{}};
}

}  // namespace

Result<void> run_agent(AgentOptions options, const AgentPorts& ports) {
  keep_memory_beyond_death();
  supervisor::State lives{LIVES, {}, {}};
  std::optional<Error> eviction;  // of the life before, until the run has welcomed this one
  const auto welcome = [&](const AgentIdentity& identity) {
    eviction.reset();
    ports.welcome(identity);
  };
  std::optional<PeerId> before;
  for (auto self = random_peer_id();; self = random_peer_id()) {
    if (options.name.empty())
      options.name = options.replica.empty() ? readable_name(self) : options.replica + "." + std::to_string(options.shard);
    auto [outcome, told_to_end, coordinator, saved] = live(options, self, before, welcome);
    // What is wrong with the way in which it wants to join was wrong before, too, and is why it had to go.
    if (!outcome && eviction && outcome.error().name == ErrorName::Usage) return outcome;
    if (!outcome && eviction) return fail(std::move(*eviction).with_context("joining anew, which failed: " + to_string(outcome.error())));
    // A trainer that is not ours to start belongs to its program, which decides itself whether to join again.
    if (outcome || told_to_end || !peer::joins_anew(outcome.error()) || options.trainer_descriptor) return outcome;
    auto next = supervisor::child_died(std::move(lives), outcome.error(), monotonic_now());
    if (std::holds_alternative<supervisor::GiveUp>(next.decision))
      return fail(
          std::move(outcome.error())
              .with_context("taking part anew " + std::to_string(LIVES.restarts) + " times within " + format_duration(LIVES.within)));
    before = self;
    options.invite.addresses = std::move(coordinator);
    lives = std::move(next.state);
    eviction = outcome.error();
    ports.rejoining(*eviction);
    // What the run holds by now comes from a donor; what it was rolled back to, from the disk: this life's, or that of the one before.
    const bool fetches = eviction->name != ErrorName::RolledBack;
    if (!fetches && saved.checkpoint.empty()) continue;
    options.checkpoint = std::move(saved.checkpoint);
    options.private_state = std::move(saved.private_state);
  }
}

}  // namespace prime

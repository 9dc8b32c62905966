#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/send.hpp>

#include "actors/coordinator/coordinator_actor.hpp"
#include "runtime/agent/end_signal.hpp"
#include "runtime/agent/processes.hpp"
#include "runtime/agent/random_id.hpp"
#include "runtime/agent/record_journal.hpp"
#include "runtime/manifest/canonical.hpp"
#include "runtime/net/acceptor.hpp"
#include "runtime/net/basp_transport.hpp"

namespace prime {
namespace {

/// How long the coordinator stays after the last word, so that every peer hears it.
constexpr Duration FAREWELL_LIMIT = 5s;

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
  machine.stop_when_alone = shared.sync.alone == manifest::Alone::Stop;
  machine.heartbeat_limit = shared.membership.heartbeat.dead_after;
  machine.deadline = shared.sync.deadline;
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

Result<void> serve(const CoordinatorOptions& options, const std::function<void(const Endpoint&)>& listening, RecordJournal& journal) {
  EndSignal end;
  PRIME_TRY(auto credentials, net::Credentials::make(options.key, options.run, net::Identity{net::Role::Coordinator, random_peer_id()}));
  caf::actor_system_config config;
  add_messages(config);
  net::configure(config);
  caf::actor_system system{config};
  AcceptorFence fence;
  CoordinatorPorts ports{&journal, &fence, [] { return std::chrono::time_point_cast<Duration>(std::chrono::steady_clock::now()); },
                         [&end](std::optional<Error> cause) { end.end(std::move(cause)); }, [&end] { end.release(); }};
  const auto shell = system.spawn<CoordinatorActorImpl>(machine_options(options), ports);
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
      journal.append(Record{"coordinator_listening"}.with("address", net::format_endpoint((*acceptor)->address())));
      listening((*acceptor)->address());
      cause = end.wait([&end](int) { end.end(Error{ErrorName::Interrupted, "the coordinator was told to end"}); }, [] {});
      end.wait_for_release(cause && cause->name == ErrorName::Interrupted ? Duration{} : FAREWELL_LIMIT);
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
  journal.append(process_started("coordinator", options.run).with("name", options.manifest.shared.run));
  auto outcome = serve(options, listening, journal);
  journal.append(process_ended(outcome));
  return outcome;
}

}  // namespace prime

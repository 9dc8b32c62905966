// Owns what the peer's shell adds to its machine: how long it keeps others alive.
#include "actors/peer/peer_actor.hpp"

#include <boost/test/unit_test.hpp>
#include <caf/actor_system.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/scoped_actor.hpp>
#include <future>

BOOST_AUTO_TEST_SUITE(peer_actor)

using namespace prime;

namespace {

struct NoTrainer : TrainerPort {
  void start(const Welcome&) override {}
  void restart() override {}
  void start_over() override {}
  void begin(const BeginStep&) override {}
  void ask(const PublishNow&) override {}
  void finish(const RunDone&) override {}
  void stop(const std::optional<Error>&) override {}
};

struct NoJournal : JournalPort {
  void append(const JournalEvent&) override {}
};

/// Takes whatever it is sent, and holds `life` until it is destroyed.
class Neighbour : public caf::event_based_actor {
 public:
  Neighbour(caf::actor_config& config, std::shared_ptr<void> life) : caf::event_based_actor(config), life_(std::move(life)) {
    set_default_handler(caf::drop);
  }
  caf::behavior make_behavior() override {
    return {[](int) {}};
  }

 private:
  std::shared_ptr<void> life_;
};

}  // namespace

BOOST_AUTO_TEST_CASE(an_ended_peer_keeps_nobody_alive) {
  caf::actor_system_config config;
  add_messages(config);
  caf::actor_system system{config};
  NoTrainer trainer;
  NoJournal journal;
  std::promise<void> destroyed;
  auto gone = destroyed.get_future();
  PeerPorts ports;
  ports.trainer = &trainer;
  ports.journal = &journal;
  ports.now = [] { return Instant{}; };
  ports.moved_bytes = [] { return std::uint64_t{0}; };
  ports.settled = [] {};
  ports.observe = [](const peer::State&) {};
  std::shared_ptr<void> life(nullptr, [&](void*) { destroyed.set_value(); });
  ports.coordinator = caf::actor_cast<CoordinatorActor>(system.spawn<Neighbour>(life));
  ports.reduce_worker = caf::actor_cast<ReduceWorkerActor>(system.spawn<Neighbour>(life));
  ports.supervisor = caf::actor_cast<SupervisorActor>(system.spawn<Neighbour>(life));
  life.reset();
  // This handle stands for the notice of its death that nobody has read.
  const auto peer = system.spawn<PeerActorImpl>(peer::Options{}, std::move(ports));
  caf::scoped_actor self{system};
  self->send_exit(peer, caf::exit_reason::user_shutdown);
  self->wait_for(peer);
  BOOST_TEST((gone.wait_for(std::chrono::minutes(1)) == std::future_status::ready));
}

BOOST_AUTO_TEST_SUITE_END()

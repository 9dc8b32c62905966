// Owns what the coordinator's shell adds to its machine: when nobody holds the process any more.
#include "actors/coordinator/coordinator_actor.hpp"

#include <boost/test/unit_test.hpp>
#include <caf/actor_system.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/scoped_actor.hpp>
#include <functional>
#include <future>
#include <mutex>
#include <utility>

BOOST_AUTO_TEST_SUITE(coordinator_actor)

using namespace prime;

namespace {

/// Writes at once, or when the test says so.
class Ledger final : public LedgerPort {
 public:
  void write(coordinator::Entry, std::function<void()> done) override {
    std::unique_lock lock{mutex_};
    if (stands_still_) waiting_ = std::move(done);
    else done();
  }
  void stand_still() {
    const std::lock_guard lock{mutex_};
    stands_still_ = true;
  }
  void go_on() {
    const std::lock_guard lock{mutex_};
    stands_still_ = false;
    if (waiting_) std::exchange(waiting_, {})();
  }

 private:
  std::mutex mutex_;
  bool stands_still_ = false;
  std::function<void()> waiting_;
};
struct NoFence : FencePort {
  void fence(PeerId) override {}
};

struct NoLookout : LookoutPort {
  void look_for(PeerId, const Addresses&) override {}
};

Hello hello_of(std::uint64_t peer) { return Hello{PROTOCOL_VERSION, "run", PeerId{peer}, "p" + std::to_string(peer), Endpoint{"h", 1}, 1}; }

struct Heard {
  std::promise<void> welcome;
  std::promise<ErrorName> dismissed;
  std::promise<void> beat;
};

/// Says hello and tells what it hears; it stays until it is sent away by the test.
caf::behavior guest(caf::event_based_actor* self, const CoordinatorActor& coordinator, std::uint64_t id, Heard* heard) {
  self->set_default_handler(caf::drop);
  self->send(coordinator, hello_of(id));
  return {[heard](const Welcome&) { heard->welcome.set_value(); }, [heard](const HeartbeatSeen&) { heard->beat.set_value(); },
          [heard](const Dismissed& m) { heard->dismissed.set_value(m.cause.name); },
          [self, coordinator](const Heartbeat& m) { self->send(coordinator, m); }};
}

struct Stage {
  Stage() {
    ports.ledger = &ledger;
    ports.fence = &fence;
    ports.lookout = &lookout;
    ports.now = [this] { return Instant{now_ms.load() * 1ms}; };
    ports.finished = [this](const std::optional<Error>&) { finished.set_value(); };
    ports.deserted = [this] {
      if (deserted_times++ == 0) deserted.set_value();
    };
    ports.stuck = [this](const Error& cause) {
      if (!std::exchange(is_stuck, true)) stuck.set_value(cause.name);
    };
    options.run = "run";
    options.wait_limit = 1s;
  }
  Ledger ledger;
  NoFence fence;
  NoLookout lookout;
  std::atomic<std::int64_t> now_ms{0};
  std::promise<void> finished;
  std::promise<void> deserted;
  std::atomic<int> deserted_times{0};
  std::promise<ErrorName> stuck;
  bool is_stuck = false;
  coordinator::Options options;
  CoordinatorPorts ports;
};

struct System {
  System() { add_messages(config); }
  caf::actor_system_config config;
};

/// A coordinator whose disk stands still, and a guest of whom it has decided while it answered its heartbeat.
struct Undecided {
  Undecided() {
    stage.options.wait_limit = 60min;
    stage.ledger.stand_still();
    coordinator = system.spawn<CoordinatorActorImpl>(coordinator::initial(stage.options, stage.ports.now()), stage.ports);
    peer = system.spawn(guest, caf::actor_cast<CoordinatorActor>(coordinator), 1, &heard);
    caf::anon_send(peer, Heartbeat{});
    BOOST_REQUIRE((heard.beat.get_future().wait_for(std::chrono::minutes(1)) == std::future_status::ready));
  }
  ~Undecided() {
    caf::anon_send_exit(peer, caf::exit_reason::user_shutdown);
    caf::anon_send_exit(coordinator, caf::exit_reason::user_shutdown);
  }
  Undecided(const Undecided&) = delete;
  Undecided& operator=(const Undecided&) = delete;

  System words;
  Stage stage;
  Heard heard;
  caf::actor_system system{words.config};
  CoordinatorShell coordinator;
  caf::actor peer;
};

template <class T>
T comes(std::promise<T>& event) {
  auto future = event.get_future();
  BOOST_REQUIRE((future.wait_for(std::chrono::minutes(1)) == std::future_status::ready));
  return future.get();
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_run_that_nobody_joined_holds_its_process_no_longer_than_its_end) {
  System words;
  Stage stage;
  caf::actor_system system{words.config};
  const auto coordinator = system.spawn<CoordinatorActorImpl>(coordinator::initial(stage.options, stage.ports.now()), stage.ports);
  stage.now_ms = 2000;
  comes(stage.finished);
  comes(stage.deserted);
  caf::anon_send_exit(coordinator, caf::exit_reason::user_shutdown);
}

BOOST_AUTO_TEST_CASE(only_guests_that_are_there_at_the_end_hold_the_process_and_one_that_comes_after_it_is_sent_away) {
  System words;
  Stage stage;
  Heard first;
  Heard second;
  Heard late;
  caf::actor_system system{words.config};
  const auto coordinator = system.spawn<CoordinatorActorImpl>(coordinator::initial(stage.options, stage.ports.now()), stage.ports);
  const auto handle = caf::actor_cast<CoordinatorActor>(coordinator);
  caf::scoped_actor self{system};
  const auto leave = [&](const caf::actor& who) {
    self->send_exit(who, caf::exit_reason::user_shutdown);
    self->wait_for(who);
  };
  const auto passer_by = system.spawn(guest, handle, 1, &first);
  comes(first.welcome);
  leave(passer_by);
  const auto resident = system.spawn(guest, handle, 2, &second);
  comes(second.welcome);
  stage.now_ms = 2000;
  comes(stage.finished);
  BOOST_CHECK(comes(second.dismissed) == ErrorName::TooFewPeers);
  BOOST_TEST(stage.deserted_times.load() == 0);
  leave(resident);
  comes(stage.deserted);
  const auto straggler = system.spawn(guest, handle, 3, &late);
  BOOST_CHECK(comes(late.dismissed) == ErrorName::RunDone);
  leave(straggler);
  caf::anon_send_exit(coordinator, caf::exit_reason::user_shutdown);
}

BOOST_AUTO_TEST_CASE(the_reason_of_each_transition_is_given_to_the_log) {
  System words;
  Stage stage;
  Heard heard;
  std::promise<std::string> reason;
  stage.ports.log = [&, told = false](const std::string& text) mutable {
    if (!std::exchange(told, true)) reason.set_value(text);
  };
  caf::actor_system system{words.config};
  const auto coordinator = system.spawn<CoordinatorActorImpl>(coordinator::initial(stage.options, stage.ports.now()), stage.ports);
  const auto peer = system.spawn(guest, caf::actor_cast<CoordinatorActor>(coordinator), 1, &heard);
  BOOST_TEST(comes(reason) == "p1 is welcome");
  caf::anon_send_exit(peer, caf::exit_reason::user_shutdown);
  caf::anon_send_exit(coordinator, caf::exit_reason::user_shutdown);
}

BOOST_FIXTURE_TEST_CASE(a_heartbeat_is_answered_while_the_disk_stands_still_and_nothing_is_told_before_it_is_written, Undecided) {
  auto welcome = heard.welcome.get_future();
  BOOST_CHECK((welcome.wait_for(std::chrono::seconds(0)) == std::future_status::timeout));  // it was decided before the heartbeat came
  stage.ledger.go_on();
  BOOST_CHECK((welcome.wait_for(std::chrono::minutes(1)) == std::future_status::ready));
}

BOOST_FIXTURE_TEST_CASE(a_disk_that_stands_still_for_longer_than_peers_look_for_a_coordinator_ends_it, Undecided) {
  stage.now_ms = 61'000;
  BOOST_CHECK(comes(stage.stuck) == ErrorName::StorageFailed);
  stage.ledger.go_on();
}

BOOST_AUTO_TEST_SUITE_END()

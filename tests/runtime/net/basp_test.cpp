// Owns the tests of actors across processes: what CAF's own transports get wrong (spec/caf.md §7) must not happen here.
#include <array>
#include <boost/test/unit_test.hpp>
#include <caf/actor_registry.hpp>
#include <caf/io/middleman.hpp>
#include <caf/io/network/multiplexer.hpp>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <optional>
#include <spawn.h>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <vector>

#include "tests/runtime/net/basp_support.hpp"
#include "tests/runtime/net/support.hpp"

extern char** environ;  // NOLINT: posix_spawn wants it

using namespace prime;
using namespace prime::net;
using namespace prime::net::test;

namespace {

/// Another process, with a pipe to its input and one from its output. Killed, if need be, and reaped at the end.
class Process {
 public:
  Process(const std::string& role, const std::string& invite, std::uint64_t number) {
    std::array<int, 2> in{};
    std::array<int, 2> out{};
    BOOST_REQUIRE((::pipe2(in.data(), O_CLOEXEC) == 0 && ::pipe2(out.data(), O_CLOEXEC) == 0));
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], 0);
    posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    std::array<std::string, 4> words{BASP_PROCESS, role, invite, std::to_string(number)};
    std::array<char*, 5> arguments{words[0].data(), words[1].data(), words[2].data(), words[3].data(), nullptr};
    BOOST_REQUIRE(::posix_spawn(&pid_, BASP_PROCESS, &actions, nullptr, arguments.data(), environ) == 0);
    posix_spawn_file_actions_destroy(&actions);
    ::close(in[0]);
    ::close(out[1]);
    input_ = in[1];
    output_ = out[0];
  }
  Process(Process&& other) noexcept
      : pid_(std::exchange(other.pid_, 0)), input_(std::exchange(other.input_, -1)), output_(std::exchange(other.output_, -1)) {}
  Process& operator=(Process&&) = delete;
  ~Process() { kill(); }

  /// The next line that it says; empty when it ends or stays silent.
  std::string line() {
    std::string text;
    char next = 0;
    while (wait_ready(output_, POLLIN, monotonic_now() + PATIENCE) && ::read(output_, &next, 1) == 1 && next != '\n') text += next;
    return text;
  }
  void send_signal(int number) const { ::kill(pid_, number); }
  void kill() {
    if (pid_ == 0) return;
    ::kill(pid_, SIGKILL);
    reap();
  }
  /// Ends its input and waits for it; its exit status.
  int end() {
    ::close(std::exchange(input_, -1));
    return reap();
  }

 private:
  int reap() {
    int status = 0;
    ::waitpid(std::exchange(pid_, 0), &status, 0);
    if (input_ >= 0) ::close(input_);
    ::close(output_);
    return status;
  }
  pid_t pid_ = 0;
  int input_ = -1;
  int output_ = -1;
};

Invite invite_to(const Endpoint& address, const RunKey& key = RunKey::generate()) { return {address, "run", key}; }
const Endpoint ANY_PORT{"127.0.0.1", 0};

/// A coordinator in this process, and the invite that leads to it.
struct Home {
  Invite invite = invite_to(ANY_PORT);
  Coordinator coordinator{invite, 77};
  Home() {
    BOOST_REQUIRE(coordinator.acceptor);
    invite.addresses = coordinator.acceptor->address();
  }
  [[nodiscard]] Process peer(std::uint64_t number) const {
    Process process("peer", format_invite(invite), number);
    const std::string said = process.line();
    BOOST_REQUIRE_MESSAGE(said.starts_with("ready 77 "), said);
    return process;
  }
};

/// An actor system that dials.
struct Visitor {
  Config config;
  caf::actor_system system{config};
  BaspTransport transport{system};
  Credentials own;
  explicit Visitor(const RunKey& key) : own(credentials(key, PeerId{500})) {}

  std::optional<std::uint64_t> greet(const ServerActor& server) {
    std::optional<std::uint64_t> incarnation;
    caf::scoped_actor self(system);
    self->request(server, PATIENCE, std::uint64_t{1000})
        .receive([&](std::uint64_t answer) { incarnation = answer; }, [](const caf::error&) {});
    return incarnation;
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(deaths_and_bad_guests_cost_no_healthy_peer_its_connection) {
  const Home home;
  std::vector<Process> healthy;
  for (std::uint64_t number = 0; number < 8; ++number) healthy.push_back(home.peer(number));

  std::vector<Guest> mute;
  const auto stranger = credentials(RunKey::generate(), PeerId{600});
  for (int round = 0; round < 100; ++round) {
    mute.emplace_back(home.invite.addresses.list.front().port);
    if (round % 4 == 0) mute.back().say(half_a_client_hello());
    if (round % 4 == 1) mute.back().say("garbage");
    BOOST_TEST(!dial(home.invite.addresses, Protocol::Control, stranger, Expectation::coordinator(), PATIENCE).has_value());
  }
  for (std::uint64_t number = 100; number < 115; ++number) {
    Process victim = home.peer(number);
    victim.kill();
    BOOST_TEST(home.coordinator.board->wait([&](const auto& lost) { return lost.contains(number); }));
  }
  for (Guest& guest : mute) BOOST_TEST(guest.hung_up_on());

  for (std::uint64_t number = 0; number < 8; ++number) BOOST_TEST(!home.coordinator.board->lost().contains(number));
  for (Process& each : healthy) BOOST_TEST(each.end() == 0);
}

BOOST_AUTO_TEST_CASE(a_fence_is_seen_as_the_loss_of_that_peer_alone) {
  const Home home;
  Process first = home.peer(1);
  Process second = home.peer(2);
  BOOST_TEST(home.coordinator.acceptor->fence(PeerId{1}) == 1U);
  BOOST_TEST(home.coordinator.board->wait([](const auto& lost) { return lost.contains(1); }));
  BOOST_TEST(!home.coordinator.board->lost().contains(2));
  BOOST_TEST(first.end() == 0);
}

BOOST_AUTO_TEST_CASE(a_frozen_peer_with_unsent_data_does_not_hold_up_the_end) {
  std::optional<Process> frozen;
  {
    const Home home;
    frozen.emplace(home.peer(1));
    frozen->send_signal(SIGSTOP);
    const caf::actor peer = home.coordinator.board->peer(1);
    for (int count = 0; count < 64; ++count) caf::anon_send(peer, Blob(MIB, 1));
  }
  frozen->send_signal(SIGCONT);
  frozen->kill();
}

BOOST_AUTO_TEST_CASE(starting_and_ending_a_hundred_times_is_clean) {
  for (int life = 0; life < 100; ++life) {
    const Home home;
    Visitor visitor(home.invite.key);
    const auto server = visitor.transport.remote_actor<ServerActor>(visitor.own, home.invite.addresses, PATIENCE);
    BOOST_REQUIRE(server);
    BOOST_TEST((visitor.greet(*server) == 77U));
  }
}

// Seen by the address sanitizer alone, which looks for what is lost when this process ends.
BOOST_AUTO_TEST_CASE(a_heartbeat_at_the_very_end_keeps_no_broker_alive) {
  for (int life = 0; life < 300; ++life) {
    Config config;
    config.set("middleman.heartbeat-interval", caf::timespan(20ms));
    caf::actor_system system{config};
    const BaspTransport transport{system};
    std::this_thread::sleep_for(std::chrono::microseconds(19000 + 10 * life));  // each life ends at another moment of the beat
  }
}

BOOST_AUTO_TEST_CASE(a_connection_that_a_tick_closes_before_it_began_leaves_nothing) {
  const Home home;
  const auto descriptors = [] { return std::distance(std::filesystem::directory_iterator{"/proc/self/fd"}, {}); };
  const auto before = descriptors();
  for (int life = 0; life < 20; ++life) {
    Config config;
    config.set("middleman.heartbeat-interval", caf::timespan(20ms));
    caf::actor_system system{config};
    BaspTransport transport{system};
    // While its thread sleeps, the request to connect and the tick gather, and are done in one round.
    system.middleman().backend().post([] { std::this_thread::sleep_for(25ms); });
    static_cast<void>(transport.remote_actor<ServerActor>(credentials(home.invite.key, PeerId{2}), home.invite.addresses, PATIENCE));
  }
  // The other end hears of the last ones' ends in its own time.
  const auto patience = monotonic_now() + PATIENCE;
  while (descriptors() > before && monotonic_now() < patience) std::this_thread::sleep_for(5ms);
  BOOST_TEST(descriptors() <= before);
}

BOOST_AUTO_TEST_CASE(a_restarted_coordinator_is_never_mistaken_for_the_dead_one) {
  const RunKey key = RunKey::generate();
  Visitor visitor(key);
  // An invite needs a port; one that was free a moment ago will do.
  const Invite invite = invite_to(Host(credentials(key, PeerId{1})).address(), key);
  for (std::uint64_t life = 1; life <= 50; ++life) {
    Process coordinator("coordinator", format_invite(invite), life);
    const std::string said = coordinator.line();
    BOOST_REQUIRE_MESSAGE(said.starts_with("ready "), said);
    const auto server = visitor.transport.remote_actor<ServerActor>(visitor.own, invite.addresses, PATIENCE);
    BOOST_REQUIRE_MESSAGE(server.has_value(), (server ? std::string() : to_string(server.error())));
    BOOST_TEST((visitor.greet(*server) == life));
    coordinator.kill();
  }
}

BOOST_AUTO_TEST_CASE(megabytes_cross_without_a_wrong_byte) {
  const Home home;
  Visitor visitor(home.invite.key);
  const auto server = visitor.transport.remote_actor<ServerActor>(visitor.own, home.invite.addresses, PATIENCE);
  BOOST_REQUIRE(server);
  Blob sent(4 * MIB);
  for (std::size_t at = 0; at < sent.size(); ++at) sent[at] = static_cast<std::uint8_t>((at * 2654435761U) >> 11);
  Blob got;
  caf::scoped_actor self(visitor.system);
  self->request(*server, PATIENCE, sent).receive([&](Blob& answer) { got = std::move(answer); }, [](const caf::error&) {});
  BOOST_TEST((got == sent));
}

BOOST_AUTO_TEST_CASE(failures_to_connect_have_names) {
  const Home home;
  Visitor visitor(home.invite.key);
  const auto other_interface = visitor.transport.remote_actor<OtherActor>(visitor.own, home.invite.addresses, PATIENCE);
  BOOST_REQUIRE(!other_interface);
  BOOST_TEST((other_interface.error().name == ErrorName::ProtocolViolation));
  const auto wrong_key =
      visitor.transport.remote_actor<ServerActor>(credentials(RunKey::generate(), PeerId{1}), home.invite.addresses, PATIENCE);
  BOOST_REQUIRE(!wrong_key);
  BOOST_TEST((wrong_key.error().name == ErrorName::KeyRefused));
  // The acceptor of a peer takes the connection, but nothing speaks BASP behind it.
  Host mute(credentials(home.invite.key, PeerId{2}, Role::Coordinator));
  const auto silence = visitor.transport.remote_actor<ServerActor>(visitor.own, mute.address(), 200ms);
  BOOST_REQUIRE(!silence);
  BOOST_TEST((silence.error().name == ErrorName::RunUnreachable));
}

BOOST_AUTO_TEST_CASE(nobody_finds_a_spawn_server) {
  Config config;
  caf::actor_system system{config};
  const auto found = [&] { return system.registry().get(caf::atom("SpawnServ")) != nullptr; };
  BOOST_TEST(found());
  const BaspTransport transport{system};
  BOOST_TEST(!found());
}

BOOST_AUTO_TEST_CASE(every_actor_system_has_an_identity_of_its_own) {
  const Home home;
  const auto identity = [&](std::uint64_t number) {
    Process process("peer", format_invite(home.invite), number);
    const std::string said = process.line();
    // "ready 77 HOST#PID": the host part alone must differ, since processes of two namespaces may share their number.
    const std::string node = said.substr(said.rfind(' ') + 1);
    BOOST_TEST(process.end() == 0);
    return node.substr(0, node.find('#'));
  };
  const std::string first = identity(1);
  BOOST_TEST(first.size() == 40U);
  BOOST_TEST(first != identity(2));
}

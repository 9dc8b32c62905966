// Checks the host of a trainer against real child processes: a whole life, every way to end it, and restarts.
#include <algorithm>
#include <array>
#include <boost/test/unit_test.hpp>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <functional>
#include <poll.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

#include "tests/runtime/session/quadratic.hpp"
#include "tests/runtime/session/test_agent.hpp"

BOOST_AUTO_TEST_SUITE(trainer_host)

using namespace prime;
using namespace prime::test;

namespace {

struct Fixture {
  Fixture() {
    std::string pattern = (std::filesystem::temp_directory_path() / "prime-host-XXXXXX").string();
    BOOST_REQUIRE(::mkdtemp(pattern.data()) != nullptr);
    directory = pattern;
  }
  ~Fixture() {
    agent.host.reset();
    std::filesystem::remove_all(directory);
  }
  [[nodiscard]] TrainerCommand command(const std::string& mode) const { return {{TEST_TRAINER, mode}, {}, directory / "trainer.log"}; }
  void start(const std::string& mode, Duration grace = 30s) {
    agent.start(command(mode), {grace});
    if (mode != "mute") agent.expect<TrainerExported>();
  }
  /// All that the trainer learned, in the order of the layout.
  [[nodiscard]] std::vector<float> by_hand(std::uint32_t steps) const {
    auto values = initial_values(7, 1.0F);
    const auto rest = initial_values(6, -4.0F);
    values.insert(values.end(), rest.begin(), rest.end());
    ByHand reference{values};
    for (std::uint32_t step = 0; step < steps; ++step) reference.step(3);
    return reference.values;
  }
  void check_equal(std::uint32_t steps) {
    const auto expected = by_hand(steps);
    std::vector<float> held;
    for (const auto& fragment : agent.state->fragments()) held.insert(held.end(), fragment.parameters.begin(), fragment.parameters.end());
    BOOST_TEST(held == expected, boost::test_tools::per_element());
  }

  std::filesystem::path directory;
  TestAgent agent;
};

/// From now on this process can open nothing.
struct NoDescriptors {
  NoDescriptors() {
    ::getrlimit(RLIMIT_NOFILE, &before);
    rlimit few = before;
    few.rlim_cur = 128;
    ::setrlimit(RLIMIT_NOFILE, &few);
    for (int number = ::open("/dev/null", O_RDONLY | O_CLOEXEC); number >= 0; number = ::open("/dev/null", O_RDONLY | O_CLOEXEC))
      held.emplace_back(number);
  }
  ~NoDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before); }
  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;

  rlimit before{};
  std::vector<Descriptor> held;
};

}  // namespace

BOOST_FIXTURE_TEST_CASE(a_trainer_does_not_notice_that_its_model_is_divided, Fixture) {
  agent.division = {2, FragmentPattern::Balanced};
  start("well");
  agent.seat();
  BOOST_REQUIRE(agent.state->fragments().size() == 2U);
  for (std::uint32_t step = 1; step <= 4; ++step) {
    agent.step();
    check_equal(step);
  }
  BOOST_TEST(agent.state->counters().tokens == 120U);
}

BOOST_FIXTURE_TEST_CASE(a_trainer_lives_through_several_steps_and_leaves_equal_to_the_reference, Fixture) {
  agent.start(command("well"));
  BOOST_TEST(agent.host->pid() != 0U);
  BOOST_TEST(agent.expect<TrainerExported>().content == R"({"fresh": true})");
  agent.seat();
  for (std::uint32_t step = 1; step <= 4; ++step) {
    const auto contribution = agent.step();
    BOOST_TEST(contribution.step.value == step);
    BOOST_TEST(contribution.weight == 30U);
    BOOST_TEST(contribution.samples == 6U);
    BOOST_TEST(contribution.held_out->loss == 0.5);
    check_equal(step);
  }
  BOOST_TEST(agent.state->counters().tokens == 120U);
  agent.finish();
  const auto answer = agent.expect<TrainerFinal>().answer;
  BOOST_TEST(answer.held_out->loss == 0.25);
  BOOST_TEST(answer.sample == "once upon");
  agent.expect<TrainerLeft>();
  BOOST_TEST(agent.host->pid() == 0U);
}

BOOST_FIXTURE_TEST_CASE(a_trainer_killed_in_any_phase_is_lost_by_name_and_its_successor_goes_on_from_the_same_state, Fixture) {
  using Phase = std::function<void()>;
  const std::vector<std::pair<std::string, Phase>> phases = {
      {"mute", [] {}},
      {"well", [&] { agent.expect<TrainerBound>(); }},
      {"well", [&] { agent.seat(); }},
      {"endless",
       [&] {
         agent.seat();
         agent.begin(TestAgent::ENDLESS);
         while (!std::holds_alternative<TrainerInner>(agent.events.pop())) {
         }
       }},
      {"well",
       [&] {
         agent.seat();
         agent.begin();
         agent.expect<TrainerContributed>();
       }},
      {"well",
       [&] {
         agent.seat();
         agent.step();
       }},
      {"linger",
       [&] {
         agent.seat();
         agent.finish();
         agent.expect<TrainerFinal>();
       }},
  };
  start("well");
  agent.seat();
  agent.step();
  agent.host->kill();
  BOOST_TEST(agent.expect<TrainerLost>().cause.detail == "ended by the agent, killed by SIGKILL");
  for (const auto& [mode, reach] : phases) {
    BOOST_TEST_CONTEXT("mode " << mode) {
      const auto digest = agent.state->digest();
      const auto step = agent.state->fragments()[0].version.value;
      agent.events.clear();
      start(mode);
      reach();
      BOOST_REQUIRE(::kill(static_cast<pid_t>(agent.host->pid()), SIGKILL) == 0);
      const auto lost = agent.expect<TrainerLost>();
      const std::string how = mode == std::string{"mute"} ? "killed by SIGKILL, before it had connected to its agent" : "killed by SIGKILL";
      // The kernel may have killed another process of this machine for want of memory, just before.
      const auto probably = how + ", probably for want of memory: the kernel has killed a process of this machine for that";
      BOOST_TEST((lost.cause == Error(ErrorName::TrainerFailed, how) || lost.cause == Error(ErrorName::TrainerFailed, probably)),
                 lost.cause.detail);
      if (agent.state->fragments()[0].version.value == step) BOOST_TEST((agent.state->digest() == digest));
    }
  }
  agent.start(command("well"));
  BOOST_TEST(agent.expect<TrainerExported>().content == R"({"fresh": false})");
  agent.seat();
  const auto step = static_cast<std::uint32_t>(agent.step().step.value);
  check_equal(step);
  BOOST_TEST(step == 3U);
}

BOOST_FIXTURE_TEST_CASE(a_trainer_that_exits_by_itself_is_lost_with_its_status, Fixture) {
  start("exit");
  agent.seat();
  agent.begin();
  BOOST_TEST(agent.expect<TrainerLost>().cause.detail == "exit status 3");
}

BOOST_FIXTURE_TEST_CASE(a_trainer_that_leaves_has_left_and_one_that_fails_says_why, Fixture) {
  start("leave");
  agent.seat();
  agent.begin();
  agent.expect<TrainerLeft>();
  start("fail");
  agent.seat();
  agent.begin();
  BOOST_TEST((agent.expect<TrainerFailed>().cause == Error(ErrorName::DataTooSmall, "3 bytes")));
}

BOOST_FIXTURE_TEST_CASE(a_stop_ends_a_waiting_trainer_by_its_message_and_a_deaf_one_by_force, Fixture) {
  start("well");
  agent.seat();
  agent.host->stop(std::nullopt);
  agent.expect<TrainerLeft>();
  start("endless", 1ms);
  agent.seat();
  agent.begin(TestAgent::ENDLESS);
  agent.host->stop(Error(ErrorName::CoordinatorLost, "gone"));
  agent.expect<TrainerLeft>();
  start("stubborn", 1ms);
  agent.host->stop(std::nullopt);
  agent.expect<TrainerLeft>();
  BOOST_TEST(agent.host->pid() == 0U);
}

BOOST_FIXTURE_TEST_CASE(a_program_that_cannot_be_started_is_a_failed_start, Fixture) {
  const auto start_of = [&](const TrainerCommand& wanted) { return TrainerHost::start(wanted, {}, agent.handler()); };
  BOOST_TEST((start_of({{"/nonexistent/trainer"}, {}, directory / "log"}).error().name == ErrorName::ProcessFailed));
  BOOST_TEST((start_of({{}, {}, directory / "log"}).error().name == ErrorName::ProcessFailed));
  BOOST_TEST((start_of({{TEST_TRAINER, "well"}, {}, directory / "missing" / "log"}).error().name == ErrorName::StorageFailed));
  BOOST_TEST(agent.events.size() == 0U);
}

BOOST_FIXTURE_TEST_CASE(a_start_without_descriptors_is_a_want_of_this_process_and_no_fault_of_the_program, Fixture) {
  const NoDescriptors none;
  const auto started = TrainerHost::start(command("well"), {}, agent.handler());
  BOOST_REQUIRE(!started.has_value());
  BOOST_TEST((started.error().name == ErrorName::MemoryUnavailable));
  BOOST_TEST(started.error().detail.find("descriptors that `ulimit -n` allows are open") != std::string::npos, started.error().detail);
}

BOOST_FIXTURE_TEST_CASE(a_trainer_that_comes_when_no_descriptor_is_left_is_heard, Fixture) {
  const auto gate = (directory / "gate").string();
  const auto waits = "until [ -e '" + gate + "' ]; do sleep 0.01; done; exec '" TEST_TRAINER "' well";
  agent.start({{"sh", "-c", waits}, {}, directory / "trainer.log"}, {30s});
  const NoDescriptors none;
  std::filesystem::create_directory(gate);  // which takes none
  agent.expect<TrainerExported>();
}

BOOST_AUTO_TEST_CASE(what_cannot_be_taken_for_want_of_descriptors_is_no_malformed_packet) {
  auto [here, there] = PacketSocket::pair().value();
  const std::array<int, 2> given{STDOUT_FILENO, STDERR_FILENO};
  BOOST_TEST((there.send("two", given) == SendOutcome::Sent));
  BOOST_TEST((there.send("none", {}) == SendOutcome::Sent));
  Packet packet;
  {
    const NoDescriptors none;
    BOOST_TEST((here.receive(packet) == ReceiveOutcome::NoDescriptors));
  }
  BOOST_TEST((here.receive(packet) == ReceiveOutcome::Received));
  BOOST_TEST(packet.bytes == "none");
}

BOOST_FIXTURE_TEST_CASE(a_host_may_be_destroyed_in_the_middle_and_takes_its_trainer_along, Fixture) {
  start("endless");
  agent.seat();
  agent.begin(TestAgent::ENDLESS);
  const auto pid = static_cast<pid_t>(agent.host->pid());
  agent.host.reset();
  BOOST_TEST(::kill(pid, 0) == -1);
  BOOST_TEST(errno == ESRCH);
}

BOOST_FIXTURE_TEST_CASE(a_launcher_may_stand_between_the_agent_and_the_trainer, Fixture) {
  // It closes what it inherited, as sudo does, and starts the trainer as a child of a child, in a session of its own.
  const std::string script = "exec 3<&- 4<&- 5<&-; (setsid -w " + std::string(TEST_TRAINER) + " endless); exit $?";
  agent.host = TrainerHost::start({{"sh", "-c", script}, {}, directory / "trainer.log"}, {}, agent.handler()).value();
  agent.greet();
  agent.expect<TrainerExported>();
  agent.seat();
  agent.begin(TestAgent::ENDLESS);
  const auto trainer = agent.host->pid();
  std::ifstream command("/proc/" + std::to_string(trainer) + "/cmdline");
  std::string program;
  std::getline(command, program, '\0');
  BOOST_TEST(program == TEST_TRAINER);
  agent.host->stop(std::nullopt);
  agent.expect<TrainerLeft>();
  BOOST_TEST(agent.host->pid() == 0U);
}

BOOST_FIXTURE_TEST_CASE(a_launcher_that_ends_before_its_trainer_has_come_is_a_failure_with_its_last_words, Fixture) {
  const std::string script = "echo starting; echo 'conda: no environment `llm`' >&2; exit 3";
  agent.host = TrainerHost::start({{"sh", "-c", script}, {}, directory / "trainer.log"}, {}, agent.handler()).value();
  agent.greet();
  BOOST_TEST(agent.expect<TrainerLost>().cause.detail ==
             "exit status 3, before it had connected to its agent; the last lines of its log: starting | conda: no environment `llm`");
}

BOOST_FIXTURE_TEST_CASE(what_a_trainer_left_running_is_killed_with_it_and_its_output_is_in_the_log, Fixture) {
  const auto fifo = directory / "fifo";
  BOOST_REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  const Descriptor reader(::open(fifo.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  const std::string script = "sleep 1000 > " + fifo.string() + " & echo x > " + fifo.string() + "; echo started $NOTE; exit 4";
  agent.host = TrainerHost::start({{"sh", "-c", script}, {"NOTE=here"}, directory / "trainer.log"}, {1ms}, agent.handler()).value();
  BOOST_TEST(agent.expect<TrainerLost>().cause.detail ==
             "exit status 4, before it had connected to its agent; the last lines of its log: started here");
  // The fifo hangs up when its last writer, the sleeper, is gone.
  std::array<char, 16> bytes{};
  pollfd watched{reader.number(), POLLIN, 0};
  BOOST_REQUIRE(::poll(&watched, 1, 100'000) == 1);
  BOOST_REQUIRE(::read(reader.number(), bytes.data(), bytes.size()) == 2);
  watched.events = 0;
  BOOST_REQUIRE(::poll(&watched, 1, 100'000) == 1);
  BOOST_TEST((watched.revents & POLLHUP) != 0);
  std::ifstream log(directory / "trainer.log");
  std::string line;
  std::getline(log, line);
  BOOST_TEST(line == "started here");
}

BOOST_AUTO_TEST_SUITE_END()

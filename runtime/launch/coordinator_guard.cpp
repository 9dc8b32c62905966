#include "runtime/launch/coordinator_guard.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <optional>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "actors/supervisor/restart_machine.hpp"
#include "runtime/clock.hpp"
#include "runtime/launch/launch_plan.hpp"
#include "runtime/launch/launched_process.hpp"
#include "runtime/store/kept_place.hpp"
#include "runtime/telemetry/memory_kills.hpp"
#include "runtime/telemetry/notice_board.hpp"

namespace prime::launch {
namespace {

constexpr Duration START_LIMIT{30s};
constexpr Duration RETRY_PAUSE{500ms};
constexpr supervisor::Options INTENSITY{10, 1min};

/// The signals that end a process politely, as a descriptor; blocked from here on.
store::Descriptor end_signals() {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int number : {SIGTERM, SIGINT, SIGQUIT}) ::sigaddset(&set, number);
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  return store::Descriptor{::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK)};
}

/// What is seen of a coordinator while it lives.
struct Seen {
  std::string unwritten;     ///< what it showed last of its ledger
  bool told_to_end = false;  ///< as this process was
};

/// One that was killed while it wrote to a disk that stands still ends when that goes on.
std::string cannot_end(const Seen& seen, const std::filesystem::path& directory) {
  const auto disk = "the disk of " + (directory / "coordinator").string() + ", perhaps, or another one that it writes to";
  return "it was killed, and cannot end before what it waits for goes on: " + (seen.unwritten.empty() ? disk : seen.unwritten);
}

/// Its wait status. What this process is told, it is told.
int wait_for(LaunchedProcess& process, int signals, telemetry::MemoryKillWatch& memory, Seen& seen, telemetry::NoticeBoard& board,
             const std::filesystem::path& directory) {
  constexpr int LOOK_EVERY_MS = telemetry::MemoryKillWatch::LOOK_EVERY / 1ms;
  for (;;) {
    if (const auto status = process.reap()) return *status;
    memory.look(monotonic_now());
    if (const auto notice = telemetry::read_notice(process.pid())) seen.unwritten = notice->unwritten;
    else if (!telemetry::is_alive(process.identity())) board.show({cannot_end(seen, directory)});
    std::array<pollfd, 2> watched{pollfd{process.pid_descriptor(), POLLIN, 0}, pollfd{signals, POLLIN, 0}};
    ::poll(watched.data(), watched.size(), LOOK_EVERY_MS);
    signalfd_siginfo signal{};
    while (::read(signals, &signal, sizeof signal) == sizeof signal) {
      seen.told_to_end = true;
      ::kill(process.pid(), static_cast<int>(signal.ssi_signo));
    }
  }
}

/// A port that another program holds, a disk that is full, an etcd that is down, a machine that has nothing left: somebody may see to it
/// while the peers wait. Who was deposed stands by from then on.
bool may_go_away(const Error& error) {
  return error.name == ErrorName::AddressTaken || error.name == ErrorName::StorageFailed || error.name == ErrorName::StandbyStoreFailed ||
         error.name == ErrorName::LeadershipLost || error.name == ErrorName::MemoryUnavailable;
}

/// Waits; true when this process is told to end meanwhile.
bool told_within(Duration pause, int signals) {
  pollfd watched{signals, POLLIN, 0};
  return ::poll(&watched, 1, static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(pause).count())) > 0;
}

Result<std::string> at_port(const std::string& text, std::uint16_t port) {
  PRIME_TRY(auto plan, parse_coordinator_plan(text));
  plan.listen.port = port;
  return format_plan(plan);
}

/// "killed by SIGKILL, for want of memory: …"
std::string how_it_was_killed(int status, const telemetry::MemoryKillWatch& memory) {
  auto how = describe_wait_status(status);
  if (const auto why = WTERMSIG(status) == SIGKILL ? memory.want_of_memory() : std::string{}; !why.empty()) how += ", " + why;
  return how;
}

/// What a coordinator that ended so could not say itself, but had shown: what did not take an entry of its ledger.
Error stuck(const std::string& unwritten) {
  return Error{ErrorName::StorageFailed,
               "what the coordinator decided could not be written down: " +
                   (unwritten.empty() ? "its disk, or etcd, stands still" : "it waited in vain for " + unwritten) +
                   " (`membership.coordinator_grace` says for how long it may)"};
}

bool was_told_to_end(int status) {
  const int number = WTERMSIG(status);
  return number == SIGTERM || number == SIGINT || number == SIGQUIT;
}

}  // namespace

Result<int> guard_coordinator(const GuardOptions& options, const std::function<void(const nlohmann::json&)>& ready) {
  const auto signals = end_signals();
  const std::vector<std::string> arguments{options.program, "coordinator",
                                           "--guard",       std::to_string(::getpid()),
                                           "--directory",   options.directory.string(),
                                           "--ready-fd",    std::to_string(READY_DESCRIPTOR)};
  ProcessPlan plan{arguments, options.plan, options.directory / "coordinator" / "coordinator.log"};
  std::string killed;  // how the one before was, where it was
  supervisor::State restarts{INTENSITY, {}, {}};
  std::optional<Instant> down_since;
  const store::KeptPlace place{options.directory};
  telemetry::NoticeBoard board;  // the coordinator's own journal may have no room for what ended it
  const auto try_again = [&](const Error& obstacle) {
    board.show({to_string(obstacle)});
    if (!down_since) down_since = monotonic_now();
    return may_go_away(obstacle) && monotonic_now() - *down_since <= options.grace && !told_within(RETRY_PAUSE, signals.get());
  };
  for (bool first = true;; first = false) {
    plan.arguments = arguments;
    if (!first) plan.arguments.emplace_back("--again");
    if (!killed.empty()) plan.arguments.insert(plan.arguments.end(), {"--killed", killed});
    telemetry::MemoryKillWatch memory{monotonic_now()};
    auto started = LaunchedProcess::start(plan);
    // Nothing can be written, nor started, in a place that somebody has moved; of that, and not of files that are gone, is told.
    if (const auto moved = place.moved(); !started && moved) started = fail(*moved);
    if (!started && !first && try_again(started.error())) continue;
    PRIME_TRY(auto process, std::move(started));
    auto said = process.readiness(START_LIMIT, signals.get());
    if (said && first) {
      // Whoever serves the run after it is found at the same port.
      PRIME_TRY(plan.input, at_port(options.plan, said->value("port", std::uint16_t{0})));
      said->emplace("pid", process.pid());
      ready(*said);
    }
    if (said) {
      down_since.reset();
      board.show({});
    } else if (said.error().name == ErrorName::DeadlineExceeded) ::kill(process.pid(), SIGKILL);
    else if (first) ::kill(process.pid(), SIGTERM);  // it may serve a run that nobody can join, since its invite could not be kept
    Seen seen;
    const int status = wait_for(process, signals.get(), memory, seen, board, options.directory);
    killed.clear();
    if (!said && first) return fail(std::move(said.error()));
    if (WIFSIGNALED(status) && was_told_to_end(status)) return 128 + WTERMSIG(status);
    if (!WIFSIGNALED(status)) {
      auto obstacle = WEXITSTATUS(status) == 0 ? std::nullopt : place.moved();  // asked first: what was moved back can be read
      if (!obstacle) obstacle = WEXITSTATUS(status) == telemetry::STUCK_EXIT_CODE ? stuck(seen.unwritten) : process.last_error();
      if (!obstacle || !may_go_away(*obstacle)) return WEXITSTATUS(status);
      if (seen.told_to_end || !try_again(*obstacle)) return fail(*obstacle);
      continue;
    }
    if (!down_since) down_since = monotonic_now();
    killed = how_it_was_killed(status, memory);
    if (seen.told_to_end)
      return fail(ErrorName::RunStopped, "by its owner; the coordinator was " + killed + " before it had written its end");
    auto decided = supervisor::child_died(std::move(restarts), Error{ErrorName::CoordinatorLost, killed}, monotonic_now());
    restarts = std::move(decided.state);
    if (const auto* given_up = std::get_if<supervisor::GiveUp>(&decided.decision))
      return fail(ErrorName::CoordinatorLost, given_up->cause.detail);
  }
}

void end_with(pid_t guard) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != guard) ::_exit(1);  // it was gone before it could be told
}

}  // namespace prime::launch

// Owns the tests of a group whose members are real processes, one of which is killed or frozen at every chunk of a reduce.
#include <algorithm>
#include <array>
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <csignal>
#include <memory>
#include <stdexcept>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "prime/group.hpp"
#include "runtime/bench/bare_sockets.hpp"

using namespace prime;

namespace {

constexpr std::uint32_t WORLD = 3;
constexpr std::uint32_t VICTIM = 1;
constexpr std::size_t ELEMENTS = 6 * 128 * 1024;  // two chunks in each segment

/// What a process has seen; in memory that all share.
struct Seen {
  std::atomic<bool> ready;      ///< the first reduce is committed here
  std::atomic<bool> ended;      ///< the reduce in which the victim falls, for better or worse
  std::atomic<bool> committed;  ///< that one
  std::atomic<bool> right;      ///< the result, where it is committed
  std::atomic<bool> named;      ///< why it failed: it waited for the victim
  std::atomic<bool> blamed;     ///< or for another one
  std::atomic<bool> intact;     ///< the input
  std::atomic<bool> recovered;  ///< the next reduce, without the victim, has the right result
};
struct Board {
  std::array<Seen, WORLD> ranks;
  std::atomic<std::uint64_t> total;  ///< chunks that one rank counts
};

struct Trial {
  int signal = 0;        ///< 0: nobody falls
  std::uint64_t at = 0;  ///< chunks after which the victim falls
  bool memory = false;   ///< the kind of lanes; then with tensors that the group allocates
  Schedule schedule = Schedule::Direct;
};

/// Each on an address of its own: connections take their ports from 127.0.0.1, and might take one of these before it is listened at.
std::vector<std::string> free_addresses(std::uint32_t count) {
  static unsigned last = 0;
  std::vector<int> held;
  std::vector<std::string> all;
  for (std::uint32_t i = 0; i < count; ++i, ++last)
    all.push_back("127.7." + std::to_string(last / 250) + "." + std::to_string(1 + last % 250) + ":" +
                  std::to_string(bench::free_port(held)));
  for (const int fd : held) ::close(fd);
  return all;
}

GroupOptions options_of(const Trial& trial, std::uint32_t rank, std::vector<std::string> members) {
  GroupOptions options;
  options.rank = rank;
  options.members = std::move(members);
  options.key = "a secret of the tests";
  options.plain = true;
  options.memory = trial.memory;
  options.timeout = std::chrono::seconds(60);
  return options;
}

bool all_equal(std::span<const float> values, float wanted) {
  return std::all_of(values.begin(), values.end(), [&](float value) { return value == wanted; });
}

/// The whole life of one member.
void live(const Trial& trial, std::uint32_t rank, const std::vector<std::string>& members, const std::vector<std::string>& survivors,
          Board& board) {
  Seen& seen = board.ranks[rank];
  auto options = options_of(trial, rank, members);
  std::atomic<bool> first = true;
  options.on_chunk = [&](std::uint64_t, std::uint64_t done, std::uint64_t total) {
    board.total = total;
    // The first reduce opens the lanes; the second one is the one that matters.
    if (!first && rank == VICTIM && trial.signal != 0 && done == trial.at) ::raise(trial.signal);
  };
  auto group = Group::form(options);
  if (!group) return;
  std::vector<float> own(trial.memory ? 0 : 2 * ELEMENTS);
  const auto memory = trial.memory ? group->allocate(2 * ELEMENTS * sizeof(float)).value() : nullptr;
  const std::span all{trial.memory ? reinterpret_cast<float*>(memory.get()) : own.data(), 2 * ELEMENTS};
  const auto input = all.first(ELEMENTS);
  const auto output = all.last(ELEMENTS);
  std::ranges::fill(input, static_cast<float>(rank));
  std::ranges::fill(output, -1.0F);
  ReduceOptions reduce;
  reduce.schedule = trial.schedule;
  const auto play = [&](Group& with) { return with.reduce(std::as_bytes(input), std::as_writable_bytes(output), reduce); };
  if (!play(*group)) return;
  seen.ready = true;
  for (const Seen& each : board.ranks)
    while (!each.ready) std::this_thread::sleep_for(std::chrono::milliseconds(1));  // who committed first may not have told yet
  first = false;
  if (rank == VICTIM && trial.signal != 0 && trial.at == 0) ::raise(trial.signal);
  std::fill(output.begin(), output.end(), -1.0F);
  if (trial.signal == SIGSTOP) reduce.timeout = std::chrono::seconds(6);  // only a frozen member is given up by time
  const auto info = play(*group);
  const std::string why = info ? "" : to_string(info.error());
  const bool waited = why.find("waited for peer") != std::string::npos;
  seen.named = waited && why.find(to_string(PeerId{VICTIM + 1})) != std::string::npos;
  seen.blamed = waited && !seen.named;
  seen.committed = info.has_value();
  seen.right = info.has_value() && all_equal(output, 1.0F);
  seen.intact = all_equal(input, static_cast<float>(rank));
  seen.ended = true;
  if (rank == VICTIM) return;
  const std::uint32_t new_rank = rank < VICTIM ? rank : rank - 1;
  auto smaller = Group::form(options_of({0, 0, trial.memory}, new_rank, survivors));
  reduce.timeout = {};
  seen.recovered = smaller && play(*smaller) && all_equal(output, 1.0F);  // the mean of 0 and 2
}

struct SharedBoard {
  SharedBoard()
      : memory(::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)), board(*new (memory) Board{}) {}
  ~SharedBoard() { ::munmap(memory, sizeof(Board)); }
  SharedBoard(const SharedBoard&) = delete;
  SharedBoard& operator=(const SharedBoard&) = delete;
  void* memory;
  Board& board;
};

/// A trial that is under way.
class Play {
 public:
  explicit Play(const Trial& trial) : trial_(trial) {
    const auto members = free_addresses(WORLD);
    const auto survivors = free_addresses(WORLD - 1);
    for (std::uint32_t rank = 0; rank < WORLD; ++rank) {
      children_[rank] = ::fork();
      BOOST_REQUIRE(children_[rank] >= 0);
      if (children_[rank] != 0) continue;
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      live(trial, rank, members, survivors, shared_.board);
      ::_exit(0);
    }
  }
  /// The frozen one goes on when the others have ended.
  const Board& end() {
    for (std::uint32_t rank = 0; rank < WORLD; ++rank)
      if (rank != VICTIM) ::waitpid(children_[rank], nullptr, 0);
    if (trial_.signal == SIGSTOP) ::kill(children_[VICTIM], SIGCONT);
    ::waitpid(children_[VICTIM], nullptr, 0);
    return shared_.board;
  }
  [[nodiscard]] const Trial& trial() const { return trial_; }

 private:
  Trial trial_;
  SharedBoard shared_;
  std::array<pid_t, WORLD> children_{};
};

std::uint64_t chunks_of_a_reduce(Schedule schedule) {
  Play play({0, 0, false, schedule});
  const Board& board = play.end();
  for (const Seen& seen : board.ranks) BOOST_REQUIRE((seen.committed && seen.right));
  return board.total;
}

void check(Play& play) {
  const Trial& trial = play.trial();
  const auto& ranks = play.end().ranks;
  BOOST_TEST_CONTEXT("fell after " << trial.at << " chunks, " << (trial.memory ? "shared memory, " : "sockets, ")
                                   << to_string(trial.schedule)) {
    bool all = true;
    for (std::uint32_t rank = 0; rank < WORLD; ++rank) {
      if (rank == VICTIM && trial.signal == SIGKILL) continue;
      all = all && ranks[rank].ended && ranks[rank].intact && (ranks[rank].right || !ranks[rank].committed);
    }
    BOOST_TEST(all);
    BOOST_TEST(ranks[0].committed == ranks[2].committed);
    if (ranks[VICTIM].committed) BOOST_TEST(ranks[0].committed);
    if (trial.at == 0) BOOST_TEST(!ranks[0].committed);  // it has brought nothing
    if (trial.signal == SIGSTOP && !ranks[0].committed) BOOST_TEST((ranks[0].named || ranks[2].named));
    BOOST_TEST((!ranks[0].blamed && !ranks[2].blamed));
    BOOST_TEST(ranks[0].recovered);
    BOOST_TEST(ranks[2].recovered);
  }
}

std::vector<Trial> every_chunk(int signal, Schedule schedule) {
  const std::uint64_t total = chunks_of_a_reduce(schedule);
  BOOST_REQUIRE(total > 6U);
  std::vector<Trial> trials;
  for (const bool memory : {false, true})
    for (std::uint64_t at = 0; at <= total; ++at) trials.push_back({signal, at, memory, schedule});
  return trials;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_member_killed_at_any_chunk_leaves_the_others_agreed_and_able_to_go_on) {
  for (const auto schedule : {Schedule::Direct, Schedule::Ring})
    for (const Trial& trial : every_chunk(SIGKILL, schedule)) {
      Play play(trial);
      check(play);
    }
}

BOOST_AUTO_TEST_CASE(a_member_frozen_at_any_chunk_leaves_the_others_agreed_and_able_to_go_on) {
  for (const auto schedule : {Schedule::Direct, Schedule::Ring}) {
    std::vector<std::unique_ptr<Play>> plays;  // all at once: most of their time they wait
    for (const Trial& trial : every_chunk(SIGSTOP, schedule)) plays.push_back(std::make_unique<Play>(trial));
    for (const auto& play : plays) check(*play);
  }
}

/// Whoever calls it: nobody would serve the lanes in the place of a caller that is gone.
BOOST_AUTO_TEST_CASE(what_progress_throws_ends_the_process) {
  const pid_t child = ::fork();
  BOOST_REQUIRE(child >= 0);
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)std::signal(SIGABRT, SIG_DFL);
    auto options = options_of({}, 0, free_addresses(1));
    options.on_chunk = [](std::uint64_t, std::uint64_t, std::uint64_t) { throw std::runtime_error("the test says so"); };
    auto group = Group::form(options);
    const std::vector<float> input(1);
    std::vector<float> output(1);
    try {
      (void)group->reduce(input, output).has_value();
    } catch (const std::runtime_error&) {  // it ends as if nothing had been thrown
    }
    ::_exit(0);
  }
  int status = 0;
  BOOST_REQUIRE(::waitpid(child, &status, 0) == child);
  BOOST_TEST((WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT));
}

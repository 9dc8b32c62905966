// Owns the processes of the measurement, their common start, and what they report through shared memory.
#include "runtime/bench/allreduce_bench.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#include "actors/reduce_worker/schedule.hpp"
#include "prime/group.hpp"
#include "runtime/bench/limits.hpp"
#include "runtime/bench/median.hpp"
#include "runtime/lanes/arithmetic.hpp"

namespace prime::bench {
namespace {

constexpr std::uint32_t MAX_RANKS = 16;
constexpr std::array LANES{Lane::Tcp, Lane::Tls, Lane::Memory};
/// The first rounds map pages and open lanes.
constexpr std::uint32_t WARM_UP = 2;
/// So long after a failure of which nobody knows whose it is a child may still turn out to have been killed.
constexpr double SETTLE_S = 0.5;

double now_s() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

double processor_s() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& t) { return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6; };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

/// What one process tells of one case in one round.
struct Sample {
  double seconds;
  double processor_seconds;
};

/// Shared by all processes of a run.
struct Board {
  std::atomic<std::uint32_t> arrived;
  std::atomic<std::uint32_t> met[MAX_RANKS];  ///< how often each has arrived
  std::atomic<bool> held;                     ///< somebody outside says when the next round begins
  std::atomic<std::uint32_t> failed;
  char failure[256];
  ErrorName name;
  std::uint64_t peak_bytes[MAX_RANKS];

  enum class Wait { Spin, Sleep };
  /// All go on together. False when one has failed.
  bool meet(std::uint32_t rank, std::uint32_t peers, std::uint32_t& meeting, Wait wait = Wait::Spin) {
    met[rank].store(++meeting);
    arrived.fetch_add(1);
    while (arrived.load() < peers * meeting) {
      if (failed.load() != 0) return false;
      if (wait == Wait::Spin) ::sched_yield();
      else ::usleep(2000);
    }
    return failed.load() == 0;
  }
  void fail(const Error& error) {
    if (failed.exchange(1) != 0) return;
    tell(error);
  }
  void tell(const Error& error) {
    name = error.name;
    std::strncpy(failure, error.detail.c_str(), sizeof failure - 1);
  }
};

/// Anonymous memory that children share.
class SharedMemory {
 public:
  explicit SharedMemory(std::size_t bytes)
      : bytes_(bytes), memory_(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {}
  ~SharedMemory() {
    if (memory_ != MAP_FAILED) ::munmap(memory_, bytes_);
  }
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  [[nodiscard]] void* get() const { return memory_ == MAP_FAILED ? nullptr : memory_; }

 private:
  std::size_t bytes_;
  void* memory_;
};

bool is_allocated(const Case& what) { return what.lane == Lane::Memory && what.allocated; }

/// What the processes of one number of peers do. The last column of samples is what the machine allows for the same bytes.
class Worker {
 public:
  Worker(std::uint32_t rank, std::uint32_t peers, const std::vector<Case>& cases, std::uint32_t repeat, Board& board, Sample* samples,
         const std::map<Lane, std::vector<std::string>>& members, BareSockets bare, const RoundBegins& begins,
         std::chrono::milliseconds timeout)
      : rank_(rank),
        peers_(peers),
        cases_(cases),
        repeat_(repeat),
        board_(board),
        samples_(samples),
        limits_(peers, std::move(bare)),
        begins_(begins),
        timeout_(timeout) {
    std::uint64_t most = 0;
    for (const Case& each : cases) most = std::max(most, each.bytes);
    if (!std::ranges::all_of(cases, is_allocated)) own_ = own_tensors(most);
    for (const Lane lane : LANES)
      if (std::any_of(cases.begin(), cases.end(), [&](const Case& each) { return each.lane == lane; })) form(lane, members.at(lane));
    if (std::ranges::any_of(cases, is_allocated) && groups_.contains(Lane::Memory)) allocated_ = allocated_tensors(most);
  }

  bool run() {
    for (std::uint32_t round = 0; round < WARM_UP + repeat_; ++round) {
      if (!meet(Board::Wait::Sleep)) return false;  // the others may still be at the last round
      if (rank_ == 0 && begins_) {
        board_.held = true;
        if (const auto good = begins_(peers_, round < WARM_UP ? 0 : round - WARM_UP + 1); !good) board_.fail(good.error());
        board_.held = false;
      }
      if (!meet(Board::Wait::Sleep)) return false;
      // Each begins in its turn: the first of a round finds colder caches than the others.
      for (std::size_t turn = 0; turn < cases_.size(); ++turn)
        if (!play((round + turn) % cases_.size(), round)) return false;
    }
    if (!meet()) return false;  // nobody hangs up on one that still reads
    board_.peak_bytes[rank_] = 0;
    for (const auto& [lane, group] : groups_) board_.peak_bytes[rank_] += group.peak_bytes();
    return true;
  }

 private:
  bool meet(Board::Wait wait = Board::Wait::Spin) { return board_.meet(rank_, peers_, meeting_, wait); }

  void form(Lane lane, const std::vector<std::string>& members) {
    GroupOptions options;
    options.rank = rank_;
    options.members = members;
    options.key = "a benchmark between processes of one machine";
    options.plain = lane == Lane::Tcp;
    options.memory = lane == Lane::Memory;
    options.timeout = timeout_;
    auto group = Group::form(options);
    if (group) groups_.emplace(lane, std::move(*group));
    else board_.fail(group.error());
  }

  /// What is reduced, and where results go; `memory` holds both.
  struct Tensors {
    std::shared_ptr<void> memory;
    std::span<float> input;
    std::span<float> output;
  };
  [[nodiscard]] Tensors filled(std::shared_ptr<void> memory, std::span<float> input, std::span<float> output) const {
    std::ranges::fill(input, 1.0F + static_cast<float>(rank_));
    std::ranges::fill(output, 0.0F);
    return {std::move(memory), input, output};
  }
  [[nodiscard]] Tensors own_tensors(std::uint64_t bytes) const {
    const auto values = std::make_shared<std::vector<float>>(2 * (bytes / sizeof(float)));
    const std::span all{*values};
    return filled(values, all.first(all.size() / 2), all.last(all.size() / 2));
  }
  Tensors allocated_tensors(std::uint64_t bytes) {
    auto input = groups_.at(Lane::Memory).allocate(bytes);
    auto output = groups_.at(Lane::Memory).allocate(bytes);
    if (!input || !output) {
      board_.fail((input ? output : input).error());
      return {};
    }
    const auto values = [&](const auto& memory) { return std::span{reinterpret_cast<float*>(memory.get()), bytes / sizeof(float)}; };
    auto both = std::make_shared<std::array<std::shared_ptr<std::byte[]>, 2>>(std::array{*input, *output});
    return filled(std::move(both), values(*input), values(*output));
  }

  bool play(std::size_t at, std::uint32_t round) {
    const Case& each = cases_[at];
    if (!meet()) return false;
    double processor = processor_s();
    double begin = now_s();
    if (const auto good = reduce(each); !good) {
      board_.fail(good.error());
      return false;
    }
    note(at, round, 0, now_s() - begin, processor_s() - processor);
    if (!meet()) return false;
    processor = processor_s();
    begin = now_s();
    limits_.run(each.lane, each.bytes);
    note(at, round, 1, now_s() - begin, processor_s() - processor);
    return true;
  }

  Result<void> reduce(const Case& each) {
    Group& group = groups_.at(each.lane);
    const std::uint64_t elements = each.bytes / sizeof(float) / each.tags;
    const Tensors& tensors = each.lane == Lane::Memory && each.allocated ? allocated_ : own_;
    const auto part = [&](std::span<float> all, std::uint32_t tag) { return all.subspan(tag * elements, elements); };
    const auto input = [&](std::uint32_t tag) { return std::as_bytes(part(tensors.input, tag)); };
    const auto output = [&](std::uint32_t tag) {
      return std::as_writable_bytes(part(each.in_place ? tensors.input : tensors.output, tag));
    };
    ReduceOptions options;
    options.codec = each.codec;
    options.schedule = each.schedule;
    if (each.tags == 1) {
      PRIME_CHECK(group.reduce(input(0), output(0), options));
      return {};
    }
    std::vector<Reduction> running;
    for (std::uint32_t tag = 0; tag < each.tags; ++tag) {
      options.tag = tag;
      running.push_back(group.reduce_async(input(tag), output(tag), options));
    }
    for (auto& reduction : running) PRIME_CHECK(reduction.wait());
    return {};
  }

  void note(std::size_t at, std::uint32_t round, std::uint32_t which, double seconds, double processor_seconds) {
    if (round < WARM_UP) return;
    samples_[((at * repeat_ + round - WARM_UP) * 2 + which) * MAX_RANKS + rank_] = Sample{seconds, processor_seconds};
  }

  std::uint32_t rank_;
  std::uint32_t peers_;
  const std::vector<Case>& cases_;
  std::uint32_t repeat_;
  Board& board_;
  Sample* samples_;
  Limits limits_;
  const RoundBegins& begins_;
  std::chrono::milliseconds timeout_;
  std::uint32_t meeting_ = 0;
  std::map<Lane, Group> groups_;
  Tensors own_;
  Tensors allocated_;
};

Times times_of(const std::vector<double>& seconds) {
  const auto [least, greatest] = std::ranges::minmax(seconds);
  return Times{least, median(seconds), greatest};
}

Row row_of(const Case& what, const Sample* samples, std::uint32_t repeat, std::uint64_t peak_bytes) {
  std::vector<double> ours;
  std::vector<double> limit;
  double processor = 0;
  for (std::uint32_t round = 0; round < repeat; ++round)
    for (std::uint32_t which = 0; which < 2; ++which) {
      const Sample* ranks = samples + (round * 2 + which) * MAX_RANKS;
      double slowest = 0;
      for (std::uint32_t rank = 0; rank < what.peers; ++rank) {
        slowest = std::max(slowest, ranks[rank].seconds);
        if (which == 0) processor += ranks[rank].processor_seconds;
      }
      (which == 0 ? ours : limit).push_back(slowest);
    }
  Row row{what, times_of(ours), 0, 0, peak_bytes, 0};
  const double moved = 2.0 * (what.peers - 1) / what.peers * static_cast<double>(what.bytes);
  row.bus_bytes_per_s = moved / row.time_s.median;
  row.cpu_s_per_gb = processor / repeat / (moved * what.peers / 1e9);
  row.limit_share = times_of(limit).median / row.time_s.median;
  return row;
}

std::vector<std::string> addresses(std::uint32_t count, std::vector<int>& held) {
  std::vector<std::string> all;
  for (std::uint32_t i = 0; i < count; ++i) all.push_back("127.0.0.1:" + std::to_string(free_port(held)));
  return all;
}

/// What its processes would refuse.
Result<void> can_be(const Case& what) {
  ReduceRequest request;
  request.contributions = {{PeerId{1}, 1}};
  request.combine = ReduceOptions{}.combine;
  request.codec = what.codec;
  if (auto made = lanes::Arithmetic::make(request, what.schedule); !made) return fail(ErrorName::Usage, made.error().detail);
  if (what.schedule == Schedule::Whole && what.bytes / what.tags > WHOLE_BYTES)
    return fail(ErrorName::Usage, "--size " + std::to_string(what.bytes) + ": tensors that are exchanged whole are " +
                                      std::to_string(WHOLE_BYTES) + " bytes at most");
  return {};
}

/// Before a process of it is killed for want of memory, or throws.
Result<void> has_memory_for(std::uint32_t peers, const std::vector<Case>& cases) {
  const std::uint64_t most = std::ranges::max(cases, {}, &Case::bytes).bytes;
  const bool both = std::ranges::any_of(cases, is_allocated) && !std::ranges::all_of(cases, is_allocated);
  const double needed = static_cast<double>(most) * peers * (both ? 4 : 2);  // an input and an output of either kind
  const double there = static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * static_cast<double>(::sysconf(_SC_PAGESIZE));
  if (needed < there) return {};
  const auto megabytes = [](double bytes) { return std::to_string(static_cast<std::uint64_t>(bytes / 1e6)) + " MB"; };
  return fail(ErrorName::MemoryUnavailable, "--size " + std::to_string(most) + ": the tensors of " + std::to_string(peers) +
                                                " peers take " + megabytes(needed) + ", this machine has " + megabytes(there));
}

/// Waits for all children, by rank. When one fails, is killed, or stands still for longer than its reduces may take, all end.
void await(std::vector<pid_t> children, Board& board, std::chrono::milliseconds timeout) {
  const double patience = 2 * std::chrono::duration<double>(timeout).count();
  std::uint32_t arrived = 0;
  double since = now_s();
  std::optional<double> failed_since;
  bool known = false;  // which child is the cause
  bool ended = false;
  std::vector<bool> stopped(children.size());
  for (std::size_t left = children.size(); left > 0; ::usleep(2000)) {
    for (std::size_t rank = 0; rank < children.size(); ++rank) {
      int status = 0;
      if (children[rank] == 0 || ::waitpid(children[rank], &status, WNOHANG | WUNTRACED | WCONTINUED) == 0) continue;
      stopped[rank] = WIFSTOPPED(status);
      if (WIFSTOPPED(status) || WIFCONTINUED(status)) continue;
      children[rank] = 0;
      --left;
      if (status == 0 || ended) continue;
      const auto what = "rank " + std::to_string(rank) +
                        (WIFSIGNALED(status) ? " was ended by signal " + std::to_string(WTERMSIG(status))
                                             : " ended with status " + std::to_string(WEXITSTATUS(status)));
      const Error error{ErrorName::PeerLost, what};
      board.fail(error);
      if (WIFSIGNALED(status)) board.tell(error);  // what the others say of it is no cause
      known = known || WIFSIGNALED(status);
    }
    if (const auto now = board.arrived.load(); now != arrived || board.held) {
      arrived = now;
      since = now_s();
    } else if (now_s() - since > patience) {
      const auto last = std::min_element(board.met, board.met + children.size()) - board.met;
      board.fail(Error{ErrorName::DeadlineExceeded, "rank " + std::to_string(last) + " stands still"});
    }
    if (board.failed.load() == 0) continue;
    if (!failed_since) failed_since = now_s();
    known = known || std::ranges::find(stopped, true) != stopped.end();
    // The connections of one that is killed break a moment before it can be waited for.
    if (!known && now_s() - *failed_since < SETTLE_S) continue;
    if (std::exchange(ended, true)) continue;
    if (const auto first = std::ranges::find(stopped, true); first != stopped.end())
      board.tell(Error{ErrorName::DeadlineExceeded, "rank " + std::to_string(first - stopped.begin()) + " stands still"});
    for (const pid_t child : children)
      if (child != 0) ::kill(child, SIGKILL);
  }
}

Result<std::vector<Row>> measure_among(std::uint32_t peers, const std::vector<Case>& cases, std::uint32_t repeat, const RoundBegins& begins,
                                       std::chrono::milliseconds timeout) {
  const std::size_t samples_bytes = cases.size() * repeat * 2 * MAX_RANKS * sizeof(Sample);
  const SharedMemory memory(sizeof(Board) + samples_bytes);
  if (memory.get() == nullptr) return fail(ErrorName::ProcessFailed, "no shared memory");
  auto* const board = new (memory.get()) Board{};
  auto* const samples = reinterpret_cast<Sample*>(board + 1);
  // Before the groups' addresses are chosen: its connections have ports, too.
  auto mesh = BareSockets::mesh(peers);
  if (mesh.empty()) return fail(ErrorName::ProcessFailed, "no sockets between the processes");
  std::vector<int> held;
  std::map<Lane, std::vector<std::string>> members;
  for (const Lane lane : LANES) members[lane] = addresses(peers, held);
  for (const int fd : held) ::close(fd);
  std::vector<pid_t> children;
  for (std::uint32_t rank = 0; rank < peers; ++rank) {
    const pid_t parent = ::getpid();
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent) ::_exit(1);
      BareSockets own = std::move(mesh[rank]);
      mesh.clear();
      bool good = false;
      {
        Worker worker(rank, peers, cases, repeat, *board, samples, members, std::move(own), begins, timeout);
        good = worker.run();
      }
      ::_exit(good ? 0 : 1);
    }
    if (pid < 0) board->fail(Error{ErrorName::ProcessFailed, "the machine takes no more processes"});
    else children.push_back(pid);
  }
  mesh.clear();
  await(children, *board, timeout);
  if (board->failed.load() != 0) return fail(board->name, board->failure);
  std::vector<Row> rows;
  const std::uint64_t peak = *std::max_element(board->peak_bytes, board->peak_bytes + peers);
  for (std::size_t at = 0; at < cases.size(); ++at) rows.push_back(row_of(cases[at], samples + at * repeat * 2 * MAX_RANKS, repeat, peak));
  return rows;
}

}  // namespace

std::string_view to_string(Lane lane) {
  switch (lane) {
    case Lane::Tcp: return "tcp";
    case Lane::Tls: return "tls";
    case Lane::Memory: return "shm";
  }
  return "?";
}

Result<std::vector<Row>> measure_reduces(const std::vector<Case>& cases, std::uint32_t repeat, const RoundBegins& begins,
                                         std::chrono::milliseconds timeout) {
  std::map<std::uint32_t, std::vector<Case>> by_peers;
  for (const Case& each : cases) {
    if (each.peers < 2 || each.peers > MAX_RANKS)
      return fail(ErrorName::Usage,
                  "--peers " + std::to_string(each.peers) + ": 2 to " + std::to_string(MAX_RANKS) + " processes can be measured");
    if (each.bytes / each.tags < sizeof(float))
      return fail(ErrorName::Usage,
                  "--size " + std::to_string(each.bytes) + " has no value for each of " + std::to_string(each.tags) + " tags");
    PRIME_CHECK(can_be(each));
    by_peers[each.peers].push_back(each);
  }
  for (const auto& [peers, some] : by_peers) PRIME_CHECK(has_memory_for(peers, some));
  std::vector<Row> rows;
  for (const auto& [peers, some] : by_peers) {
    PRIME_TRY(auto measured, measure_among(peers, some, repeat, begins, timeout));
    rows.insert(rows.end(), measured.begin(), measured.end());
  }
  return rows;
}

}  // namespace prime::bench

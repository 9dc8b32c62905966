// Owns the simulation of who leads: several coordinators, each with the shipping lease machine, and one etcd that carries out the shipping
// transactions. One thread, virtual time, one seed.
//
// Each process has a clock that goes wrong by up to 1000 ppm, and so has etcd. Requests and answers are late or lost; a request that was
// given up may be carried out much later. Processes stand still for longer than the lease, die, and are started again by their guards.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <queue>
#include <set>
#include <string>
#include <vector>

#include "actors/coordinator/lease_machine.hpp"
#include "runtime/etcd/run_transactions.hpp"
#include "runtime/simulation/random.hpp"
#include "runtime/simulation/swarm.hpp"
#include "tests/sim/simulated_etcd.hpp"

namespace prime::sim {

/// Lets a test break what ships.
struct LeaderBreakage {
  std::function<void(const lease::Event&, lease::Transition&, Instant now)> machine;  ///< what it decided, by the process's clock
  std::function<void(etcd::Transaction&)> keep;                                       ///< what etcd is asked with a decision
};

struct LeaderOutcome {
  std::optional<std::string> violation;
  std::uint64_t events = 0;
  std::uint64_t decisions = 0;     ///< that were told
  std::uint64_t leaders = 0;       ///< one after another
  std::vector<std::string> trace;  ///< where it was asked for
};

class Leaders {
 public:
  Leaders(std::uint64_t seed, Probes& probes, LeaderBreakage breakage = {}, bool traces = false);
  /// Until the faults have stopped, somebody must lead, and that leader has led for a while; or until something is wrong.
  LeaderOutcome run();

 private:
  struct Process {
    std::string address;
    Clock clock;
    std::uint64_t life = 0;  ///< what was meant for another one is void
    bool alive = false;
    bool gone = false;  ///< for good
    Instant thaws{};
    Instant reached_from{};         ///< until then it is cut off
    bool freezes_deciding = false;  ///< at its next decision
    lease::State machine;
    etcd::LeaseId lease = 0;
    Duration call_limit{};   ///< of all but renewals, as RunStore
    bool serves = false;     ///< has taken over
    std::int64_t known = 0;  ///< as RunStore
    std::uint64_t last = 0;  ///< the decision that it read or made last
    std::uint64_t deciding = 0;
    std::string text;  ///< of that
  };
  struct Item {
    Instant at;
    std::uint64_t order = 0;
    std::function<void()> act;
    friend bool operator>(const Item& a, const Item& b) { return a.at != b.at ? a.at > b.at : a.order > b.order; }
  };

  // The world
  void schedule(Duration delay, std::function<void()> act);
  /// So much later by the clock of that process, if it is still the same one then, and not before it thaws.
  void in_process(std::size_t i, Duration delay, std::function<void()> act);
  void run_in_process(std::size_t i, std::uint64_t life, std::function<void()> act);
  template <class Answer>
  void call(std::size_t i, std::function<Result<Answer>()> ask, std::function<void(Result<Answer>)> then,
            std::optional<Duration> limit = {});
  [[nodiscard]] bool is_lost(const Process& process);
  Duration delay();
  [[nodiscard]] Instant store_time() const { return store_clock_.read(now_); }
  void arm_faults();
  void strike(std::size_t i);
  void freeze(Process& process);
  Instant until(Duration at_most);

  // A coordinator's process, as coordinator_process and Leadership make one
  void start(std::size_t i);
  void end(std::size_t i, bool leaves, Duration back_after);
  void feed(std::size_t i, const lease::Event& event);
  void carry_out(std::size_t i, const lease::Effect& effect);
  void renew(std::size_t i);
  void campaign(std::size_t i);
  /// Takes the leader's key from that lease; 0: makes it.
  void ask_for_lead(std::size_t i, etcd::LeaseId former);
  void campaign_answered(std::size_t i, Result<std::optional<etcd::Leader>> outcome);
  void take_over(std::size_t i);
  void decide(std::size_t i);
  void keep(std::size_t i);
  void told(std::size_t i);

  // What is judged
  Result<etcd::Outcome> make_leader(std::size_t i, const etcd::Transaction& transaction);
  Result<etcd::Outcome> accept(std::size_t i, etcd::LeaseId writer, const etcd::Transaction& transaction);
  void judge_who_serves();
  void expect(bool holds, const std::string& otherwise);
  void note(std::size_t i, const std::string& what);

  Random random_;
  Probes& probes_;
  LeaderBreakage breakage_;
  bool traces_;
  LeaderOutcome outcome_;
  std::priority_queue<Item, std::vector<Item>, std::greater<>> queue_;
  std::uint64_t orders_ = 0;
  Instant now_{};

  Duration lease_{};
  Duration slowest_{};    ///< of a request or an answer
  double losses_ = 0;     ///< probability that one is lost
  Instant calm_from_{};   ///< no faults from then on
  Instant led_from_{};    ///< by then somebody must lead, and nobody ends any more
  Instant store_away_{};  ///< until then
  std::deque<Process> processes_;
  etcd::RunKeys keys_{"run"};
  SimulatedEtcd store_;
  Clock store_clock_;
  std::uint64_t decisions_ = 0;
  std::set<std::uint64_t> accepted_;
  std::uint64_t told_in_the_end_ = 0;
};

}  // namespace prime::sim

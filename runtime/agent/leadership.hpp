// Owns one coordinator's part in who leads a run that has standbys: its lease, its candidacy, and the decisions, which etcd takes from
// the leader alone.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "actors/coordinator/coordinator_state.hpp"
#include "actors/ports.hpp"
#include "runtime/agent/decision_file.hpp"
#include "runtime/etcd/run_store.hpp"

namespace prime {

struct LeadershipOptions {
  std::vector<std::string> etcd;
  std::string run;
  Duration lease{};
  std::string address;  ///< where this process serves the run when it leads
  std::filesystem::path decisions;
};

struct LeadershipPorts {
  /// The lease is gone, or could not be renewed for its whole length. At most once, on a thread of its own.
  std::function<void(Error)> lost;
  /// What was decided could not be kept: this process must end before anybody is told. Does not return.
  std::function<void(const Error&)> refused;
};

class Leadership final : public DecisionPort {
 public:
  /// From here on everybody knows that this process leads or stands by.
  static Result<std::unique_ptr<Leadership>> enter(LeadershipOptions options, LeadershipPorts ports);
  /// Leaves: nobody has to wait for the lease to run out.
  ~Leadership() override;
  Leadership(const Leadership&) = delete;
  Leadership& operator=(const Leadership&) = delete;

  /// Leads if nobody else does; returns who does.
  Result<std::optional<etcd::Leader>> campaign();
  /// To be called by who leads now, once: what was decided before. The plan is kept for standbys if there is none yet.
  Result<std::optional<coordinator::Snapshot>> take_over(const std::string& plan);
  void keep(const coordinator::Snapshot& snapshot) override;
  /// Whether its lease is one still by the clock of this process. Who leads no more is refused by etcd whatever this says; but a process
  /// that has just thawed knows it a moment earlier, and takes nobody in. Any thread.
  [[nodiscard]] bool holds() const;
  /// Who leads and stands by, when that has changed since the last call. Any thread.
  std::optional<Coordinators> news();

 private:
  Leadership(LeadershipOptions options, LeadershipPorts ports);
  void renew(const std::stop_token& ended);
  [[nodiscard]] bool stood_still_since(Instant asked) const;
  void look_around();

  LeadershipOptions options_;
  LeadershipPorts ports_;
  DecisionFile file_;
  etcd::RunStore store_;
  etcd::RunStore renewals_;  ///< of the thread that renews: a decision on its way does not hold up the lease
  etcd::LeaseId lease_ = 0;
  etcd::Lead lead_;
  std::atomic<Instant> renewed_{};  ///< the last time, counted from before etcd was asked
  std::mutex mutex_;                ///< guards known_ and news_: one thread finds them, another one asks
  std::vector<Endpoint> known_;
  bool news_ = false;
  std::jthread renewing_;
};

}  // namespace prime

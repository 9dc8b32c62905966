// Owns one coordinator's part in who leads a run that has standbys: its lease, its candidacy, and the decisions, which etcd takes from
// the leader alone. What follows from an answer of etcd, or from none, is decided by actors/coordinator/lease_machine.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "actors/coordinator/coordinator_state.hpp"
#include "actors/coordinator/lease_machine.hpp"
#include "runtime/agent/decision_file.hpp"
#include "runtime/agent/reason_log.hpp"
#include "runtime/etcd/run_store.hpp"

namespace prime {

struct LeadershipOptions {
  etcd::Access etcd;
  std::string run;
  Duration lease{};
  std::string address;  ///< where this process serves the run when it leads
  std::filesystem::path decisions;
};

struct LeadershipPorts {
  /// The lease is gone, or could not be renewed for its whole length, or there is no store at all. At most once, on any thread.
  std::function<void(Error)> lost;
  /// What was decided could not be kept: this process must end before anybody is told. Does not return.
  std::function<void(const Error&)> refused;
};

class Leadership final : public DecisionStore {
 public:
  /// From here on everybody knows that this process leads or stands by.
  static Result<std::unique_ptr<Leadership>> enter(LeadershipOptions options, LeadershipPorts ports);
  /// Leaves: nobody has to wait for the lease to run out.
  ~Leadership() override;
  Leadership(const Leadership&) = delete;
  Leadership& operator=(const Leadership&) = delete;

  /// Leads if nobody else does; returns who does. To be called again and again until this process leads.
  Result<std::optional<lease::Leader>> campaign();
  /// To be called by who leads now, once: what was decided before. The plan is kept for standbys; of a run that is `founded` it must be
  /// there, else etcd has lost the run, and nobody may begin it anew under peers that hold its state.
  Result<std::optional<coordinator::Snapshot>> take_over(const std::string& plan, bool founded);
  void keep(const coordinator::Snapshot& snapshot) override;
  [[nodiscard]] std::string place() const override;
  /// See lease::holds_lead: who leads no more takes nobody in. Any thread.
  [[nodiscard]] bool holds() const;
  /// Who leads and stands by, when that has changed since the last call. Any thread.
  std::optional<Coordinators> news();

 private:
  Leadership(LeadershipOptions options, LeadershipPorts ports);
  /// Feeds the machine, carries out what it wants, and feeds it what comes of that, until it wants nothing more.
  void run(lease::Event event);
  std::vector<lease::Effect> take(const lease::Event& event);
  std::optional<lease::Event> carry_out(const lease::Effect& effect);
  std::optional<lease::Event> renew(Duration after);
  Result<void> ask_to_keep();
  void look_around();

  LeadershipOptions options_;
  LeadershipPorts ports_;
  DecisionFile file_;
  etcd::RunStore store_;
  etcd::RunStore renewals_;  ///< of the thread that renews: a decision on its way does not hold up the lease
  etcd::LeaseId lease_ = 0;
  struct Decision {
    const coordinator::Snapshot& snapshot;
    std::string text;
  };
  std::optional<Decision> deciding_;
  mutable std::mutex mutex_;  ///< guards what follows: one thread renews, another one decides, and others ask
  lease::State state_;
  std::function<void(const std::string&)> log_ = reason_log("leadership");
  std::vector<Addresses> known_;
  bool news_ = false;
  std::stop_source ended_;
  std::jthread renewing_;
};

}  // namespace prime

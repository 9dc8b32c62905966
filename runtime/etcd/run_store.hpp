// Owns what a run keeps in etcd, below /prime/RUN/: who leads it, what was decided, what a standby needs to serve it, and who stands by.
//
//   leader            the leader's addresses, divided by commas, under its lease, which no other process has or will have
//   decisions         coordinator::Snapshot, as in coordinator/decisions.json
//   plan              what the first coordinator was told: manifest and origin
//   coordinators/A    addresses A, under the lease of who leads or stands by there
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "messages/membership.hpp"
#include "runtime/etcd/run_transactions.hpp"

namespace prime::etcd {

class RunStore {
 public:
  /// `call_limit`: how long one call of etcd may take; several of them should fit into a lease.
  RunStore(const Access& access, const std::string& run, Duration call_limit);

  /// From now on; see the constructor.
  void limit_calls(Duration call_limit) { call_limit_ = call_limit; }

  /// See Client::refused.
  [[nodiscard]] bool refused() const { return client_.refused(); }

  /// A lease, and the address (one or several) under it.
  Result<LeaseId> enter(const std::string& address, Duration lease);
  /// False when the lease has run out.
  Result<bool> renew(LeaseId lease) { return client_.renew(lease, call_limit_); }
  /// Who leads, leads no more; who stands by, does not.
  Result<void> leave(LeaseId lease) { return client_.revoke(lease, call_limit_); }
  /// Of all that lead or stand by; at most MAX_COORDINATORS.
  Result<Coordinators> coordinators();

  /// Leads from now on, unless another one does: returns that one.
  Result<std::optional<Leader>> campaign(const std::string& address, LeaseId lease);
  /// The same in place of `former`, which is dead. There is no moment at which nobody leads: no standby comes in between.
  Result<std::optional<Leader>> depose(LeaseId former, const std::string& address, LeaseId lease);

  /// What was decided before, of which `keep` makes sure that nobody has changed it since; nothing in a run that has just begun.
  Result<std::optional<std::string>> decisions();
  /// Replaces it, if who has this lease leads: otherwise LeadershipLost, and nothing has changed. Only after `decisions`.
  Result<void> keep(LeaseId lease, const std::string& decisions) { return keep_under(lease, decisions, 0); }
  /// The same with the last ones of a run: standbys that were away hear of its end for so long, then nothing is left of it.
  Result<void> keep_last(LeaseId lease, const std::string& decisions, Duration remembered);

  Result<std::optional<std::string>> plan();
  /// Once for each run: later calls change nothing.
  Result<void> keep_plan(LeaseId lease, const std::string& plan);

 private:
  Result<void> keep_under(LeaseId lease, const std::string& decisions, LeaseId of_decisions);

  RunKeys keys_;
  Duration call_limit_;
  Client client_;
  std::int64_t kept_ = 0;  ///< etcd's revision of the decisions that this process knows
};

}  // namespace prime::etcd

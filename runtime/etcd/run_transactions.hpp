// Owns what a run asks of etcd in one transaction, and what the answer says. Pure: run_store sends them, and the simulation carries them
// out on an etcd of its own.
#pragma once

#include <optional>
#include <string>

#include "messages/result.hpp"
#include "runtime/etcd/client.hpp"

namespace prime::etcd {

/// A process leads as long as the leader's key is under its lease.
struct Leader {
  std::string address;
  LeaseId lease = 0;
};

/// Where a run keeps what; see run_store.hpp.
struct RunKeys {
  explicit RunKeys(const std::string& run);
  std::string coordinators;  ///< of all their addresses
  std::string leader;
  std::string decisions;
  std::string plan;
};

/// Takes the leader's key from the lease `former`, or makes it where that is 0; unless it is under another one.
[[nodiscard]] Transaction to_lead(const RunKeys& keys, const std::string& address, LeaseId lease, LeaseId former = 0);
/// Who else leads; nobody when this process does.
[[nodiscard]] Result<std::optional<Leader>> judge_lead(const Outcome& outcome, const RunKeys& keys, LeaseId lease);
/// The same from the key, where it is there.
[[nodiscard]] std::optional<Leader> judge_leader(const Entry& found, LeaseId lease);

/// `known` is etcd's revision of the decisions that this process knows; 0: there are none yet.
[[nodiscard]] Transaction to_keep(const RunKeys& keys, LeaseId lease, std::int64_t known, const Put& decisions);
/// The revision of what is kept now.
[[nodiscard]] Result<std::int64_t> judge_keep(const Outcome& outcome, const RunKeys& keys, LeaseId lease, const std::string& decisions);

}  // namespace prime::etcd

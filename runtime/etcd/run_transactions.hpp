// Owns what a run asks of etcd in one transaction, and what the answer says. Pure: run_store sends them, and the simulation carries them
// out on an etcd of its own.
#pragma once

#include <optional>
#include <string>
#include <variant>

#include "messages/result.hpp"
#include "runtime/etcd/client.hpp"

namespace prime::etcd {

/// Proof that this process leads: as long as the leader's key is the one that it made.
struct Lead {
  std::int64_t created = 0;
};
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

/// Makes the leader's key, unless it is there.
[[nodiscard]] Transaction to_lead(const RunKeys& keys, const std::string& address, LeaseId lease);
[[nodiscard]] Result<std::variant<Lead, Leader>> judge_lead(const Outcome& outcome, const RunKeys& keys, LeaseId lease);
/// The same from the key, where it is there.
[[nodiscard]] std::variant<Lead, Leader> judge_leader(const Entry& found, LeaseId lease);

/// `known` is etcd's revision of the decisions that this process knows; 0: there are none yet.
[[nodiscard]] Transaction to_keep(const RunKeys& keys, const Lead& lead, std::int64_t known, const Put& decisions);
/// The revision of what is kept now.
[[nodiscard]] Result<std::int64_t> judge_keep(const Outcome& outcome, const RunKeys& keys, const Lead& lead, const std::string& decisions);

}  // namespace prime::etcd

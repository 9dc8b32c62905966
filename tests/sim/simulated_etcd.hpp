// Owns an etcd of one simulation: keys under leases, and transactions that are carried out whole, one after another, by its own clock.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <string>

#include "messages/result.hpp"
#include "runtime/etcd/client.hpp"

namespace prime::sim {

/// `now` is always by its own clock.
class SimulatedEtcd {
 public:
  etcd::LeaseId grant(Duration length, Instant now) {
    expire(now);
    leases_.emplace(++last_lease_, Lease{length, now + length});
    return last_lease_;
  }
  /// False when the lease has run out.
  bool renew(etcd::LeaseId lease, Instant now) {
    expire(now);
    const auto found = leases_.find(lease);
    if (found == leases_.end()) return false;
    found->second.until = now + found->second.length;
    return true;
  }
  void revoke(etcd::LeaseId lease, Instant now) {
    expire(now);
    remove(lease);
  }
  std::optional<etcd::Entry> read(const std::string& key, Instant now) {
    expire(now);
    return find(key);
  }
  Result<etcd::Outcome> commit(const etcd::Transaction& transaction, Instant now) {
    expire(now);
    etcd::Outcome outcome;
    outcome.succeeded = std::all_of(transaction.conditions.begin(), transaction.conditions.end(), [&](const auto& c) { return holds(c); });
    if (!outcome.succeeded) {
      for (const auto& key : transaction.otherwise) outcome.others.push_back(find(key));
      return outcome;
    }
    for (const auto& put : transaction.puts)
      if (put.lease != 0 && !leases_.contains(put.lease)) return fail(ErrorName::StandbyStoreFailed, "requested lease not found");
    outcome.revision = ++revision_;
    for (const auto& put : transaction.puts) {
      auto& entry = entries_[put.key];
      if (entry.created == 0) entry = {put.key, {}, revision_, 0, 0};
      entry.modified = revision_;
      entry.lease = put.lease;
      if (!put.lease_alone) entry.value = put.value;
    }
    return outcome;
  }

 private:
  struct Lease {
    Duration length{};
    Instant until{};
  };

  [[nodiscard]] std::optional<etcd::Entry> find(const std::string& key) const {
    const auto found = entries_.find(key);
    return found == entries_.end() ? std::nullopt : std::optional{found->second};
  }
  [[nodiscard]] bool holds(const etcd::Condition& condition) const {
    const auto found = entries_.find(condition.key);
    if (found == entries_.end()) return condition.equals == 0;
    switch (condition.field) {
      case etcd::Condition::Field::Created: return condition.equals == found->second.created;
      case etcd::Condition::Field::Modified: return condition.equals == found->second.modified;
      case etcd::Condition::Field::Lease: break;
    }
    return condition.equals == found->second.lease;
  }
  void remove(etcd::LeaseId lease) {
    if (leases_.erase(lease) == 0) return;
    if (std::erase_if(entries_, [&](const auto& entry) { return entry.second.lease == lease; }) > 0) ++revision_;
  }
  void expire(Instant now) {
    for (;;) {
      const auto over = std::find_if(leases_.begin(), leases_.end(), [&](const auto& lease) { return lease.second.until <= now; });
      if (over == leases_.end()) return;
      remove(over->first);
    }
  }

  std::map<std::string, etcd::Entry> entries_;
  std::map<etcd::LeaseId, Lease> leases_;
  etcd::LeaseId last_lease_ = 0;
  std::int64_t revision_ = 1;
};

}  // namespace prime::sim

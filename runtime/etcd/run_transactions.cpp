#include "runtime/etcd/run_transactions.hpp"

namespace prime::etcd {

RunKeys::RunKeys(const std::string& run)
    : coordinators("/prime/" + run + "/coordinators/"),
      leader("/prime/" + run + "/leader"),
      decisions("/prime/" + run + "/decisions"),
      plan("/prime/" + run + "/plan") {}

Transaction to_lead(const RunKeys& keys, const std::string& address, LeaseId lease, LeaseId former) {
  return {{{keys.leader, Condition::Field::Lease, former}}, {{keys.leader, address, lease}}, {keys.leader}};
}

std::optional<Leader> judge_leader(const Entry& found, LeaseId lease) {
  // Ours under this lease: an attempt whose answer was lost.
  if (found.lease == lease) return std::nullopt;
  return Leader{found.value, found.lease};
}

Result<std::optional<Leader>> judge_lead(const Outcome& outcome, const RunKeys& keys, LeaseId lease) {
  if (outcome.succeeded) return std::nullopt;
  if (outcome.others.front()) return judge_leader(*outcome.others.front(), lease);
  return fail(ErrorName::StandbyStoreFailed, keys.leader + " is neither there nor absent");
}

Transaction to_keep(const RunKeys& keys, LeaseId lease, std::int64_t known, const Put& decisions) {
  // The second condition is against ourselves: a request that was given up and repeated may still be carried out, after a newer one.
  return {{{keys.leader, Condition::Field::Lease, lease}, {keys.decisions, Condition::Field::Modified, known}},
          {decisions},
          {keys.leader, keys.decisions}};
}

Result<std::int64_t> judge_keep(const Outcome& outcome, const RunKeys& keys, LeaseId lease, const std::string& decisions) {
  if (outcome.succeeded) return outcome.revision;
  const auto& now_leads = outcome.others[0];
  const auto& stands = outcome.others[1];
  if (!now_leads) return fail(ErrorName::LeadershipLost, "its lease has run out");
  if (now_leads->lease != lease) return fail(ErrorName::LeadershipLost, "the coordinator at " + now_leads->value + " leads it");
  // It was carried out before, and the answer was lost.
  if (!stands || stands->value != decisions) return fail(ErrorName::LeadershipLost, "somebody else has written " + keys.decisions);
  return stands->modified;
}

}  // namespace prime::etcd

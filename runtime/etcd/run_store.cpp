#include "runtime/etcd/run_store.hpp"

#include <algorithm>
#include <charconv>

#include "runtime/net/run_key.hpp"

namespace prime::etcd {

RunStore::RunStore(std::vector<std::string> endpoints, const std::string& run, Duration call_limit)
    : prefix_("/prime/" + run + "/"), call_limit_(call_limit), client_(std::move(endpoints)) {}

Result<LeaseId> RunStore::enter(const std::string& address, Duration length) {
  PRIME_TRY(const auto lease, client_.grant(length, call_limit_));
  PRIME_CHECK(client_.put({prefix_ + "coordinators/" + address, address, lease}, call_limit_));
  return lease;
}

Result<Coordinators> RunStore::coordinators() {
  PRIME_TRY(const auto entries, client_.read_all(prefix_ + "coordinators/", call_limit_));
  Coordinators known;
  for (const auto& entry : entries)
    if (auto address = net::parse_endpoint(entry.value); address && known.addresses.size() < MAX_COORDINATORS)
      known.addresses.push_back(std::move(*address));
  return known;
}

Result<std::variant<Lead, Leader>> RunStore::campaign(const std::string& address, LeaseId lease) {
  using Result = Result<std::variant<Lead, Leader>>;
  const auto key = prefix_ + "leader";
  // Ours under this lease: an attempt whose answer was lost.
  const auto judge = [&](const Entry& found) -> Result {
    if (found.lease == lease) return Lead{found.created};
    return Leader{found.value, found.lease};
  };
  // To read first spares etcd's disk while somebody else leads.
  PRIME_TRY(const auto before, client_.read(key, call_limit_));
  if (before) return judge(*before);
  PRIME_TRY(const auto outcome, client_.commit({{{key, Condition::Field::Created, 0}}, {{key, address, lease}}, {key}}, call_limit_));
  if (outcome.succeeded) return Lead{outcome.revision};
  if (outcome.others.front()) return judge(*outcome.others.front());
  return fail(ErrorName::StandbyStoreFailed, key + " is neither there nor absent");
}

Result<std::optional<std::string>> RunStore::decisions() {
  PRIME_TRY(auto entry, client_.read(prefix_ + "decisions", call_limit_));
  kept_ = entry ? entry->modified : 0;
  if (!entry) return std::nullopt;
  return std::move(entry->value);
}

Result<void> RunStore::keep_last(const Lead& lead, const std::string& decisions, Duration remembered) {
  PRIME_TRY(const auto lease, client_.grant(remembered, call_limit_));
  return keep_under(lead, decisions, lease);
}

Result<void> RunStore::keep_under(const Lead& lead, const std::string& decisions, LeaseId lease) {
  const auto leader = prefix_ + "leader";
  const auto key = prefix_ + "decisions";
  // The second condition is against ourselves: a request that was given up and repeated may still be carried out, after a newer one.
  Transaction transaction{{{leader, Condition::Field::Created, lead.created}, {key, Condition::Field::Modified, kept_}},
                          {{key, decisions, lease}},
                          {leader, key}};
  if (lease != 0) transaction.puts.push_back({prefix_ + "plan", {}, lease, true});
  PRIME_TRY(const auto outcome, client_.commit(transaction, call_limit_));
  if (outcome.succeeded) {
    kept_ = outcome.revision;
    return {};
  }
  const auto& now_leads = outcome.others[0];
  const auto& stands = outcome.others[1];
  if (!now_leads) return fail(ErrorName::LeadershipLost, "its lease has run out");
  if (now_leads->created != lead.created) return fail(ErrorName::LeadershipLost, "the coordinator at " + now_leads->value + " leads it");
  // It was carried out before, and the answer was lost.
  if (!stands || stands->value != decisions) return fail(ErrorName::LeadershipLost, "somebody else has written " + key);
  kept_ = stands->modified;
  return {};
}

Result<std::optional<std::string>> RunStore::plan() {
  PRIME_TRY(auto entry, client_.read(prefix_ + "plan", call_limit_));
  if (!entry) return std::nullopt;
  return std::move(entry->value);
}

Result<void> RunStore::keep_plan(const Lead& lead, const std::string& plan) {
  const auto key = prefix_ + "plan";
  PRIME_TRY(
      const auto outcome,
      client_.commit(
          {{{prefix_ + "leader", Condition::Field::Created, lead.created}, {key, Condition::Field::Created, 0}}, {{key, plan, 0}}, {key}},
          call_limit_));
  if (outcome.succeeded || outcome.others.front()) return {};
  return fail(ErrorName::LeadershipLost, "its lease has run out");
}

}  // namespace prime::etcd

#include "runtime/etcd/run_store.hpp"

#include "runtime/net/run_key.hpp"

namespace prime::etcd {

RunStore::RunStore(const Access& access, const std::string& run, Duration call_limit)
    : keys_(run), call_limit_(call_limit), client_(access) {}

Result<LeaseId> RunStore::enter(const std::string& address, Duration length) {
  PRIME_TRY(const auto lease, client_.grant(length, call_limit_));
  PRIME_CHECK(client_.put({keys_.coordinators + address, address, lease}, call_limit_));
  return lease;
}

Result<Coordinators> RunStore::coordinators() {
  PRIME_TRY(const auto entries, client_.read_all(keys_.coordinators, call_limit_));
  Coordinators known;
  for (const auto& entry : entries)
    if (auto addresses = net::parse_addresses(entry.value); addresses && known.addresses.size() < MAX_COORDINATORS)
      known.addresses.push_back(std::move(*addresses));
  return known;
}

Result<std::optional<Leader>> RunStore::campaign(const std::string& address, LeaseId lease) {
  // To read first spares etcd's disk while somebody else leads.
  PRIME_TRY(const auto before, client_.read(keys_.leader, call_limit_));
  if (before) return judge_leader(*before, lease);
  PRIME_TRY(const auto outcome, client_.commit(to_lead(keys_, address, lease), call_limit_));
  return judge_lead(outcome, keys_, lease);
}

Result<std::optional<Leader>> RunStore::depose(LeaseId former, const std::string& address, LeaseId lease) {
  PRIME_TRY(const auto outcome, client_.commit(to_lead(keys_, address, lease, former), call_limit_));
  // It ran out before it was taken: whoever is first leads.
  if (!outcome.succeeded && !outcome.others.front()) return campaign(address, lease);
  // Were it alive after all, its next renewal would tell it.
  if (outcome.succeeded) static_cast<void>(leave(former));
  return judge_lead(outcome, keys_, lease);
}

Result<std::optional<std::string>> RunStore::decisions() {
  PRIME_TRY(auto entry, client_.read(keys_.decisions, call_limit_));
  kept_ = entry ? entry->modified : 0;
  if (!entry) return std::nullopt;
  return std::move(entry->value);
}

Result<void> RunStore::keep_last(LeaseId lease, const std::string& decisions, Duration remembered) {
  PRIME_TRY(const auto of_decisions, client_.grant(remembered, call_limit_));
  return keep_under(lease, decisions, of_decisions);
}

Result<void> RunStore::keep_under(LeaseId lease, const std::string& decisions, LeaseId of_decisions) {
  auto transaction = to_keep(keys_, lease, kept_, {keys_.decisions, decisions, of_decisions});
  if (of_decisions != 0) transaction.puts.push_back({keys_.plan, {}, of_decisions, true});
  PRIME_TRY(const auto outcome, client_.commit(transaction, call_limit_));
  PRIME_TRY(kept_, judge_keep(outcome, keys_, lease, decisions));
  return {};
}

Result<std::optional<std::string>> RunStore::plan() {
  PRIME_TRY(auto entry, client_.read(keys_.plan, call_limit_));
  if (!entry) return std::nullopt;
  return std::move(entry->value);
}

Result<void> RunStore::keep_plan(LeaseId lease, const std::string& plan) {
  const Transaction once{
      {{keys_.leader, Condition::Field::Lease, lease}, {keys_.plan, Condition::Field::Created, 0}}, {{keys_.plan, plan, 0}}, {keys_.plan}};
  PRIME_TRY(const auto outcome, client_.commit(once, call_limit_));
  if (outcome.succeeded || outcome.others.front()) return {};
  return fail(ErrorName::LeadershipLost, "its lease has run out");
}

}  // namespace prime::etcd

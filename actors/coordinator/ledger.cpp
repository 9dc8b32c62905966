#include "actors/coordinator/ledger.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace prime::coordinator {
namespace {

/// What tells nothing that was decided.
bool waits_for_nothing(const Action& action) {
  if (const auto* send = std::get_if<Send>(&action)) return std::holds_alternative<HeartbeatSeen>(send->message);
  return std::holds_alternative<LookFor>(action) || std::holds_alternative<Probe>(action);
}

/// Moves what is for the ledger into the entry; the rest is returned.
std::vector<Action> sift(Entry& entry, Effects effects) {
  std::vector<Action> actions;
  for (auto& effect : effects)
    std::visit(overloaded{
                   [&](JournalEvent& event) { entry.events.push_back(std::move(event)); },
                   [&](auto& action) { actions.emplace_back(std::move(action)); },
               },
               effect);
  return actions;
}

std::vector<Action> begin_entry(Ledger& ledger, Instant now) {
  ledger.since = now;
  ledger.decided_at = ledger.next_decided_at;
  ledger.held = std::exchange(ledger.held_next, {});
  std::vector<Action> actions;
  actions.emplace_back(WriteEntry{std::exchange(ledger.next, {})});
  return actions;
}

}  // namespace

Ledger open_ledger(const membership::Options& options) {
  Ledger ledger;
  ledger.limit = std::max(options.coordinator_grace, LEAST_LEDGER_LIMIT);
  return ledger;
}

std::vector<Action> record(Ledger& ledger, std::optional<Snapshot> decided, Effects effects, Instant now) {
  if (ledger.next.empty()) ledger.next_decided_at = now;
  if (decided) ledger.next.decided = std::move(decided);
  auto actions = sift(ledger.next, std::move(effects));
  const bool begins = !ledger.is_writing() && !ledger.next.empty();
  if (!ledger.is_writing() && !begins) return actions;
  std::vector<Action> at_once;
  // Behind the newest decision there is, since they may follow from it.
  auto& held = begins || !ledger.next.empty() ? ledger.held_next : ledger.held;
  for (auto& action : actions) (waits_for_nothing(action) ? at_once : held).push_back(std::move(action));
  if (begins) std::ranges::move(begin_entry(ledger, now), std::back_inserter(at_once));
  return at_once;
}

std::vector<Action> written(Ledger& ledger, Instant now) {
  ledger.since.reset();
  auto actions = std::exchange(ledger.held, {});
  if (!ledger.next.empty()) std::ranges::move(begin_entry(ledger, now), std::back_inserter(actions));
  return actions;
}

void forget(Ledger& ledger, PeerId peer) {
  const auto is_for_it = [&](const Action& action) {
    const auto* const send = std::get_if<Send>(&action);
    return send != nullptr && send->to == peer;
  };
  std::erase_if(ledger.held, is_for_it);
  std::erase_if(ledger.held_next, is_for_it);
}

Tick tick(const Ledger& ledger, Instant now) { return Tick{ledger.since ? now - ledger.decided_at : Duration{}}; }

std::optional<Error> overdue(const Ledger& ledger, Instant now) {
  if (!ledger.since || now - *ledger.since <= ledger.limit) return std::nullopt;
  return Error{ErrorName::StorageFailed, "what this coordinator decided could not be written down for " + format_duration(ledger.limit) +
                                             ": its disk, or etcd, stands still (`membership.coordinator_grace` says for how long it may)"};
}

}  // namespace prime::coordinator

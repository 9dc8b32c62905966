#include "actors/peer/reduces.hpp"

#include <algorithm>
#include <utility>

#include "actors/peer/coordinator_ties.hpp"
#include "actors/peer/finishing.hpp"
#include "messages/assert.hpp"

namespace prime::peer {

std::string Reduces::start(const StartReduce& m) {
  if (m.op.epoch < s_.epoch) return "a reduce of an older epoch";
  // The others do not wait for who is late: it takes part without weight while its trainer goes on.
  const bool waits = s_.phase == Phase::Waiting && s_.begin;
  const bool told = std::ranges::any_of(s_.told, [&](const prime::Ready& ready) { return ready.covers(m.fragment); });
  const bool able =
      s_.phase == Phase::Ready || told || s_.published.has_value() || ((s_.phase == Phase::Training || waits) && own_weight(m) == 0);
  if (!able || m.base != s_.revision || m.elements != s_.elements) {
    const auto why = !able ? "not ready: " + std::string{to_string(s_.phase)}
                           : "holds revision " + std::to_string(s_.revision.value) + " with " + std::to_string(s_.elements) + " elements";
    tell(ReduceFailed{m.op, PeerId{}, Error{ErrorName::ReduceMismatch, why}});
    return "refused the reduce";
  }
  if (s_.phase == Phase::Training) emit(Probe::ReducesWhileTraining);
  s_.epoch = m.op.epoch;
  record(events::ReduceEntered{m.step, m.op, m.contributions.size()});
  if (s_.operations.empty()) beat();  // what was moved until now is of no part of it
  else emit(Probe::ReducesSeveral);
  s_.operations.push_back({.reduce = m});
  emit(RunReduce{m, own_weight(m) > 0});
  return "reduces";
}

std::string Reduces::abort(const Abort& m) {
  const auto aborted = find(m.op);
  if (aborted == s_.operations.end()) return "nothing to abort";
  record(events::ReduceAborted{aborted->reduce.step, m.op, m.op.epoch, m.reason});
  if (aborted->prepared) emit(Discard{m.op});
  else emit(AbortReduce{m.op, m.reason});
  emit(Probe::ReduceVoid);
  s_.operations.erase(aborted);
  return "aborted: " + m.reason;
}

std::string Reduces::commit(const Commit& m) {
  const auto found = find(m.op);
  if (found == s_.operations.end() || !found->prepared) return "a commit that was heard before";
  if (*found->prepared != m.part)
    return CoordinatorTies{s_, now_, effects_}.give_up(
        Error{ErrorName::ParityBroken, "prepared " + to_string(*found->prepared) + ", committed was " + to_string(m.part)});
  if (found != s_.operations.begin()) emit(Probe::CommittedBeforeOlder);
  const auto reduce = std::move(found->reduce);
  s_.operations.erase(found);
  PRIME_ASSERT(m.revision == s_.revision.next(), "law 2: a commit leads to the next revision");
  s_.revision = m.revision;
  s_.digest = m.state;
  s_.parts.clear();
  if (s_.options.decoupled) std::erase_if(s_.told, [&](const prime::Ready& ready) { return ready.covers(m.fragment); });
  else if (own_weight(reduce) > 0) work_is_in(m.fragment);
  events::CommitApplied done{.outer_step = m.step, .epoch = m.op.epoch, .revision = m.revision, .digest = m.state};
  for (const auto& contribution : reduce.contributions) {
    done.weight += contribution.weight;
    if (contribution.weight > 0) done.contributors.push_back(contribution.peer);
  }
  const auto every = s_.options.checkpoint_every;
  const bool writes = s_.options.all_write_checkpoints || reduce.view.members.front().id == s_.options.hello.peer;
  if (every > 0 && m.completes && m.step.value % every == 0)
    emit(SaveState{"every " + std::to_string(every) + " outer steps", m.revision, true, writes, is_late(s_)});
  emit(ApplyCommit{m});
  if (m.completes) record(std::move(done));
  // Who trains, or whose work is on the way, goes on with that; all others are told of the next step once this one is complete.
  const bool is_in = !s_.options.decoupled && (s_.begin->contribute ? !is_late(s_) : m.completes);
  if (is_in && s_.phase != Phase::Leaving) s_.phase = Phase::Waiting;
  if (s_.done_after_commit) return Finishing{s_, now_, effects_}.done(*std::exchange(s_.done_after_commit, std::nullopt));
  if (s_.options.decoupled) return "committed";
  return is_in ? "committed" : "committed without its own work, which comes later";
}

std::string Reduces::ended(const ReduceEnded& event) {
  const auto ended = find(event.op);
  if (ended == s_.operations.end() || ended->prepared) {
    // The operation was aborted while it ended: what it prepared is void.
    if (event.prepared) emit(Discard{event.op});
    return "an operation that is over";
  }
  if (!event.prepared) {
    s_.operations.erase(ended);
    tell(ReduceFailed{event.op, event.suspect, event.prepared.error()});
    return "the reduce failed: " + prime::to_string(event.prepared.error());
  }
  ended->prepared = *event.prepared;
  ended->asked = now_;
  tell(Vote{event.op, *event.prepared, event.wire_bytes, event.reduce_ns});
  return "voted";
}

std::string Reduces::doubt() {
  bool doubts = false;
  for (auto& operation : s_.operations) {
    if (!operation.prepared || now_ - operation.asked < s_.options.doubt_after) continue;
    operation.asked = now_;
    doubts = true;
    tell(InDoubt{operation.reduce.op});
  }
  return doubts ? "in doubt: asked for the decision" : "";
}

void Reduces::work_is_in(std::uint32_t fragment) {
  auto& published = s_.published;
  if (!published || published->owed.erase(fragment) == 0) s_.owed.erase(fragment);
  else if (published->owed.empty()) published.reset();
}

std::vector<InHand>::iterator Reduces::find(const OperationId& op) {
  return std::ranges::find(s_.operations, op, [](const InHand& each) { return each.reduce.op; });
}

std::uint64_t Reduces::own_weight(const StartReduce& m) const {
  for (const auto& contribution : m.contributions)
    if (contribution.peer == s_.options.hello.peer) return contribution.weight;
  return 0;
}

}  // namespace prime::peer

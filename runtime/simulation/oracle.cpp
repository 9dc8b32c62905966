#include "runtime/simulation/oracle.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <tuple>

namespace prime::sim {
namespace {

/// In a larger swarm a change of a seat that changes no view is seen with the coordinator's next tick.
constexpr std::size_t WATCHED_AFTER_EVERY_EVENT = 64;

/// Among the effects, an event of that kind.
template <class Event>
const Event* journaled(const coordinator::Effect& effect) {
  const auto* event = std::get_if<JournalEvent>(&effect);
  return event != nullptr ? std::get_if<Event>(event) : nullptr;
}

/// Whoever comes late hears that the run is over.
bool refuses(const coordinator::Effect& effect) {
  const auto* send = std::get_if<coordinator::Send>(&effect);
  return journaled<events::PeerRefused>(effect) != nullptr || (send != nullptr && std::holds_alternative<Dismissed>(send->message));
}

template <class Text>
std::string said(const Text& text) {
  if constexpr (std::is_arithmetic_v<Text>) return std::to_string(text);
  else if constexpr (std::is_convertible_v<Text, std::string>) return text;
  else return to_string(text);
}

}  // namespace

void Oracle::violate(const std::string& what) {
  if (!violation_) violation_ = what;
}

template <class... Parts>
void Oracle::expect(bool holds, const char* number, const Parts&... what) {
  if (!holds) violate(((std::string{number} + " ") + ... + said(what)));
}

void Oracle::coordinator_stepped(const coordinator::Event& event, const coordinator::State& state,
                                 const std::vector<coordinator::Effect>& effects, Instant now, Instant told) {
  now_ = now;
  told_ = told;
  judged_now_.reset();
  members_before_.clear();
  if (const auto* received = std::get_if<coordinator::Received>(&event)) heard_[received->from] = now;
  // A member whose seat is kept begins to be silent when its connection ends, unless it has been silent for long before.
  if (const auto* lost = std::get_if<coordinator::ConnectionLost>(&event); lost != nullptr && state.peers.contains(lost->peer))
    if (auto& heard = heard_[lost->peer]; now - heard <= options_.heartbeat_limit) heard = now;
  if (options_.on_correlated_loss == coordinator::LossPolicy::Pause) note_losses(state, effects);
  if (const auto* received = std::get_if<coordinator::Received>(&event)) {
    if (const auto* vote = std::get_if<Vote>(&received->message)) votes_[vote->op][received->from] = vote->state;
    if (options_.decoupled && std::holds_alternative<Hello>(received->message)) note_unsure(received->from);
    if (const auto* ready = std::get_if<Ready>(&received->message); ready != nullptr && options_.decoupled) {
      note_pending(received->from, *ready);
    } else if (ready != nullptr) {
      for (auto* works : {&published_, &told_work_})
        if (const auto work = works->find(received->from); work != works->end() && work->second.begin.step == ready->step)
          for (std::uint32_t fragment = 0; fragment < options_.fragments; ++fragment)
            if (ready->covers(fragment)) work->second.bases[fragment] = ready->base;
    }
  }
  if (over_) {
    const auto* received = std::get_if<coordinator::Received>(&event);
    // Of a greeting to another shard this oracle sees the answer alone.
    const bool greeted =
        received != nullptr ? std::holds_alternative<Hello>(received->message) : std::holds_alternative<Coordinators>(event);
    expect(greeted ? std::ranges::all_of(effects, refuses) : effects.empty(), "SIM-9", "something was decided after the end");
  }
  bool end_is_journaled = false;
  reduce_overdue_ = false;
  for (const auto& effect : effects)
    if (const auto* aborted = journaled<events::OuterStepAborted>(effect);
        aborted != nullptr && aborted->cause == AbortCause::DeadlinePassed)
      overdue(aborted->operation);
  for (const auto& effect : effects) {
    if (const auto* aborted = journaled<events::OuterStepAborted>(effect)) undecided_.erase(aborted->operation);
    if (const auto* done = journaled<events::RoundCommitted>(effect)) committed(*done, state);
    if (const auto* done = journaled<events::OuterStepCommitted>(effect)) completed(*done);
    if (const auto* back = journaled<events::RolledBack>(effect)) rolled_back(*back, state);
    if (journaled<events::RunPaused>(effect) != nullptr) paused_by_owner_ = true;
    if (journaled<events::RunResumed>(effect) != nullptr) paused_by_owner_ = false;
    end_is_journaled = end_is_journaled || journaled<events::RunDone>(effect) != nullptr ||
                       journaled<events::RunStopped>(effect) != nullptr || journaled<events::RunFailed>(effect) != nullptr;
    if (journaled<events::FinalReport>(effect) != nullptr) reported_ = true;
    if (const auto* send = std::get_if<coordinator::Send>(&effect)) sent(*send, state);
    if (const auto* finish = std::get_if<coordinator::Finish>(&effect)) {
      expect(finish->cause || reported_, "SIM-10", "the run is done without its final report");
      expect(end_is_journaled, "LAW-8", "the run finished before that was journaled");
      over_ = true;
    }
  }
  check_membership(state, state.peers.size() <= WATCHED_AFTER_EVERY_EVENT || std::holds_alternative<coordinator::Tick>(event));
}

/// Counts for itself who was lost together, by their last signs of life: those who are no members any more and did not say goodbye.
void Oracle::note_losses(const coordinator::State& state, const std::vector<coordinator::Effect>& effects) {
  std::set<PeerId> gone;
  for (const auto id : ids_of_members_)
    if (!state.peers.contains(id)) gone.insert(id);
  auto members = ids_of_members_.size();
  for (const auto& effect : effects) {
    const auto* left = journaled<events::PeerLeft>(effect);
    if (left == nullptr || gone.erase(left->who.peer) == 0) continue;
    --members;
    members_before_losses_ -= std::min<std::size_t>(members_before_losses_, 1);
    if (pause_) pause_->first -= std::min<std::size_t>(pause_->first, 1);
  }
  for (const auto id : gone) {
    if (losses_ == 0 || heard_[id] - losing_since_ > options_.heartbeat_limit) {
      losing_since_ = heard_[id];
      members_before_losses_ = members;
      losses_ = 0;
    }
    const auto correlated = [&] { return losses_ >= 2 && 3 * losses_ >= members_before_losses_; };
    const bool known = correlated();
    ++losses_;
    --members;
    if (!known && correlated()) pause_ = {std::max(members_before_losses_, pause_ ? pause_->first : 0), now_};
  }
  if (pause_ && (state.view.members.size() >= pause_->first || now_ - pause_->second > options_.wait_limit)) pause_.reset();
}

void Oracle::coordinator_restarted(const coordinator::State& state, Instant now) {
  std::erase_if(seats_, [&](const SeatSeen& seen) { return !state.peers.contains(seen.id); });
  gone_.clear();
  undecided_.clear();  // they are void
  note_unsure();
  losses_ = 0;
  if (pause_) pause_->second = now_;
  for (const auto& member : state.view.members) heard_[member.id] = now;
  const auto newest = journal_.empty() ? Revision{} : journal_.rbegin()->first;
  expect(state.revision == newest, "LAW-8", "revision ", newest.value, " is forgotten");
  expect(state.paused_by_owner.has_value() == paused_by_owner_, "LAW-8", "whether its owner has paused the run is forgotten");
  expect(reduces_.empty() || state.sequence >= reduces_.rbegin()->first.sequence, "LAW-8", "an operation is forgotten");
  check_membership(state, true);
}

/// Judges what differs from the last time; what is as it was, was judged then.
void Oracle::check_membership(const coordinator::State& state, bool all_seats) {
  const auto& members = state.view.members;
  expect(state.view.epoch >= epoch_, "LAW-1", "the epoch fell");
  const bool same_members = members == members_;
  const auto was_member = [&](const Member& member) { return ids_of_members_.contains(member.id); };
  const bool all_stayed = same_members || static_cast<std::size_t>(std::ranges::count_if(members, was_member)) == ids_of_members_.size();
  expect(state.view.epoch > epoch_ || all_stayed, "LAW-1", "a member went and the epoch stayed");
  expect(state.view.epoch == epoch_ || !all_stayed, "LAW-1", "nobody went and the epoch grew");
  epoch_ = state.view.epoch;
  if (!same_members) {
    members_ = members;
    members_before_ = std::move(ids_of_members_);
    ids_of_members_.clear();
    std::optional<std::uint64_t> last;
    for (const auto& member : members) {
      ids_of_members_.insert(member.id);
      expect(!last || *last < member.ordinal || options_.measure_links, "SIM-6", "ranks do not follow the order of arrival");
      last = member.ordinal;
    }
  }
  const auto as_before = [](const SeatSeen& seen, const auto& entry) {
    return seen.id == entry.first && seen.seat == entry.second.seat && seen.overtaken == (entry.second.fetch.stale > 0);
  };
  seats_changed_ =
      (all_seats || !same_members) && !std::equal(seats_.begin(), seats_.end(), state.peers.begin(), state.peers.end(), as_before);
  if (same_members && !seats_changed_) return;
  check_seats(state);
}

void Oracle::check_seats(const coordinator::State& state) {
  for (const auto& seen : seats_)
    if (!state.peers.contains(seen.id)) gone_.insert(seen.id);
  seats_.clear();
  for (const auto& [id, peer] : state.peers) {
    expect(!gone_.contains(id), "SIM-2", peer.hello.name, " came back after it was gone");
    expect((peer.seat == coordinator::Seat::Member) == ids_of_members_.contains(id), "SIM-6", peer.hello.name, ": seat and view differ");
    seats_.push_back({id, peer.seat, peer.fetch.stale > 0});
  }
  for (const auto& member : members_) expect(state.peers.contains(member.id), "SIM-6", member.name, " has no seat and is a member");
}

void Oracle::sent(const coordinator::Send& send, const coordinator::State& state) {
  if (const auto* begin = std::get_if<BeginStep>(&send.message)) begun(send.to, *begin, state);
  if (const auto* reduce = std::get_if<StartReduce>(&send.message)) reduce_started(*reduce, state);
  if (const auto* farewell = std::get_if<Dismissed>(&send.message)) dismissed(send.to, farewell->cause);
  if (const auto* abort = std::get_if<Abort>(&send.message)) {
    expect(!committed_.contains(abort->op), "LAW-2", "operation ", abort->op, " was aborted after its commit");
    aborted_.insert(abort->op);
    undecided_.erase(abort->op);
  }
  if (const auto* commit = std::get_if<Commit>(&send.message)) {
    const auto decided = committed_.find(commit->op);
    if (decided == committed_.end()) return expect(false, "LAW-8", "commit of ", commit->op, " was told before it was journaled");
    expect(decided->second.revision == commit->revision && decided->second.state == commit->state && decided->second.part == commit->part &&
               decided->second.completes == commit->completes,
           "LAW-8", "a commit differs from its journal");
  }
}

/// What nobody has heard of cannot be late.
void Oracle::overdue(OperationId op) {
  reduce_overdue_ = true;
  expect(now_ - reduce_told_[op] >= options_.deadline - slack_, "SIM-7", "the reduce ", op, " is called overdue before the deadline");
}

/// All peers of a simulation are honest: whatever they are sent away for must have been done to them.
void Oracle::dismissed(PeerId to, const Error& cause) {
  const auto accused = [&](ErrorName name) { return cause.name == name; };
  expect(!accused(ErrorName::ProtocolViolation) && !accused(ErrorName::ReduceMismatch) && !accused(ErrorName::InternalError), "SIM-7", to,
         " is sent away for ", cause);
  expect(!accused(ErrorName::FetchFailed), "SIM-7", to, " is sent away although there were donors");
  expect(!accused(ErrorName::ParityBroken) || parity_may_break_, "SIM-7", to, " is sent away for ", cause);
  // Of a member it is that it was not ready in time, or that it has not voted: then the deadline of the reduce passed just now.
  if (accused(ErrorName::DeadlineExceeded) && is_member_until_now(to) && !reduce_overdue_)
    expect(!options_.decoupled && now_ - begun_at_[to] >= options_.deadline && now_ - begun_told_[to] >= options_.deadline - slack_,
           "SIM-7", to, " is called slow before the deadline");
}

void Oracle::note_pending(PeerId from, const Ready& ready) {
  const auto fragment = ready.fragments.empty() ? 0 : ready.fragments.front();
  const auto version = reference_.empty() ? OuterStep{} : reference_.rbegin()->second.versions[fragment];
  if (ready.weight == 0 || ready.step != version.next() || ready.step.value > options_.outer_steps || !ids_of_members_.contains(from))
    return;
  expect(ready.weight == weigh_(from, ready.step), "SIM-4", from, " publishes with another weight than it has");
  const auto [known, is_new] = pending_.emplace(std::pair{from, fragment}, Pending{ready});
  expect(is_new || known->second.ready.base == ready.base, "SIM-4", from, " publishes a fragment twice for one version");
  known->second.sure = true;
}

void Oracle::note_unsure(std::optional<PeerId> of) {
  for (auto& [whose, pending] : pending_)
    if (!of || whose.first == *of) pending.sure = false;
}

std::uint64_t Oracle::pending_weight(PeerId peer, std::uint32_t fragment) const {
  const auto found = pending_.find({peer, fragment});
  return found == pending_.end() ? 0 : found->second.ready.weight;
}

bool Oracle::is_pending(PeerId peer, std::uint64_t first_sample) const {
  return std::ranges::any_of(
      pending_, [&](const auto& entry) { return entry.first.first == peer && entry.second.ready.first_sample == first_sample; });
}

Oracle::Told* Oracle::brings(PeerId peer, std::uint32_t fragment) {
  const auto published = published_.find(peer);
  if (published != published_.end() && published->second.owes.contains(fragment)) return &published->second;
  const auto told = told_work_.find(peer);
  return told == told_work_.end() ? nullptr : &told->second;
}

void Oracle::begun(PeerId to, const BeginStep& message, const coordinator::State& state) {
  expect(!gone_.contains(to), "SIM-2", "a step begins for a peer that is gone");
  expect(!paused_by_owner_ || message.step <= begun_step_, "SIM-17", "outer step ", message.step.value, " begins while the run is paused");
  begun_step_ = std::max(begun_step_, message.step);
  const auto is_it = [&](const std::unordered_map<PeerId, Told>& works) {
    const auto last = works.find(to);
    return last != works.end() && last->second.begin.step == message.step && last->second.begin.first_sample == message.first_sample &&
           last->second.begin.contribute == message.contribute;
  };
  if (is_it(published_)) return;  // a coordinator that was restarted asks for it
  const bool same = is_it(told_work_);
  auto& told = told_work_[to];
  if (!same && message.overlaps) published_[to] = told;
  if (!same || !message.contribute) told.owes.clear();
  if (!same && message.contribute) handed_out(to, message.first_sample, state);
  if (!same && message.contribute)
    for (std::uint32_t fragment = 0; fragment < options_.fragments; ++fragment)
      if (covers(message.fragments, fragment)) told.owes.insert(fragment);
  told.begin = message;
  if (message.attempt == 0) {  // who begins anew has no more time than those who do not
    begun_at_[to] = now_;
    begun_told_[to] = told_;
  }
  if (reference_.empty() || message.base == Revision{}) return;  // the founder is checked at the first commit
  expect(reference_.contains(message.base) && message.base == reference_.rbegin()->first, "SIM-1",
         "a step begins from a revision that is not the newest");
}

void Oracle::reduce_started(StartReduce message, const coordinator::State& state) {
  message.relays.clear();  // each has its own
  if (judged_now_ == message.op)
    return expect(reduces_.at(message.op) == message, "LAW-1", "operation ", message.op, " is told to its members in different words");
  judged_now_ = message.op;
  reduce_told_[message.op] = told_;
  if (!reduces_.contains(message.op) && !reduces_.empty()) {
    const auto& last = reduces_.rbegin()->first;
    expect(last < message.op && last.sequence < message.op.sequence, "LAW-1", "operation ", message.op, " is not newer than all before");
  }
  reduces_[message.op] = message;
  const auto same = [&](const OperationId& op) { return reduces_.at(op).fragment == message.fragment; };
  expect(std::ranges::none_of(undecided_, same), "LAW-2", "fragment ", message.fragment, " is reduced twice at once");
  undecided_.insert(message.op);
  expect(undecided_.size() <= std::max(options_.in_flight, 1U), "LAW-2", undecided_.size(), " reduces are in flight at once");
  expect(message.op.epoch == message.view.epoch, "LAW-1", "an operation belongs to another epoch than its view");
  std::unordered_set<PeerId> missing;
  for (const auto& member : message.view.members) missing.insert(member.id);
  const bool known = std::ranges::all_of(message.contributions, [&](const Contribution& c) { return missing.erase(c.peer) == 1; });
  expect(known && missing.empty(), "LAW-4", "one contribution for each member");
  // A clock may be a little fast: the last thousandth is not judged.
  const bool paused = pause_ && now_ - pause_->second < options_.wait_limit - options_.wait_limit / 1000;
  expect(!paused || message.view.members.size() >= pause_->first, "SIM-12", "reduces although it pauses after a correlated loss");
  std::size_t contributors = 0;
  for (const auto& [id, weight] : message.contributions) {
    expect(state.peers.contains(id), "SIM-2", "a contributor is gone");
    if (options_.decoupled) {
      const auto pending = pending_.find({id, message.fragment});
      const bool may_lack = pending != pending_.end() && !pending->second.sure;
      const auto own = pending_weight(id, message.fragment);
      expect(weight == own || (may_lack && weight == 0), "LAW-4", "peer ", id, " weighs ", weight, " and should ", own);
      if (weight > 0) ++contributors;
      continue;
    }
    const auto* told = brings(id, message.fragment);
    if (told == nullptr) return expect(false, "LAW-4", "a contributor never began");
    const auto step = told->begin.step;
    const auto own = told->owes.contains(message.fragment) ? weigh_(id, step) : 0;
    // Who was promoted when some fragments had been committed brings its work to those in the next step.
    const bool may_bring_later = options_.fragments > 1 && step.next() == message.step;
    // What is trained for the next step is no part of this one, unless too few brought theirs.
    const bool may_bring_sooner = options_.overlap && step == message.step.next();
    const bool may_be_late = options_.quorum > 0 && own > 0;
    expect(weight == own || ((may_be_late || may_bring_sooner) && weight == 0), "LAW-4", "peer ", id, " weighs ", weight, " and should ",
           own);
    expect(weight == 0 || may_be_late || may_bring_later || may_bring_sooner || step == message.step, "LAW-4", "peer ", id,
           " brings old work");
    if (weight > 0) ++contributors;
  }
  expect(contributors >= least_contributors(message.contributions.size()), "LAW-5", "reduces with ", contributors, " contributors");
  expect(message.contributions.size() >= options_.min_peers, "LAW-5", "reduces with ", message.contributions.size(), " members");
  check_radii(message);
  std::set<std::uint64_t> ranges;
  for (const auto& [id, weight] : message.contributions) {
    if (weight == 0) continue;
    if (options_.decoupled) {
      const auto first = pending_.at({id, message.fragment}).ready.first_sample;
      expect(message.next_sample >= first + options_.samples_per_peer, "SIM-5", "the cursor is behind what was handed out");
      continue;
    }
    const auto first = brings(id, message.fragment)->begin.first_sample;
    expect(ranges.insert(first).second && !consumed_.contains({first, message.fragment}), "SIM-5", "samples are consumed twice by ", id);
    expect(message.next_sample >= first + options_.samples_per_peer, "SIM-5", "the cursor is behind what was handed out");
  }
}

/// Simulated contributions are as long as they weigh.
void Oracle::check_radii(const StartReduce& message) {
  if (options_.shards > 1) return;
  double sum = 0;
  double total = 0;
  for (const auto& contribution : message.contributions) {
    const auto weight = static_cast<double>(contribution.weight);
    sum += weight * weight;
    total += weight;
  }
  expect(message.radii == SharedList<Real>{Real{sum / total}}, "LAW-4", "the mean length is not that of the contributions");
}

/// A range is one peer's until a fragment has its work, or the peer is gone; then it is the first to be handed out again.
void Oracle::handed_out(PeerId to, std::uint64_t first, const coordinator::State& state) {
  const auto held = [&](std::uint64_t range, PeerId holder) {
    const auto peer = state.peers.find(holder);
    if (peer == state.peers.end() || peer->second.seat != coordinator::Seat::Member) return false;
    if (options_.decoupled && is_pending(holder, range)) return true;
    return std::ranges::any_of(std::array{&published_, &told_work_}, [&](const auto* works) {
      const auto told = works->find(holder);
      return told != works->end() && told->second.begin.first_sample == range;
    });
  };
  expect(first % options_.samples_per_peer == 0, "SIM-5", "ranges of samples overlap");
  const auto known = handed_.find(first);
  if (known != handed_.end()) {
    expect(known->second == to || !held(first, known->second), "LAW-12", "the samples from ", first, " on are handed out twice, to ", to,
           " and before to ", known->second);
  } else if (handed_.size() <= WATCHED_AFTER_EVERY_EVENT) {
    for (const auto& [range, holder] : handed_) expect(held(range, holder), "LAW-12", "the samples from ", range, " on are left behind");
  }
  handed_[first] = to;
}

void Oracle::committed(const events::RoundCommitted& done, const coordinator::State& state) {
  if (reduces_.empty()) return expect(false, "LAW-2", "a commit without a reduce");
  const auto& op = done.operation;
  expect(!aborted_.contains(op), "LAW-2", "operation ", op, " is committed after its abort");
  if (undecided_.erase(op) == 0) return expect(false, "LAW-2", "operation ", op, ", which is not in flight, is committed");
  const auto& reduce = reduces_.at(op);
  const auto newest = journal_.empty() ? Revision{} : journal_.rbegin()->first;
  expect(done.revision == newest.next(), "SIM-1", "revision ", done.revision.value, " is committed after ", newest.value);
  expect(done.fragment == reduce.fragment && done.version == reduce.step, "LAW-2", "another version than the operation's is committed");
  const auto& votes = votes_[op];
  for (const auto& member : reduce.view.members) {
    expect(!gone_.contains(member.id) && state.peers.contains(member.id), "SIM-2", member.name, " is gone and contributes");
    const auto vote = votes.find(member.id);
    expect(vote != votes.end() && vote->second == done.digest, "LAW-2", "committed without the vote of ", member.name);
  }
  const bool judged = !violation_;
  check_mean(reduce, done.contributors, std::accumulate(done.weights.begin(), done.weights.end(), std::uint64_t{}), done.digest);
  if (violation_ && judged) return;
  const auto found = reference_.find(done.revision);
  if (found == reference_.end()) return;
  const auto& model = found->second;
  journal_[done.revision] = digest_of(model);
  const bool completes = std::ranges::min(model.versions) == done.version;
  committed_[op] = {op, reduce.step, done.revision, digest_of(model), done.fragment, done.digest, completes};
  last_round_ = done;
  if (options_.decoupled) {
    for (const auto& contribution : reduce.contributions)
      if (contribution.weight > 0) handed_.erase(pending_.at({contribution.peer, done.fragment}).ready.first_sample);
    std::erase_if(pending_, [&](const auto& entry) { return entry.first.second == done.fragment; });
    return;
  }
  for (const auto& contribution : reduce.contributions) {
    if (contribution.weight == 0) continue;
    auto* told = brings(contribution.peer, done.fragment);
    told->owes.erase(done.fragment);  // what it did is in: it weighs nothing there before it begins anew
    const auto first = told->begin.first_sample;
    consumed_.emplace(std::pair{first, done.fragment}, done.revision);
    handed_.erase(first);
  }
}

void Oracle::completed(const events::OuterStepCommitted& done) {
  const auto model = reference_.find(done.revision);
  const auto journaled = journal_.find(done.revision);
  if (model == reference_.end() || journaled == journal_.end())
    return expect(false, "SIM-1", "a step is complete at a revision that was not committed");
  expect(std::ranges::min(model->second.versions) == done.outer_step, "SIM-1", "outer step ", done.outer_step.value,
         " is called complete before all fragments have made it");
  expect(done.digest == journaled->second, "LAW-8", "the line of outer step ", done.outer_step.value, " has another digest");
  const auto weight = std::accumulate(last_round_.weights.begin(), last_round_.weights.end(), std::uint64_t{});
  expect(done.contributors == last_round_.contributors && done.weight == weight, "LAW-4", "the line of outer step ", done.outer_step.value,
         " names others than its last fragment's contributors");
}

/// Everything after that revision never was; who held it is known by an id that never comes back.
void Oracle::rolled_back(const events::RolledBack& back, const coordinator::State& state) {
  const auto to = back.revision;
  const auto committed = journal_.find(to);
  if (committed == journal_.end() || !reference_.contains(to)) return expect(false, "SIM-13", "rolled back to what was never committed");
  expect(back.outer_step.value % options_.checkpoint_every == 0, "SIM-13", "rolled back to outer step ", back.outer_step.value,
         ", which nobody saved");
  expect(committed->second == back.digest, "SIM-13", "rolled back to other bits than those of revision ", to.value);
  expect(state.cursor == reference_.at(to).cursor, "SIM-13", "the data cursor is not that of revision ", to.value);
  begun_step_ = back.outer_step;
  journal_.erase(journal_.upper_bound(to), journal_.end());
  reference_.erase(reference_.upper_bound(to), reference_.end());
  const auto cursor = reference_.at(to).cursor;
  std::set<std::uint64_t> unused;
  std::erase_if(consumed_, [&](const auto& entry) { return entry.second > to && (unused.insert(entry.first.first), true); });
  for (const auto first : unused) {
    const auto at = consumed_.lower_bound({first, 0});
    if (at == consumed_.end() || at->first.first != first) handed_[first] = PeerId{};
  }
  handed_.erase(handed_.lower_bound(cursor), handed_.end());
  for (const auto& [id, epoch] : peer_epochs_) void_.insert(id);
}

void Oracle::check_mean(const StartReduce& reduce, const std::vector<PeerId>& contributors, std::uint64_t weight, const Digest& digest) {
  if (reference_.empty()) {
    // The founder: whatever initial state leads to this result is the one; there must be exactly one among those brought along.
    std::vector<Model> candidates;
    for (const auto& [initial, model] : founders_) candidates.push_back(model);
    for (const auto& candidate : candidates) {
      reference_[Revision{}] = candidate;
      check_mean(reduce, contributors, weight, digest);
      if (reference_.contains(Revision{1})) break;
      reference_.clear();
    }
    return expect(!reference_.empty(), "LAW-4", "the first commit is no mean over any founder's state");
  }
  const std::unordered_set<PeerId> named(contributors.begin(), contributors.end());
  const auto& base = reference_.rbegin()->second;
  Numbers sum{};
  std::uint64_t total = 0;
  for (const auto& [id, weighs] : reduce.contributions) {  // rank order
    if (!named.contains(id)) continue;
    if (options_.decoupled) {
      const auto& ready = pending_.at({id, reduce.fragment}).ready;
      const auto from = reference_.find(ready.base);
      if (from == reference_.end() || from->second.versions[reduce.fragment].next() != ready.step)
        return violate("LAW-4 a contribution is of another version than that which it is for");
      const auto gradient = pseudo_gradient(id, ready.step, from->second, ready.first_sample);
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += gradient[i] * static_cast<double>(ready.weight);
      total += ready.weight;
      continue;
    }
    const auto& [begin, owes, bases] = *brings(id, reduce.fragment);
    const auto gradient = pseudo_gradient(id, begin.step, reference_.at(bases.at(reduce.fragment)), begin.first_sample);
    const auto own = weigh_(id, begin.step);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += gradient[i] * static_cast<double>(own);
    total += own;
  }
  expect(total == weight, "LAW-4", "the journaled weight is ", weight, ", the contributors weigh ", total);
  expect(contributors.size() >= least_contributors(reduce.contributions.size()), "LAW-5", "a commit with ", contributors.size(),
         " contributors");
  for (auto& number : sum) number /= static_cast<double>(total);
  const auto next = next_of(base, reduce.fragment, sum, reduce.next_sample);
  if (digest_of(next, reduce.fragment) == digest) reference_[next.revision] = next;
  else if (base.revision != Revision{})
    violate("LAW-4 revision " + std::to_string(next.revision.value) + " is not the mean of its contributors");
}

void Oracle::peer_stepped(const Holding& holding, const std::vector<peer::Effect>& effects) {
  auto& epoch = peer_epochs_[holding.id];
  expect(holding.machine->epoch >= epoch, "LAW-1", holding.machine->options.hello.name, " fell back to an older epoch");
  epoch = holding.machine->epoch;
  for (const auto& effect : effects) {
    if (const auto* apply = std::get_if<peer::ApplyCommit>(&effect))
      expect(committed_.contains(apply->commit.op), "LAW-2", holding.machine->options.hello.name, " applies what was not committed");
  }
}

void Oracle::check_holding(const Holding& holding) {
  if (void_.contains(holding.id)) return;
  const auto& machine = *holding.machine;
  const auto& name = machine.options.hello.name;
  const auto digest = digest_of(holding.model);
  if (machine.trainer_bound) {
    expect(digest == machine.digest, "LAW-3", name, " holds other bits than its machine believes, at revision ", machine.revision.value);
    expect(holding.model.revision == machine.revision, "LAW-3", name, " holds another revision than its machine believes");
  }
  if (const auto committed = journal_.find(machine.revision); committed != journal_.end())
    expect(committed->second == digest, "LAW-3", name, " differs from the committed revision ", machine.revision.value);
  const auto newest = journal_.empty() ? Revision{} : journal_.rbegin()->first;
  expect(machine.revision <= newest, "SIM-3", name, " is ahead of the journal");
  for (const auto& op : holding.prepared)
    expect(std::ranges::any_of(machine.operations, [&](const peer::InHand& each) { return each.reduce.op == op && each.prepared; }),
           "SIM-4", name, " keeps what was prepared for ", op);
}

void Oracle::check_end(const coordinator::State& state, bool coordinator_alive, const std::vector<Holding>& survivors) {
  if (!coordinator_alive || state.phase != coordinator::Phase::Over) return;
  if (state.made.value != options_.outer_steps) return;
  for (const auto& holding : survivors)
    expect(holding.machine->revision == state.revision, "SIM-8", holding.machine->options.hello.name, " survived at revision ",
           holding.machine->revision.value);
}

}  // namespace prime::sim

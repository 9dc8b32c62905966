#include "tests/sim/leaders.hpp"

#include <algorithm>
#include <memory>
#include <utility>

namespace prime::sim {
namespace {

constexpr std::uint64_t FAULTS_MAX = 12;
constexpr std::int64_t DRIFT_PPM = 1000;
constexpr Duration TICK = 250ms;         // EndSignal's
constexpr Duration ENDS_WITHIN = 300ms;  // from the moment at which its thread says so
constexpr Duration BACK_WITHIN = 2s;     // its guard starts another one
constexpr Duration DECIDES_WITHIN = 300ms;

Error away() { return Error{ErrorName::StandbyStoreFailed, "no answer"}; }

std::string text_of(std::uint64_t decision, std::uint64_t after) { return std::to_string(decision) + " after " + std::to_string(after); }
std::uint64_t decision_of(const std::string& text) { return std::stoull(text); }
std::uint64_t before(const std::string& text) { return std::stoull(text.substr(text.rfind(' ') + 1)); }

std::string name(const lease::Event& event) {
  return std::visit(overloaded{[](const lease::Entered&) { return "entered"; }, [](const lease::RenewalAnswered&) { return "renewal"; },
                               [](const lease::Tick&) { return "tick"; }, [](const lease::CampaignAnswered&) { return "campaign"; },
                               [](const lease::Decided&) { return "decided"; }, [](const lease::DecisionAnswered&) { return "decision"; }},
                    event);
}

}  // namespace

Leaders::Leaders(std::uint64_t seed, Probes& probes, LeaderBreakage breakage, bool traces)
    : random_(seed), probes_(probes), breakage_(std::move(breakage)), traces_(traces) {
  const auto clock = [&] {
    return Clock{random_.between(0s, 60min), static_cast<std::int64_t>(random_.below(2 * DRIFT_PPM + 1)) - DRIFT_PPM};
  };
  now_ += 1s;
  lease_ = Duration{1s} * static_cast<std::int64_t>(random_.between(2, 6));
  slowest_ = random_.chance(0.5) ? Duration{lease_ / 4} : 2 * lease_;
  losses_ = random_.chance(0.5) ? 0 : 0.1 * random_.unit();
  calm_from_ = now_ + random_.between(5s, 30s);
  // A late renewal of a dead leader, its whole lease by the slower clock, then a few calls of the next one, which may have to start first,
  // after a first call that was lost.
  led_from_ = calm_from_ + slowest_ + lease_ + lease_ / 100 + 2 * lease::call_limit(lease_) + lease::first_call_limit(lease_) +
              ENDS_WITHIN + BACK_WITHIN + TICK + DECIDES_WITHIN + 1s;
  store_clock_ = clock();
  const auto count = random_.between(2, 4);
  for (std::size_t i = 0; i < count; ++i) {
    processes_.emplace_back().address = std::string(1, static_cast<char>('a' + i)) + ":1";
    processes_[i].clock = clock();
    schedule(random_.between(0s, 2s), [this, i] { start(i); });
  }
  arm_faults();
  schedule(led_from_ - now_, [this] { judge_who_serves(); });
}

LeaderOutcome Leaders::run() {
  const auto over = led_from_ + 3 * lease_;
  while (!queue_.empty() && !outcome_.violation && queue_.top().at < over) {
    const auto item = queue_.top();
    queue_.pop();
    now_ = item.at;
    ++outcome_.events;
    item.act();
  }
  judge_who_serves();
  expect(told_in_the_end_ > 0, "nothing is decided long after the last fault");
  return std::move(outcome_);
}

// The world -----------------------------------------------------------------------------------------------------------------

void Leaders::schedule(Duration delay, std::function<void()> act) { queue_.push({now_ + delay, ++orders_, std::move(act)}); }

void Leaders::in_process(std::size_t i, Duration delay, std::function<void()> act) {
  const auto& process = processes_[i];
  schedule(delay - delay / 1'000'000 * process.clock.drift,
           [this, i, life = process.life, act = std::move(act)] { run_in_process(i, life, act); });
}

void Leaders::run_in_process(std::size_t i, std::uint64_t life, std::function<void()> act) {
  const auto& process = processes_[i];
  if (process.life != life) return;
  if (process.thaws <= now_) return act();
  // What has come meanwhile is found in any order: whether an answer is read before its limit is noticed is nobody's promise.
  schedule(process.thaws - now_ + random_.between(0ms, 1ms), [this, i, life, act = std::move(act)] { run_in_process(i, life, act); });
}

/// `ask` is carried out at etcd, when and if it arrives there, also when it was given up meanwhile.
template <class Answer>
void Leaders::call(std::size_t i, std::function<Result<Answer>()> ask, std::function<void(Result<Answer>)> then,
                   std::optional<Duration> limit) {
  const auto answer = [answered = std::make_shared<bool>(false), then = std::move(then)](Result<Answer> what) {
    if (!std::exchange(*answered, true)) then(std::move(what));
  };
  in_process(i, limit.value_or(processes_[i].call_limit), [answer] { answer(fail(away())); });
  if (is_lost(processes_[i])) return;
  schedule(delay(), [this, i, life = processes_[i].life, ask = std::move(ask), answer] {
    auto what = ask();
    if (is_lost(processes_[i])) return;
    schedule(delay(), [this, i, life, answer, what = std::move(what)] { run_in_process(i, life, [answer, what] { answer(what); }); });
  });
}

bool Leaders::is_lost(const Process& process) {
  return now_ < calm_from_ && (now_ < store_away_ || now_ < process.reached_from || random_.chance(losses_));
}

Duration Leaders::delay() {
  const bool slow = now_ < calm_from_ && random_.chance(0.03);
  return random_.between(0ms, slow ? slowest_ : Duration{20ms});
}

/// Faults end when it becomes calm.
Instant Leaders::until(Duration at_most) { return std::min(now_ + random_.between(10ms, at_most), calm_from_); }

void Leaders::freeze(Process& process) { process.thaws = std::max(process.thaws, until(3 * lease_)); }

void Leaders::arm_faults() {
  for (auto left = random_.below(FAULTS_MAX + 1); left > 0; --left)
    schedule(random_.between(1s, calm_from_ - now_), [this] {
      // Whoever leads is the one that matters.
      const auto leads = std::find_if(processes_.begin(), processes_.end(), [](const Process& p) { return p.alive && p.serves; });
      if (leads != processes_.end() && random_.chance(0.6)) return strike(static_cast<std::size_t>(leads - processes_.begin()));
      strike(random_.below(processes_.size()));
    });
}

void Leaders::strike(std::size_t i) {
  auto& process = processes_[i];
  switch (random_.below(6)) {
    case 0: note(i, "freezes"); return freeze(process);
    case 1: process.freezes_deciding = true; return;
    case 2:
      note(i, "is cut off");
      process.reached_from = until(3 * lease_);
      return;
    case 3:
      note(i, "etcd is away");
      store_away_ = until(2 * lease_);
      return;
    case 4:
      if (process.alive) end(i, false, random_.between(100ms, 2 * lease_));
      return;
    default: break;
  }
  // A machine that is gone for good; not the last one.
  if (std::count_if(processes_.begin(), processes_.end(), [](const Process& p) { return !p.gone; }) < 2) return;
  process.gone = true;
  if (process.alive) end(i, false, 0ms);
}

// A coordinator's process ---------------------------------------------------------------------------------------------------

void Leaders::start(std::size_t i) {
  auto& process = processes_[i];
  if (process.alive || process.gone) return;
  process.alive = true;
  process.machine = lease::initial({lease_, process.address}, process.clock.read(now_));
  process.call_limit = lease::first_call_limit(lease_);
  note(i, "starts");
  call<etcd::LeaseId>(
      i, [this] { return store_.grant(lease_, store_time()); },
      [this, i](Result<etcd::LeaseId> granted) {
        if (!granted) return end(i, false, random_.between(100ms, BACK_WITHIN));
        processes_[i].lease = *granted;
        feed(i, lease::Entered{});
        feed(i, lease::Tick{});
      });
}

void Leaders::end(std::size_t i, bool leaves, Duration back_after) {
  auto& process = processes_[i];
  note(i, "ends");
  expect(now_ < led_from_, process.address + " ends long after the last fault");
  if (leaves)
    call<bool>(
        i, [this, lease = process.lease] { return store_.revoke(lease, store_time()), true; }, [](const auto&) {});
  process.alive = process.serves = false;
  ++process.life;
  schedule(back_after, [this, i] { start(i); });
}

void Leaders::feed(std::size_t i, const lease::Event& event) {
  auto& process = processes_[i];
  const auto now = process.clock.read(now_);
  auto transition = lease::step(std::move(process.machine), event, now);
  if (breakage_.machine) breakage_.machine(event, transition, now);
  const auto judged = name(event) + ": " + std::string{prime::to_string(transition.judgement)};
  ++probes_[judged];
  note(i, judged);
  process.machine = std::move(transition.state);
  for (const auto life = process.life; const auto& effect : transition.effects)
    if (process.life == life) carry_out(i, effect);
}

void Leaders::carry_out(std::size_t i, const lease::Effect& effect) {
  std::visit(
      overloaded{
          [&](const lease::Renew& renewal) { in_process(i, renewal.after, [this, i] { renew(i); }); }, [&](const lease::LookAround&) {},
          [&](const lease::Campaign&) { campaign(i); }, [&](const lease::Depose& former) { ask_for_lead(i, former.lease); },
          [&](const lease::Keep& decision) { in_process(i, decision.after, [this, i] { keep(i); }); }, [&](const lease::Tell&) { told(i); },
          [&](const lease::End&) {
            in_process(i, random_.between(0ms, ENDS_WITHIN), [this, i] { end(i, true, random_.between(100ms, BACK_WITHIN)); });
          },
          [&](const lease::EndUntold&) { end(i, false, random_.between(100ms, BACK_WITHIN)); }},
      effect);
}

void Leaders::renew(std::size_t i) {
  const auto asked = processes_[i].clock.read(now_);
  const auto renewal = [this, lease = processes_[i].lease] { return store_.renew(lease, store_time()); };
  const auto answered = [this, i, asked](Result<bool> alive) { feed(i, lease::RenewalAnswered{asked, std::move(alive)}); };
  call<bool>(i, renewal, answered, lease::call_limit(lease_));
}

void Leaders::campaign(std::size_t i) {
  using Found = std::optional<etcd::Entry>;
  call<Found>(
      i, [this] { return store_.read(keys_.leader, store_time()); },
      [this, i](Result<Found> found) {
        if (!found) return campaign_answered(i, fail(found.error()));
        if (*found) return campaign_answered(i, etcd::judge_leader(**found, processes_[i].lease));
        ask_for_lead(i, 0);
      });
}

void Leaders::ask_for_lead(std::size_t i, etcd::LeaseId former) {
  const auto lease = processes_[i].lease;
  const auto to_lead = etcd::to_lead(keys_, processes_[i].address, lease, former);
  call<etcd::Outcome>(
      i, [this, i, to_lead] { return make_leader(i, to_lead); },
      [this, i, lease, former](Result<etcd::Outcome> outcome) {
        if (!outcome) return campaign_answered(i, fail(outcome.error()));
        if (former != 0 && !outcome->succeeded && !outcome->others.front()) return campaign(i);
        if (former != 0 && outcome->succeeded)
          call<bool>(
              i, [this, former] { return store_.revoke(former, store_time()), true; }, [](const auto&) {});
        campaign_answered(i, etcd::judge_lead(*outcome, keys_, lease));
      });
}

void Leaders::campaign_answered(std::size_t i, Result<std::optional<etcd::Leader>> outcome) {
  auto& process = processes_[i];
  Result<std::optional<lease::Leader>> leader{std::nullopt};
  if (!outcome) leader = fail(outcome.error());
  else if (*outcome) leader = lease::Leader{(*outcome)->address, (*outcome)->lease};
  feed(i, lease::CampaignAnswered{std::move(leader)});
  if (process.machine.leader) process.call_limit = lease::call_limit(lease_);
  if (process.alive && process.machine.phase == lease::Phase::Leading) take_over(i);
  else if (!process.machine.deposing) in_process(i, TICK, [this, i] { feed(i, lease::Tick{}); });
}

void Leaders::take_over(std::size_t i) {
  using Found = std::optional<etcd::Entry>;
  ++outcome_.leaders;
  call<Found>(
      i, [this] { return store_.read(keys_.decisions, store_time()); },
      [this, i](Result<Found> found) {
        if (!found) return end(i, true, random_.between(100ms, BACK_WITHIN));
        auto& process = processes_[i];
        process.call_limit = lease::call_limit(lease_);
        process.known = *found ? (*found)->modified : 0;
        process.last = *found ? decision_of((*found)->value) : 0;
        process.serves = true;
        decide(i);
      });
}

void Leaders::decide(std::size_t i) {
  auto& process = processes_[i];
  process.deciding = ++decisions_;
  process.text = text_of(process.deciding, process.last);
  if (std::exchange(process.freezes_deciding, false)) {
    note(i, "freezes with a decision");
    // Before it is sent or after.
    if (random_.chance(0.5)) freeze(process);
    else schedule(random_.between(0ms, 5ms), [this, i] { freeze(processes_[i]); });
  }
  feed(i, lease::Decided{});
}

void Leaders::keep(std::size_t i) {
  const auto& process = processes_[i];
  const auto asked = process.clock.read(now_);
  auto to_keep = etcd::to_keep(keys_, process.lease, process.known, {keys_.decisions, process.text});
  if (breakage_.keep) breakage_.keep(to_keep);
  const auto ask = [this, i, lease = process.lease, to_keep = std::move(to_keep)] { return accept(i, lease, to_keep); };
  call<etcd::Outcome>(i, ask, [this, i, asked](Result<etcd::Outcome> outcome) {
    auto& decider = processes_[i];
    auto known = outcome ? etcd::judge_keep(*outcome, keys_, decider.lease, decider.text) : Result<std::int64_t>{fail(outcome.error())};
    if (known) decider.known = *known;
    if (known && !outcome->succeeded) ++probes_["repeated_decision_done"];
    feed(i, lease::DecisionAnswered{asked, known ? Result<void>{} : Result<void>{fail(known.error())}});
  });
}

void Leaders::told(std::size_t i) {
  auto& process = processes_[i];
  expect(accepted_.contains(process.deciding),
         process.address + " tells decision " + std::to_string(process.deciding) + ", which etcd has not taken");
  process.last = process.deciding;
  ++outcome_.decisions;
  if (now_ >= led_from_) ++told_in_the_end_;
  in_process(i, random_.between(20ms, DECIDES_WITHIN), [this, i] { decide(i); });
}

// What is judged ------------------------------------------------------------------------------------------------------------

/// Who believes to lead when another one begins to, does so for no longer than two clocks differ.
Result<etcd::Outcome> Leaders::make_leader(std::size_t i, const etcd::Transaction& transaction) {
  auto outcome = store_.commit(transaction, store_time());
  if (!outcome || !outcome->succeeded) return outcome;
  note(i, "leads by etcd");
  for (const auto& other : processes_)
    expect(&other == &processes_[i] || !other.alive || !lease::holds_lead(other.machine, other.clock.read(now_) + lease_ * 3 / 1000),
           processes_[i].address + " begins to lead while " + other.address + " believes to");
  return outcome;
}

Result<etcd::Outcome> Leaders::accept(std::size_t i, etcd::LeaseId writer, const etcd::Transaction& transaction) {
  const auto stood = store_.read(keys_.decisions, store_time());
  const auto leads = store_.read(keys_.leader, store_time());
  auto outcome = store_.commit(transaction, store_time());
  if (!outcome || !outcome->succeeded) return outcome;
  const auto& text = transaction.puts.front().value;
  note(i, "etcd takes decision " + text);
  expect(leads && leads->lease == writer, "etcd takes decision " + text + " from who does not lead");
  const auto last = stood ? decision_of(stood->value) : 0;
  expect(before(text) == last, "etcd takes decision " + text + " on top of decision " + std::to_string(last));
  accepted_.insert(decision_of(text));
  return outcome;
}

void Leaders::judge_who_serves() {
  // Who does not believe to lead takes nobody in.
  const auto serving = std::count_if(processes_.begin(), processes_.end(), [&](const Process& p) {
    return p.alive && p.serves && lease::holds_lead(p.machine, p.clock.read(now_));
  });
  expect(serving == 1, std::to_string(serving) + " processes serve the run long after the last fault");
}

void Leaders::expect(bool holds, const std::string& otherwise) {
  if (!holds && !outcome_.violation) outcome_.violation = otherwise;
}

void Leaders::note(std::size_t i, const std::string& what) {
  if (!traces_) return;
  const auto at = std::chrono::duration_cast<std::chrono::milliseconds>(now_ - Instant{}).count();
  outcome_.trace.push_back(std::to_string(at) + " ms  " + processes_[i].address + "  " + what);
}

}  // namespace prime::sim

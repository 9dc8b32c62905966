#include "runtime/agent/leadership.hpp"

#include <condition_variable>

#include "runtime/clock.hpp"

namespace prime {
namespace {

/// etcd forgets a run so long after its end.
constexpr Duration END_REMEMBERED = 24 * 60min;

lease::CampaignAnswered answered(Result<std::optional<etcd::Leader>> outcome) {
  if (!outcome) return {fail(std::move(outcome.error()))};
  if (!*outcome) return {std::nullopt};
  return {lease::Leader{std::move((*outcome)->address), (*outcome)->lease}};
}

constexpr Duration ANOTHER_TRY_AFTER = 250ms;

/// Whoever starts this process waits 30 s for it.
constexpr Duration START_PATIENCE = 20s;

/// Before this process leads a call that fails is repeated, as a decision is: an etcd may be slow to answer first, or start at the same
/// time. What etcd refuses is not asked again.
template <class Call>
auto patiently(etcd::RunStore& store, const Call& call) {
  const auto until = monotonic_now() + START_PATIENCE;
  for (;;) {
    auto outcome = call();
    const bool may_change = !outcome && outcome.error().name == ErrorName::StandbyStoreFailed && !store.refused();
    if (!may_change || monotonic_now() + ANOTHER_TRY_AFTER >= until) return outcome;
    std::this_thread::sleep_for(ANOTHER_TRY_AFTER);
  }
}

}  // namespace

Leadership::Leadership(LeadershipOptions options, LeadershipPorts ports)
    : options_(std::move(options)),
      ports_(std::move(ports)),
      file_(options_.decisions),
      store_(options_.etcd, options_.run, lease::first_call_limit(options_.lease)),
      renewals_(options_.etcd, options_.run, lease::call_limit(options_.lease)) {}

Result<std::unique_ptr<Leadership>> Leadership::enter(LeadershipOptions options, LeadershipPorts ports) {
  std::unique_ptr<Leadership> self{new Leadership{std::move(options), std::move(ports)}};
  self->state_ = lease::initial({self->options_.lease, self->options_.address}, monotonic_now());
  PRIME_TRY(self->lease_, patiently(self->store_, [&] { return self->store_.enter(self->options_.address, self->options_.lease); }));
  self->renewing_ = std::jthread([raw = self.get()] { raw->run(lease::Entered{}); });
  return self;
}

Leadership::~Leadership() {
  ended_.request_stop();
  renewing_ = {};
  // Best effort: it runs out by itself.
  if (lease_ != 0) static_cast<void>(store_.leave(lease_));
}

void Leadership::run(lease::Event event) {
  for (std::optional<lease::Event> next{std::move(event)}; next;) {
    std::optional<lease::Event> answer;
    for (const auto& effect : take(*next)) answer = carry_out(effect);
    next = std::move(answer);
  }
}

std::vector<lease::Effect> Leadership::take(const lease::Event& event) {
  const std::lock_guard lock(mutex_);
  auto transition = lease::step(std::move(state_), event, monotonic_now());
  state_ = std::move(transition.state);
  if (log_) log_(std::string{to_string(transition.judgement)});
  return std::move(transition.effects);
}

std::optional<lease::Event> Leadership::carry_out(const lease::Effect& effect) {
  using Answer = std::optional<lease::Event>;
  return std::visit(
      overloaded{[&](const lease::Renew& renewal) { return renew(renewal.after); },
                 [&](const lease::LookAround&) -> Answer {
                   look_around();
                   return std::nullopt;
                 },
                 [&](const lease::Campaign&) -> Answer { return answered(store_.campaign(options_.address, lease_)); },
                 [&](const lease::Depose& former) -> Answer { return answered(store_.depose(former.lease, options_.address, lease_)); },
                 [&](const lease::Keep& decision) -> Answer {
                   std::this_thread::sleep_for(decision.after);
                   const auto asked = monotonic_now();
                   return lease::DecisionAnswered{asked, ask_to_keep()};
                 },
                 [&](const lease::Tell&) -> Answer {
                   file_.keep(deciding_->snapshot);
                   return std::nullopt;
                 },
                 [&](const lease::End& end) -> Answer {
                   ports_.lost(end.cause);
                   return std::nullopt;
                 },
                 [&](const lease::EndUntold& end) -> Answer {
                   ports_.refused(end.cause);
                   return std::nullopt;
                 }},
      effect);
}

std::optional<lease::Event> Leadership::renew(Duration after) {
  std::mutex idle;
  std::condition_variable_any wake;
  std::unique_lock lock{idle};
  wake.wait_for(lock, ended_.get_token(), after, [] { return false; });
  if (ended_.stop_requested()) return std::nullopt;
  const auto asked = monotonic_now();
  auto alive = renewals_.renew(lease_);
  if (ended_.stop_requested()) return std::nullopt;
  return lease::RenewalAnswered{asked, std::move(alive)};
}

bool Leadership::holds() const {
  const std::lock_guard lock(mutex_);
  return lease::holds_lead(state_, monotonic_now());
}

void Leadership::look_around() {
  auto found = renewals_.coordinators();
  if (!found) return;
  const std::lock_guard lock(mutex_);
  if (known_ == found->addresses) return;
  known_ = std::move(found->addresses);
  news_ = true;
}

std::optional<Coordinators> Leadership::news() {
  const std::lock_guard lock(mutex_);
  if (!std::exchange(news_, false)) return std::nullopt;
  return Coordinators{known_};
}

Result<std::optional<lease::Leader>> Leadership::campaign() {
  run(lease::Tick{});
  const std::lock_guard lock(mutex_);
  if (state_.cause) return fail(*state_.cause);
  if (state_.leader) store_.limit_calls(lease::call_limit(options_.lease));
  return state_.leader;
}

Result<std::optional<coordinator::Snapshot>> Leadership::take_over(const std::string& plan, bool founded) {
  if (!founded) PRIME_CHECK(patiently(store_, [&] { return store_.keep_plan(lease_, plan); }));
  PRIME_TRY(const auto known, patiently(store_, [&] { return store_.plan(); }));
  if (!known) return fail(ErrorName::StandbyStoreFailed, "etcd has lost what this run decided: it has nothing of " + options_.run);
  PRIME_TRY(const auto text, patiently(store_, [&] { return store_.decisions(); }));
  store_.limit_calls(lease::call_limit(options_.lease));
  if (!text) {
    PRIME_TRY(const auto here, file_.read());
    if (here)
      return fail(ErrorName::StandbyStoreFailed, "etcd has lost what this run decided, of which " + file_.path().string() + " has some");
    return std::nullopt;
  }
  auto snapshot = parse_snapshot(*text);
  if (!snapshot) return fail(ErrorName::StandbyStoreFailed, "what etcd holds are no decisions of this version");
  return snapshot;
}

/// etcd first: what it refuses was never decided, and must not be on this disk as if it were. What it took is decided, whether or not
/// this process lives to tell it: the next leader reads it there. The file is for people, and for `take_over`.
void Leadership::keep(const coordinator::Snapshot& snapshot) {
  deciding_.emplace(Decision{snapshot, format_snapshot(snapshot)});
  run(lease::Decided{});
  deciding_.reset();
}

std::string Leadership::place() const {
  std::string places;
  for (const auto& endpoint : options_.etcd.endpoints) places += (places.empty() ? "etcd at " : ", ") + endpoint;
  return places + TAKES_NO_ENTRY;
}

Result<void> Leadership::ask_to_keep() {
  const auto& [snapshot, text] = *deciding_;
  return snapshot.phase == coordinator::Phase::Over ? store_.keep_last(lease_, text, END_REMEMBERED) : store_.keep(lease_, text);
}

}  // namespace prime

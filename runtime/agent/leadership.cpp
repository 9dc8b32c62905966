#include "runtime/agent/leadership.hpp"

#include <algorithm>
#include <condition_variable>

#include "runtime/clock.hpp"

namespace prime {
namespace {

/// After a call of etcd that failed; an outage that is shorter than the lease must end nothing.
constexpr Duration AGAIN_AFTER = 100ms;
/// Who comes to stand by is known to the peers so much later at most.
constexpr Duration LOOK_AROUND_EVERY = 2s;
/// How long one call may take: several of them fit into a lease one after another.
Duration call_limit(Duration lease) { return std::min<Duration>(lease / 4, 5s); }
/// etcd forgets a run so long after its end.
constexpr Duration END_REMEMBERED = 24 * 60min;

}  // namespace

Leadership::Leadership(LeadershipOptions options, LeadershipPorts ports)
    : options_(std::move(options)),
      ports_(std::move(ports)),
      file_(options_.decisions),
      store_(options_.etcd, options_.run, call_limit(options_.lease)),
      renewals_(options_.etcd, options_.run, call_limit(options_.lease)) {}

Result<std::unique_ptr<Leadership>> Leadership::enter(LeadershipOptions options, LeadershipPorts ports) {
  std::unique_ptr<Leadership> self{new Leadership{std::move(options), std::move(ports)}};
  self->renewed_ = monotonic_now();
  PRIME_TRY(self->lease_, self->store_.enter(self->options_.address, self->options_.lease));
  self->renewing_ = std::jthread([raw = self.get()](const std::stop_token& ended) { raw->renew(ended); });
  return self;
}

Leadership::~Leadership() {
  renewing_ = {};
  // Best effort: it runs out by itself.
  if (lease_ != 0) static_cast<void>(store_.leave(lease_));
}

/// The lease counts from before it was asked for: etcd, which counts from later, never gives the lead to somebody else while this process
/// still believes in its own.
void Leadership::renew(const std::stop_token& ended) {
  std::mutex idle;
  std::condition_variable_any wake;
  for (;;) {
    const auto asked = monotonic_now();
    const auto alive = renewals_.renew(lease_);
    if (ended.stop_requested()) return;
    if (alive && !*alive) return ports_.lost(Error{ErrorName::LeadershipLost, "its lease has run out"});
    if (alive) renewed_ = asked;
    else if (!holds() && !stood_still_since(asked)) return ports_.lost(alive.error());
    if (alive) look_around();
    std::unique_lock lock{idle};
    wake.wait_for(lock, ended, alive ? std::min<Duration>(options_.lease / 4, LOOK_AROUND_EVERY) : AGAIN_AFTER, [] { return false; });
    if (ended.stop_requested()) return;
  }
}

/// Whether this process stood still meanwhile: then the failure of the call says nothing of etcd.
bool Leadership::stood_still_since(Instant asked) const { return monotonic_now() - asked >= 2 * call_limit(options_.lease); }

bool Leadership::holds() const { return monotonic_now() - renewed_.load() < options_.lease; }

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

Result<std::optional<etcd::Leader>> Leadership::campaign() {
  PRIME_TRY(auto outcome, store_.campaign(options_.address, lease_));
  // This process listens at that address: whoever led from there is dead, and its guard has started this one in its place.
  if (const auto* before = std::get_if<etcd::Leader>(&outcome); before != nullptr && before->address == options_.address) {
    PRIME_CHECK(store_.leave(before->lease));
    PRIME_TRY(outcome, store_.campaign(options_.address, lease_));
  }
  if (auto* leader = std::get_if<etcd::Leader>(&outcome)) return std::move(*leader);
  lead_ = std::get<etcd::Lead>(outcome);
  return std::nullopt;
}

Result<std::optional<coordinator::Snapshot>> Leadership::take_over(const std::string& plan) {
  PRIME_CHECK(store_.keep_plan(lead_, plan));
  PRIME_TRY(const auto text, store_.decisions());
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
  const auto attempt = [&, text = format_snapshot(snapshot)] {
    return snapshot.phase == coordinator::Phase::Over ? store_.keep_last(lead_, text, END_REMEMBERED) : store_.keep(lead_, text);
  };
  const auto until = monotonic_now() + options_.lease;
  auto asked = monotonic_now();
  auto kept = attempt();
  while (!kept && kept.error().name == ErrorName::StandbyStoreFailed && (monotonic_now() < until || stood_still_since(asked))) {
    std::this_thread::sleep_for(AGAIN_AFTER);
    asked = monotonic_now();
    kept = attempt();
  }
  if (!kept) return ports_.refused(kept.error());
  file_.keep(snapshot);
}

}  // namespace prime

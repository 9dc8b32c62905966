// Owns the attempts to connect.
#include "runtime/lanes/dialing.hpp"

#include <algorithm>
#include <random>
#include <string>

namespace prime::lanes {
namespace {

Result<net::ChannelPtr> checked(Result<net::ChannelPtr> channel, PeerId wanted) {
  if (!channel || (*channel)->peer() == wanted) return channel;
  return fail(ErrorName::ProtocolViolation, "peer " + to_string((*channel)->peer()) + " answers");
}

}  // namespace

Dialing::Dialing(const EngineOptions& options, const KnownMembers& known, Done done)
    : options_(options), known_(known), done_(std::move(done)), thread_([this](const std::stop_token& stop) { run(stop); }) {}

Dialing::~Dialing() {
  thread_.request_stop();
  ends_.stop();
  thread_.join();
}

void Dialing::dial(Member member) {
  std::random_device random;
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back({std::move(member), (std::uint64_t{random()} << 32U) | random(), 0});
  }
  changed_.notify_all();
}

void Dialing::run(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, stop, [&] { return !queue_.empty(); })) {
    Wanted wanted = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    auto dialed = attempt(wanted, stop);
    const bool direct = dialed.channel && (*dialed.channel)->over_network() && dialed.through == PeerId{};
    const bool more = direct && wanted.index + 1 < options_.streams();
    // A lane works with its first stream; a further one that cannot be opened is done without.
    if (wanted.index == 0 || dialed.channel) done_(std::move(dialed));
    lock.lock();
    ++wanted.index;
    if (more) queue_.push_back(std::move(wanted));  // behind the first streams of all lanes
  }
}

Dialed Dialing::attempt(const Wanted& wanted, const std::stop_token& stop) {
  const PeerId peer = wanted.member.id;
  const std::uint32_t attempts = wanted.index == 0 ? options_.dial_attempts : 1;
  Error last(ErrorName::Interrupted);
  for (std::uint32_t tries = 0; tries < attempts && !stop.stop_requested(); ++tries) {
    if (tries > 0) {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, stop, options_.redial_pause, [] { return false; });
    }
    auto dialed = reach(wanted, tries, stop);
    if (dialed.channel) return dialed;
    last = std::move(dialed.channel).error();
  }
  // It is a peer that is not reached here, and no run.
  auto why = last.name == ErrorName::RunUnreachable ? last.detail : to_string(last);
  auto error = Error{ErrorName::LaneBroken, std::move(why)}.with_context("connecting a lane to " + peer_text(wanted.member));
  return {peer, wanted.bundle, wanted.index, fail(std::move(error)), {}};
}

Dialed Dialing::reach(const Wanted& wanted, std::uint32_t tries, const std::stop_token& stop) {
  const Member& member = wanted.member;
  const Instant until = monotonic_now() + options_.dial_timeout;
  const bool may_be_relayed = options_.dial_through && wanted.index == 0;
  const auto relays = may_be_relayed ? known_.relays(options_.self, member.id) : std::vector<Member>{};
  const auto limit = relays.empty() ? options_.dial_timeout : std::min(options_.dial_timeout, DIRECT_LIMIT);
  Dialed dialed{member.id, wanted.bundle, wanted.index, checked(options_.dial(member, {limit, &ends_}), member.id), {}};
  const std::size_t asked = std::min(relays.size(), RELAYS_PER_ATTEMPT);
  for (std::size_t at = 0; at < asked && !dialed.channel && !stop.stop_requested(); ++at) {
    const Member& through = relays[(tries * RELAYS_PER_ATTEMPT + at) % relays.size()];
    // Each has its share of the time that is left, so that a dead one leaves some for the next.
    const Duration share = (until - monotonic_now()) / static_cast<std::int64_t>(asked - at);
    auto relayed = checked(options_.dial_through(through, member, {share, &ends_}), member.id);
    if (relayed) return {member.id, wanted.bundle, wanted.index, std::move(relayed), through.id};
    dialed.channel.error().detail += "; " + relayed.error().detail;
  }
  return dialed;
}

}  // namespace prime::lanes

// Owns the attempts to connect.
#include "runtime/lanes/dialing.hpp"

#include <random>
#include <string>

namespace prime::lanes {

Dialing::Dialing(const EngineOptions& options, Done done)
    : options_(options), done_(std::move(done)), thread_([this](const std::stop_token& stop) { run(stop); }) {}

Dialing::~Dialing() {
  thread_.request_stop();
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
    auto channel = attempt(wanted, stop);
    const bool more = channel && (*channel)->over_network() && wanted.index + 1 < options_.streams();
    // A lane works with its first stream; a further one that cannot be opened is done without.
    if (wanted.index == 0 || channel) done_(Dialed{wanted.member.id, wanted.bundle, wanted.index, std::move(channel)});
    lock.lock();
    ++wanted.index;
    if (more) queue_.push_back(std::move(wanted));  // behind the first streams of all lanes
  }
}

Result<net::ChannelPtr> Dialing::attempt(const Wanted& wanted, const std::stop_token& stop) {
  const Member& member = wanted.member;
  const std::uint32_t attempts = wanted.index == 0 ? options_.dial_attempts : 1;
  Error last(ErrorName::Interrupted);
  for (std::uint32_t tries = 0; tries < attempts && !stop.stop_requested(); ++tries) {
    if (tries > 0) {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, stop, options_.redial_pause, [] { return false; });
    }
    auto channel = options_.dial(member, options_.dial_timeout);
    if (channel && (*channel)->peer() == member.id) return channel;
    last = channel ? Error{ErrorName::ProtocolViolation, "peer " + to_string((*channel)->peer()) + " answers"} : channel.error();
  }
  // It is a peer that is not reached here, and no run.
  auto why = last.name == ErrorName::RunUnreachable ? last.detail : to_string(last);
  return fail(Error{ErrorName::LaneBroken, std::move(why)}.with_context("while connecting a lane to peer " + to_string(member.id)));
}

}  // namespace prime::lanes

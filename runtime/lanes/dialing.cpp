// Owns the attempts to connect.
#include "runtime/lanes/dialing.hpp"

#include <string>

namespace prime::lanes {

Dialing::Dialing(const EngineOptions& options, Done done)
    : options_(options), done_(std::move(done)), thread_([this](const std::stop_token& stop) { run(stop); }) {}

Dialing::~Dialing() {
  thread_.request_stop();
  thread_.join();
}

void Dialing::dial(Member member) {
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(member));
  }
  changed_.notify_all();
}

void Dialing::run(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, stop, [&] { return !queue_.empty(); })) {
    const Member member = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    done_(member.id, attempt(member, stop));
    lock.lock();
  }
}

Result<net::ChannelPtr> Dialing::attempt(const Member& member, const std::stop_token& stop) {
  Error last(ErrorName::Interrupted);
  for (std::uint32_t tries = 0; tries < options_.dial_attempts && !stop.stop_requested(); ++tries) {
    if (tries > 0) {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, stop, options_.redial_pause, [] { return false; });
    }
    auto channel = options_.dial(member, options_.dial_timeout);
    if (channel && (*channel)->peer() == member.id) return channel;
    last = channel ? Error{ErrorName::ProtocolViolation, "peer " + to_string((*channel)->peer()) + " answers"} : channel.error();
  }
  return fail(Error{ErrorName::LaneBroken, to_string(last)}.with_context("while connecting a lane to peer " + to_string(member.id)));
}

}  // namespace prime::lanes

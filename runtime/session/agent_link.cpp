#include <algorithm>
#include <cerrno>
#include <chrono>
#include <poll.h>

#include "runtime/clock.hpp"
#include "runtime/session/session_state.hpp"
#include "runtime/shortage.hpp"

namespace prime {

namespace {

/// An agent reads its socket on a thread that does nothing else; one that does not for so long is as good as gone.
constexpr Duration SEND_LIMIT{60s};
/// So often who waits is asked whether to go on.
constexpr Duration ASK_EVERY{50ms};
constexpr const char* WAITING = "waiting for the agent";

/// The revision that a message speaks of; 0 for those that speak of none.
Revision revision_of(const wire::ToTrainer& message) {
  return std::visit(overloaded{
                        [](const wire::Welcome&) { return Revision{}; },
                        [](const wire::Segments&) { return Revision{}; },
                        [](const wire::Begin& m) { return m.plan.base; },
                        [](const wire::Recorded&) { return Revision{}; },
                        [](const wire::Publish&) { return Revision{}; },
                        [](const wire::StepCommitted& m) { return m.committed.revision; },
                        [](const wire::Finish& m) { return m.revision; },
                        [](const wire::Stop&) { return Revision{}; },
                    },
                    message);
}

}  // namespace

tl::unexpected<Error> AgentLink::end(Error error) {
  if (!ended_) ended_ = std::move(error);
  socket_.close();
  return fail(*ended_);
}

tl::unexpected<Error> AgentLink::give_up(Error error) {
  [[maybe_unused]] const auto sent = send(wire::Failure{error});
  return end(std::move(error));
}

/// The agent's end is closed. What it said last, if it said why, is better than that it is gone.
tl::unexpected<Error> AgentLink::lost() {
  while (take() == ReceiveOutcome::Received) {
  }
  for (const auto& [message, descriptors] : inbox_) {
    if (const auto* stop = std::get_if<wire::Stop>(&message)) {
      return end(stop->error.value_or(Error(ErrorName::RunDone, "the agent has stopped")));
    }
  }
  return end(Error(ErrorName::AgentLost, "it closed its socket"));
}

Result<void> AgentLink::intact() const {
  if (ended_) return fail(*ended_);
  if (interrupted_) return fail(ErrorName::Interrupted, "of this session only `leave` and `fail` are of use");
  return {};
}

AgentLink::Waited AgentLink::wait_for(short what, std::optional<Instant> deadline) {
  while (true) {
    auto limit = goes_on_ ? std::optional{ASK_EVERY} : std::nullopt;
    if (deadline) limit = std::min(limit.value_or(Duration::max()), std::max(Duration{}, *deadline - monotonic_now()));
    const auto limit_ms = limit ? std::min<std::int64_t>(std::chrono::ceil<std::chrono::milliseconds>(*limit).count(), 1'000'000) : -1;
    pollfd watched{socket_.number(), what, 0};
    if (::poll(&watched, 1, static_cast<int>(limit_ms)) > 0) return Waited::Ready;
    if (deadline && monotonic_now() >= *deadline) return Waited::TooLong;
    if (!goes_on_ || goes_on_()) continue;
    interrupted_ = true;
    return Waited::Interrupted;
  }
}

Result<void> AgentLink::send(const wire::ToAgent& message, std::span<const int> descriptors) {
  PRIME_CHECK(intact());
  auto packet = wire::encode(message);
  if (!packet) return end(packet.error());
  const auto deadline = monotonic_now() + SEND_LIMIT;
  while (true) {
    switch (socket_.send(*packet, descriptors)) {
      case SendOutcome::Sent: return {};
      case SendOutcome::Closed: return lost();
      case SendOutcome::WouldBlock:
        if (const auto waited = wait_for(POLLOUT, deadline); waited == Waited::Interrupted) return fail(ErrorName::Interrupted, WAITING);
        else if (waited == Waited::TooLong) return end(Error(ErrorName::AgentLost, "it does not read its socket"));
    }
  }
}

Result<void> AgentLink::send_if_possible(const wire::ToAgent& message) {
  PRIME_CHECK(intact());
  auto packet = wire::encode(message);
  if (!packet) return end(packet.error());
  if (socket_.send(*packet, {}) == SendOutcome::Closed) return lost();
  return {};
}

ReceiveOutcome AgentLink::take() {
  Packet packet;
  const auto outcome = socket_.receive(packet);
  if (outcome != ReceiveOutcome::Received) return outcome;
  auto message = wire::decode_to_trainer(packet.bytes);
  if (!message) {
    [[maybe_unused]] const auto kept = end(std::move(message.error()).with_context("the agent's message is malformed"));
    return ReceiveOutcome::Malformed;
  }
  if (packet.descriptors.size() != wire::descriptor_count(*message)) return ReceiveOutcome::Malformed;
  inbox_.push_back({std::move(*message), std::move(packet.descriptors)});
  return ReceiveOutcome::Received;
}

Result<FromAgent> AgentLink::receive(std::optional<Instant> deadline) {
  PRIME_CHECK(intact());
  while (inbox_.empty()) {
    switch (take()) {
      case ReceiveOutcome::Received: break;
      case ReceiveOutcome::Closed: return lost();
      case ReceiveOutcome::Malformed: return end(Error(ErrorName::TrainerProtocol, "the agent's message has other descriptors"));
      case ReceiveOutcome::NoDescriptors: return end(refused(ErrorName::TrainerProtocol, "the agent's memory cannot be taken", EMFILE));
      case ReceiveOutcome::WouldBlock:
        if (const auto waited = wait_for(POLLIN, deadline); waited == Waited::Interrupted) return fail(ErrorName::Interrupted, WAITING);
        else if (waited == Waited::TooLong) return end(Error(ErrorName::DeadlineExceeded, WAITING));
    }
  }
  auto first = std::move(inbox_.front());
  inbox_.pop_front();
  return first;
}

Result<std::optional<FromAgent>> AgentLink::receive_if_any() {
  PRIME_CHECK(intact());
  if (inbox_.empty() && take() == ReceiveOutcome::WouldBlock) return std::nullopt;
  PRIME_TRY(auto received, receive());  // what is there, or why nothing will be
  return std::optional{std::move(received)};
}

Result<wire::Recorded> AgentLink::receive_recorded() {
  const auto is_it = [](const FromAgent& entry) { return std::holds_alternative<wire::Recorded>(entry.message); };
  std::deque<FromAgent> before;
  while (true) {
    auto received = receive();
    const bool found = received && is_it(*received);
    if (received && !found) {
      before.push_back(std::move(*received));
      continue;
    }
    inbox_.insert(inbox_.begin(), std::make_move_iterator(before.begin()), std::make_move_iterator(before.end()));
    if (!received) return fail(received.error());
    return std::get<wire::Recorded>(received->message);
  }
}

bool AgentLink::knows_later_than(Revision revision) {
  while (!ended_ && take() == ReceiveOutcome::Received) {
  }
  return std::ranges::any_of(inbox_, [&](const FromAgent& entry) { return revision_of(entry.message) > revision; });
}

bool AgentLink::knows_another_step() {
  while (!ended_ && take() == ReceiveOutcome::Received) {
  }
  return std::ranges::any_of(inbox_, [](const FromAgent& entry) {
    return std::holds_alternative<wire::Begin>(entry.message) || std::holds_alternative<wire::Finish>(entry.message);
  });
}

bool AgentLink::hung_up() const {
  pollfd watched{socket_.number(), 0, 0};
  return ::poll(&watched, 1, 0) > 0 && (watched.revents & (POLLHUP | POLLERR)) != 0;
}

bool AgentLink::wait_for_close(Instant deadline) {
  while (!ended_) {
    switch (take()) {
      case ReceiveOutcome::Received: break;
      case ReceiveOutcome::Closed: return true;
      case ReceiveOutcome::NoDescriptors:
      case ReceiveOutcome::Malformed: return false;
      case ReceiveOutcome::WouldBlock:
        if (wait_for(POLLIN, deadline) != Waited::Ready) return false;
    }
  }
  return true;
}

}  // namespace prime

// Owns an agent for tests that say and hear each message by hand. Its state is one tensor `x` of five elements.
#pragma once

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/agent/outer_state.hpp"
#include "runtime/session/packet_socket.hpp"
#include "runtime/session/trainer_wire.hpp"
#include "tests/runtime/session/door.hpp"

namespace prime::test {

/// An agent played by hand, message by message.
struct Puppeteer {
  Door door;
  std::optional<PacketSocket> open;
  OuterState state = OuterState::create(make_layout({{"x", {5}}}).value(), {}).value();

  PacketSocket& socket() {
    if (!open) open = door.let_in();
    return *open;
  }
  void say(const wire::ToTrainer& message, std::vector<int> descriptors = {}) {
    BOOST_REQUIRE((socket().send(wire::encode(message).value(), descriptors) == SendOutcome::Sent));
  }
  template <class T>
  T hear() {
    Packet packet;
    while (true) {
      const auto outcome = socket().receive(packet);
      if (outcome == ReceiveOutcome::WouldBlock) {
        std::this_thread::yield();
        continue;
      }
      BOOST_REQUIRE((outcome == ReceiveOutcome::Received));
      auto message = wire::decode_to_agent(packet.bytes).value();
      if (auto* wanted = std::get_if<T>(&message)) return std::move(*wanted);
      BOOST_REQUIRE(std::holds_alternative<wire::Inner>(message));
    }
  }
  void welcome() { say(wire::Welcome{"run", PeerId{9}, "name", "m", "l", true}); }
  void segments(const wire::Segments& terms = {5}) {
    hear<wire::Bind>();
    const auto numbers = state.descriptors();
    say(terms, {numbers.begin(), numbers.end()});
    hear<wire::Initial>();
    BOOST_REQUIRE(state.initialize());
  }
  void begin(std::uint64_t step) { say(wire::Begin{plan(step), state.digest(), state.places()}); }
  static wire::StepPlan plan(std::uint64_t step) {
    return {.step = OuterStep{step}, .base = Revision{step - 1}, .batch = 2, .total_steps = 9};
  }
  /// Lets the run take a step without the trainer's contribution.
  void advance() {
    const OperationId operation{Epoch{1}, Sequence{state.counters().revision.value}};
    std::ranges::fill(state.result(0), 0.5F);
    BOOST_REQUIRE(state.prepare(operation, 0, {}));
    BOOST_REQUIRE(state.commit(operation, 100));
  }
};

}  // namespace prime::test

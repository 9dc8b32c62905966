// Checks the host against trainers that speak nonsense: it never crashes, holds little, and names the breach.
#include <algorithm>
#include <array>
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <functional>
#include <random>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

#include "runtime/ancillary.hpp"
#include "tests/runtime/session/test_agent.hpp"

using namespace prime;
using namespace prime::test;

namespace {

/// A host and the trainer's end of its socket in the hands of the test.
struct Wild {
  Wild() {
    auto ends = PacketSocket::pair().value();
    agent.adopt(std::move(ends.first));
    trainer = std::move(ends.second);
  }
  void send(const std::string& bytes, std::vector<int> descriptors = {}) { (void)trainer.send(bytes, descriptors); }
  void send(const wire::ToAgent& message, std::vector<int> descriptors = {}) {
    send(wire::encode(message).value(), std::move(descriptors));
  }
  void expect_breach(const std::string& detail = {}) {
    const auto cause = agent.expect<TrainerFailed>().cause;
    BOOST_TEST((cause.name == ErrorName::TrainerProtocol), to_string(cause));
    if (!detail.empty()) BOOST_TEST(cause.detail == detail);
  }
  void seat() {
    send(wire::Bind{{{{"a", {4}}}}, true});
    agent.accept_layout();
    send(wire::Initial{});
    agent.accept_initial();
  }
  TestAgent agent;
  PacketSocket trainer;
};

std::size_t open_descriptors() {
  return static_cast<std::size_t>(std::ranges::distance(std::filesystem::directory_iterator("/proc/self/fd")));
}

std::vector<std::string> valid_packets() {
  std::vector<std::string> packets;
  for (const wire::ToAgent& message :
       std::vector<wire::ToAgent>{wire::Bind{{{{"a", {4}}}, {{"b", {2, 2}}}}, true}, wire::Export{"config.json"}, wire::Initial{},
                                  wire::Inner{OuterStep{1}, 1, 2.5, 3, 4}, wire::Record{OuterStep{1}, {1, 2.5, 3, 4}},
                                  wire::Contribute{OuterStep{1}, 5, 6, 0.5, HeldOut{0.25, 1}, 1.0}, wire::Final{{HeldOut{0.5, 1}, "text"}},
                                  wire::Alive{}, wire::Failure{Error(ErrorName::DataTooSmall, "small")}}) {
    packets.push_back(wire::encode(message).value());
  }
  return packets;
}

}  // namespace

BOOST_AUTO_TEST_CASE(random_bytes_are_a_breach) {
  std::mt19937 random(11);
  for (int round = 0; round < 200; ++round) {
    Wild wild;
    std::string bytes(1 + random() % 2000, '\0');
    for (auto& byte : bytes) byte = static_cast<char>(random());
    wild.send(bytes);
    wild.expect_breach();
  }
}

BOOST_AUTO_TEST_CASE(mutated_messages_are_a_breach_or_a_message_and_never_a_crash) {
  std::mt19937 random(12);
  const auto packets = valid_packets();
  std::size_t breaches = 0;
  for (int round = 0; round < 1500; ++round) {
    Wild wild;
    if (round % 2 == 0) {
      wild.seat();
      wild.agent.begin();
      wild.agent.finish();
    }
    auto bytes = packets[random() % packets.size()];
    for (auto changes = 1 + random() % 4; changes > 0; --changes) {
      const auto at = random() % bytes.size();
      switch (random() % 4) {
        case 0: bytes[at] = static_cast<char>(random()); break;
        case 1: bytes.erase(at, 1 + random() % 5); break;
        case 2: bytes.insert(at, 1, "0123456789\"{}[]:,-e."[random() % 20]); break;
        default: bytes.insert(at, packets[random() % packets.size()].substr(0, random() % 40)); break;
      }
      if (bytes.empty()) bytes = "x";
    }
    wild.send(bytes);
    wild.trainer.close();
    while (true) {
      const auto event = wild.agent.events.pop();
      if (const auto* failed = std::get_if<TrainerFailed>(&event)) breaches += failed->cause.name == ErrorName::TrainerProtocol ? 1 : 0;
      if (std::holds_alternative<TrainerFailed>(event) || std::holds_alternative<TrainerLost>(event) ||
          std::holds_alternative<TrainerLeft>(event))
        break;
    }
  }
  BOOST_TEST(breaches > 1000U);
}

BOOST_AUTO_TEST_CASE(messages_out_of_order_are_a_breach) {
  const auto breach = [](const std::vector<wire::ToAgent>& messages, bool seated) {
    Wild wild;
    if (seated) wild.seat();
    for (const auto& message : messages) wild.send(message);
    while (true) {
      const auto event = wild.agent.events.pop();
      if (const auto* failed = std::get_if<TrainerFailed>(&event)) {
        const auto name = failed->cause.name;
        BOOST_TEST((name == ErrorName::TrainerProtocol || name == ErrorName::LayoutUnusable));
        return;
      }
      BOOST_REQUIRE_MESSAGE(std::holds_alternative<TrainerBound>(event) || std::holds_alternative<TrainerDescribed>(event),
                            describe(event));
    }
  };
  breach({wire::Initial{}}, false);
  breach({wire::Initial{}}, true);
  breach({wire::Contribute{OuterStep{1}, 1, 1, 1, {}, 1}}, true);
  breach({wire::Inner{OuterStep{1}, 1, 1, 1, 1}}, true);
  breach({wire::Final{}}, true);
  breach({wire::Bind{{{{"a", {4}}}}, true}, wire::Bind{{{{"b", {4}}}}, true}}, false);
  breach({wire::Bind{{{{"a", {4}}}, {{"a", {4}}}}, true}}, false);
  breach({wire::Bind{{}, true}}, false);
  const wire::Data data{{Digest{1, 2}, "3 files"}};
  breach({wire::Bind{{{{"a", {4}}}}, true}, data}, false);
  breach({data, data}, false);
}

BOOST_AUTO_TEST_CASE(a_second_contribution_is_a_breach_and_a_late_one_is_nothing) {
  Wild wild;
  wild.seat();
  wild.agent.begin();
  const wire::Contribute first{OuterStep{1}, 1, 1, 1, {}, 1};
  wild.send(first);
  wild.agent.commit(wild.agent.expect<TrainerContributed>().contribution);
  wild.agent.begin();
  wild.send(first);
  wild.send(wire::Contribute{OuterStep{2}, 1, 1, 1, {}, 1});
  BOOST_TEST(wild.agent.expect<TrainerContributed>().contribution.step.value == 2U);
  wild.send(wire::Contribute{OuterStep{2}, 1, 1, 1, {}, 1});
  wild.expect_breach("a second contribution to one step");
}

BOOST_AUTO_TEST_CASE(packets_that_are_too_long_or_carry_the_wrong_descriptors_are_a_breach_and_leak_nothing) {
  const Descriptor null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const auto before = open_descriptors();
  const int number = null.number();
  const auto expect = [](const std::function<void(Wild&)>& act, const std::string& detail) {
    Wild wild;
    act(wild);
    wild.expect_breach(detail);
  };
  expect([](Wild& w) { w.send(std::string(MAX_PACKET_BYTES + 1, ' ')); }, "a packet is too long or has too many descriptors");
  expect([&](Wild& w) { w.send(wire::Leave{}, {number}); }, "a packet has the wrong number of descriptors");
  expect([&](Wild& w) { w.send(wire::Export{"a"}); }, "a packet has the wrong number of descriptors");
  expect([&](Wild& w) { w.send(wire::Export{"a"}, {number, number}); }, "a packet has the wrong number of descriptors");
  expect([&](Wild& w) { w.send(wire::Export{"a"}, {number}); }, "a descriptor is not a file");
  const auto large = create_memory_file("large", EXPORT_BYTES_MAX + 1).value();
  expect([&](Wild& w) { w.send(wire::Export{"a"}, {large.number()}); }, "a file is too large");
  expect(
      [&](Wild& w) {
        std::array<int, 40> many{};
        many.fill(number);
        const auto bytes = wire::encode(wire::ToAgent(wire::Export{"a"})).value();
        BOOST_REQUIRE(send_descriptors(w.trainer.number(), std::as_bytes(std::span{bytes}), many) > 0);
      },
      "a packet is too long or has too many descriptors");
  BOOST_TEST(open_descriptors() == before + 1);  // `large`
}

BOOST_AUTO_TEST_CASE(endless_tensors_exports_and_progress_are_bounded) {
  const auto send_all = [](Wild& wild, const std::string& bytes, int count, std::vector<int> descriptors = {}) {
    for (int i = 0; i < count; ++i) {
      SendOutcome outcome{};
      while ((outcome = wild.trainer.send(bytes, descriptors)) == SendOutcome::WouldBlock) std::this_thread::yield();
      if (outcome == SendOutcome::Closed) return;
    }
  };
  {
    Wild wild;
    const std::vector<BoundTensor> tensors(wire::MAX_BIND_TENSORS, {{"a", {1}}});
    send_all(wild, wire::encode(wire::Bind{tensors, false}).value(), 400);
    const auto cause = wild.agent.expect<TrainerFailed>().cause;
    BOOST_TEST((cause == Error{ErrorName::LayoutUnusable, "100096 tensors are bound, and a model has at most 100000: merge small ones"}));
    // It is not ours to end, so it is told why its socket closes.
    Packet packet;
    std::optional<Error> told;
    for (ReceiveOutcome outcome{}; (outcome = wild.trainer.receive(packet)) != ReceiveOutcome::Closed;) {
      if (outcome != ReceiveOutcome::Received) continue;
      const auto message = wire::decode_to_trainer(packet.bytes).value();
      if (const auto* stop = std::get_if<wire::Stop>(&message)) told = stop->error;
    }
    BOOST_TEST((told == cause));
  }
  {
    Wild wild;
    const auto file = memory_file_of("small", "content").value();
    send_all(wild, wire::encode(wire::Export{"a"}).value(), 65, {file.number()});
    for (int i = 0; i < 64; ++i) BOOST_TEST(wild.agent.expect<TrainerExported>().content == "content");
    wild.expect_breach("too many exported files");
  }
  {
    Wild wild;
    wild.seat();
    wild.agent.begin();
    send_all(wild, wire::encode(wire::Inner{OuterStep{1}, 1, 1, 1, 1}).value(), 5000);
    send_all(wild, wire::encode(wire::Leave{}).value(), 1);  // also where the socket is still full
    std::size_t progress = 0;
    auto event = wild.agent.events.pop();
    for (; std::holds_alternative<TrainerInner>(event); event = wild.agent.events.pop()) ++progress;
    BOOST_TEST(std::holds_alternative<TrainerLeft>(event));
    BOOST_TEST(progress >= 1U);
    BOOST_TEST(progress < 5000U);
  }
}

BOOST_AUTO_TEST_CASE(a_trainer_that_does_not_read_fails_and_blocks_nobody) {
  Wild wild;
  wild.seat();
  const wire::StepCommitted news{{OuterStep{1}, Revision{1}, Digest{}, 1}, wire::Places{{}}};
  for (int i = 0; i < 5000; ++i) wild.agent.host->committed(news);
  wild.expect_breach("the trainer does not read its socket");
}

BOOST_AUTO_TEST_CASE(what_waits_in_the_queue_arrives_in_order_once_the_trainer_reads_again) {
  Wild wild;
  wild.seat();
  Packet packet;
  // Fills the kernel's buffer and then some of the queue; how much the kernel takes is found out first.
  int sent = 0;
  {
    auto probe = PacketSocket::pair().value();
    const auto bytes = wire::encode(wire::StepCommitted{{OuterStep{10'000}, Revision{1}, Digest{}, 1}, wire::Places{{}}}).value();
    while (probe.first.send(bytes, {}) == SendOutcome::Sent) ++sent;
  }
  const int total = sent + 30;
  for (int i = 0; i < total; ++i) {
    wild.agent.host->committed({{OuterStep{10'000 + static_cast<std::uint64_t>(i)}, Revision{1}, Digest{}, 1}, wire::Places{{}}});
  }
  std::uint64_t expected = 10'000;
  while (expected < 10'000U + static_cast<std::uint64_t>(total)) {
    if (wild.trainer.receive(packet) != ReceiveOutcome::Received) {
      std::this_thread::yield();
      continue;
    }
    const auto message = wire::decode_to_trainer(packet.bytes).value();
    if (const auto* told = std::get_if<wire::StepCommitted>(&message)) BOOST_REQUIRE(told->committed.step.value == expected++);
  }
}

BOOST_AUTO_TEST_CASE(an_adopted_trainer_that_vanishes_is_lost) {
  Wild wild;
  wild.seat();
  wild.trainer.close();
  BOOST_TEST((wild.agent.expect<TrainerLost>().cause == Error(ErrorName::TrainerFailed, "it closed its socket without a word")));
}

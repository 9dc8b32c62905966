// Owns PlayedOperation: one operation without sockets, to which the test plays the other ranks.
#pragma once

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <memory>
#include <vector>

#include "runtime/lanes/operation.hpp"

namespace prime::lanes::test {

inline constexpr std::size_t CHUNK = 16;

inline Instant at(std::int64_t ns) { return Instant(Duration(ns)); }

/// Three ranks with ids 1, 2, 3; this one is rank 0 and owns the first third, ten chunks.
struct PlayedOperation {
  explicit PlayedOperation(std::size_t elements = 480) : input(elements, 1.0F), output(elements) {
    auto made = Operation::make(
        request(), {3, &pool}, [this](std::uint64_t done, std::uint64_t) { steps = done; }, [] { return at(0); });
    BOOST_REQUIRE(made.has_value());
    operation = std::move(*made);
    begin = operation->next(1)->header;
  }
  ReduceRequest request() {
    ReduceRequest made;
    made.op = {Epoch{1}, Sequence{1}};
    made.view = View{Epoch{1}, {Member{PeerId{1}, "", {}, 0}, Member{PeerId{2}, "", {}, 1}, Member{PeerId{3}, "", {}, 2}}};
    made.self = PeerId{1};
    made.contributions = {{PeerId{1}, 1}, {PeerId{2}, 1}, {PeerId{3}, 1}};
    made.input = std::as_bytes(std::span{input});
    made.output = std::as_writable_bytes(std::span{output});
    made.deadline = 1s;
    made.schedule = Schedule::Direct;
    return made;
  }
  /// An input that is used where it lies.
  Result<void> lend(std::uint32_t from, std::vector<float>& where, std::uint64_t payload_checksum) {
    auto header = frame(from, PieceKind::Input);
    header.payload_checksum = payload_checksum;
    auto reception = operation->expect(from, header, true);
    BOOST_REQUIRE(reception.has_value());
    BOOST_TEST(reception->buffer == nullptr);
    reception->buffer = {reinterpret_cast<std::byte*>(where.data()), [](std::byte*) {}};
    reception->into = std::as_writable_bytes(std::span{where});
    return operation->received(from, std::move(*reception), at(1));
  }
  /// What rank `from` sends of that kind, as a header without payload checksum.
  FrameHeader frame(std::uint32_t from, PieceKind kind, std::uint32_t chunk = 0) const {
    auto header = begin;
    header.kind = kind;
    header.segment = static_cast<std::uint16_t>(kind == PieceKind::Result ? from : 0);
    header.chunk = chunk;
    header.payload_bytes = kind == PieceKind::Begin ? 0 : CHUNK * sizeof(float);
    return header;
  }
  /// False when it is refused.
  bool deliver(std::uint32_t from, PieceKind kind, std::uint32_t chunk = 0, std::int64_t now = 1) {
    auto header = frame(from, kind, chunk);
    const std::vector<float> values(header.payload_bytes / sizeof(float), 2.0F);
    header.payload_checksum = checksum(std::as_bytes(std::span{values}));
    auto reception = operation->expect(from, header);
    if (!reception) return false;
    BOOST_REQUIRE(reception->into.size() == header.payload_bytes);
    std::copy_n(std::as_bytes(std::span{values}).begin(), header.payload_bytes, reception->into.begin());
    BOOST_REQUIRE(operation->received(from, std::move(*reception), at(now)).has_value());
    return true;
  }
  /// A word of the vote from a rank.
  void say(std::uint32_t from, PieceKind kind, std::span<const std::byte> payload) {
    auto header = frame(from, PieceKind::Begin);
    header.kind = kind;
    header.payload_bytes = static_cast<std::uint32_t>(payload.size());
    header.payload_checksum = checksum(payload);
    auto reception = operation->expect(from, header);
    BOOST_REQUIRE(reception.has_value());
    std::copy(payload.begin(), payload.end(), reception->into.begin());
    BOOST_REQUIRE(operation->received(from, std::move(*reception), at(1)).has_value());
  }
  /// All frames that can be sent to a rank now.
  std::vector<FrameHeader> send_all(std::uint32_t to) {
    std::vector<FrameHeader> headers;
    while (auto next = operation->next(to)) {
      headers.push_back(next->header);
      operation->sent(to, next->header);
    }
    return headers;
  }
  PeerId blamed() {
    operation->deadline_passed(at(100));
    return operation->suspect();
  }
  /// An operation of no elements, which has voted.
  void vote_on_nothing(Operation::Clock clock) {
    auto voting = request();
    voting.vote = true;
    voting.input = {};
    voting.output = {};
    operation = std::move(*Operation::make(
        std::move(voting), {3, &pool}, [](std::uint64_t, std::uint64_t) {}, std::move(clock)));
  }
  /// Nobody who was asked after the deadline says anything more.
  void await_answers_in_vain() {
    for (int looks = 0; looks < 10 && !operation->outcome(operation->deadline()); ++looks)
      operation->deadline_passed(operation->deadline());
  }

  std::vector<float> input;
  std::vector<float> output;
  ChunkPool pool{CHUNK * sizeof(float)};
  std::uint64_t steps = 0;
  std::unique_ptr<Operation> operation;
  FrameHeader begin;  ///< ours; it has what all frames have in common
};

}  // namespace prime::lanes::test

// Owns Duet: one engine, and a peer whose every byte the test writes itself.
#pragma once

#include <boost/test/unit_test.hpp>
#include <future>
#include <mutex>
#include <poll.h>

#include "runtime/lanes/frame.hpp"
#include "tests/runtime/lanes/cluster.hpp"

namespace prime::lanes::test {

inline constexpr PeerId OTHER{1};  // dials, so that the engine only waits
inline constexpr PeerId OURS{2};

inline OperationId op(std::uint64_t sequence) { return {Epoch{1}, Sequence{sequence}}; }

/// The engine has rank 1 of 2 and owns elements 16 to 31 of 32; the test plays rank 0.
class Duet {
 public:
  explicit Duet(std::uint32_t streams = 1) {
    EngineOptions options;
    options.streams = [streams] { return streams; };
    options.self = OURS;
    options.window_chunks = 64;  // more than sockets hold
    options.now = [this] {
      const std::lock_guard still(stands_still);
      return Instant(Duration(now_ns.fetch_add(tick_ns)));
    };
    engine = std::make_unique<LaneEngine>(std::move(options));
    connect();
  }
  void connect() {
    auto [near, far] = tcp_pair();
    socket = near;
    engine->adopt(std::make_unique<PlainChannel>(std::move(far), OTHER, faults));
  }

  /// `output` is the engine's buffer for this operation.
  void start(std::uint64_t sequence, std::vector<float>& output, const Outcomes& outcomes, Duration deadline = PATIENCE) {
    ReduceRequest request;
    request.op = op(sequence);
    request.view = view;
    request.self = OURS;
    request.contributions = contributions;
    request.input = std::as_bytes(std::span{input}.first(output.size()));
    request.output = std::as_writable_bytes(std::span{output});
    request.deadline = deadline;
    request.schedule = Schedule::Direct;
    request.vote = vote;
    engine->start(std::move(request), [outcomes](ReduceOutcome outcome) { outcomes.put(0, std::move(outcome)); });
  }

  void send(FrameHeader header, std::vector<float> payload = {}) {
    header.payload_bytes = static_cast<std::uint32_t>(payload.size() * sizeof(float));
    if (!damage) header.payload_checksum = checksum(std::as_bytes(std::span{payload}));
    send_bytes(encode(header));
    send_bytes(std::as_bytes(std::span{payload}));
  }
  void send_bytes(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const auto put = ::send(socket->fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (put <= 0) return;  // the engine has closed: what a test expects then, it checks itself
      bytes = bytes.subspan(static_cast<std::size_t>(put));
    }
  }
  /// Nothing when the engine closed the lane.
  std::optional<FrameHeader> receive(std::vector<std::byte>* payload = nullptr) {
    const SocketPtr from = readable();
    HeaderBytes bytes;
    if (!receive_bytes(*from, bytes)) return std::nullopt;
    const auto header = decode(bytes);
    BOOST_REQUIRE(header.has_value());
    std::vector<std::byte> body(header->payload_bytes);
    if (!receive_bytes(*from, body)) return std::nullopt;
    BOOST_TEST(checksum(body) == header->payload_checksum);
    if (payload != nullptr) *payload = std::move(body);
    return *header;
  }
  static bool receive_bytes(const Socket& from, std::span<std::byte> into) {
    while (!into.empty()) {
      const auto got = ::recv(from.fd(), into.data(), into.size(), 0);
      if (got <= 0) return false;
      into = into.subspan(static_cast<std::size_t>(got));
    }
    return true;
  }

  /// Of our end of all streams the one on which something comes.
  [[nodiscard]] SocketPtr readable() const {
    pollfd fds[2] = {{socket->fd(), POLLIN, 0}, {second ? second->fd() : -1, POLLIN, 0}};
    BOOST_REQUIRE(::poll(fds, 2, 120'000) >= 1);
    return fds[0].revents != 0 ? socket : second;
  }

  FrameHeader frame(std::uint64_t sequence, PieceKind kind) const {
    FrameHeader header;
    header.kind = kind;
    header.world = 2;
    header.segment = kind == PieceKind::Input ? 1 : 0;
    header.op = op(sequence);
    header.agreement = agreement;
    return header;
  }
  void greet(std::uint64_t bundle, std::uint32_t index, std::uint16_t streams) {
    FrameHeader header;
    header.kind = PieceKind::Greeting;
    header.world = streams;
    header.op.tag = Tag{bundle};
    header.chunk = index;
    send(header);
  }
  /// Plays a whole reduce of 32 elements from the other side.
  void send_all(std::uint64_t sequence) {
    send(frame(sequence, PieceKind::Begin));
    send(frame(sequence, PieceKind::Input), std::vector<float>(16, 3.0F));
    send(frame(sequence, PieceKind::Result), std::vector<float>(16, 4.0F));
  }
  /// Reads the engine's three frames, and learns from them what peers must agree on.
  void receive_all(std::uint64_t sequence) {
    std::set<PieceKind> kinds;
    while (kinds.size() < 3) {
      const auto header = receive();
      BOOST_REQUIRE(header.has_value());
      BOOST_TEST((header->op == op(sequence)));
      BOOST_TEST((kinds.empty() ? header->kind == PieceKind::Begin : header->kind != PieceKind::Begin));
      BOOST_REQUIRE(kinds.insert(header->kind).second);
      agreement = header->agreement;
      if (header->kind == PieceKind::Begin && sequence == 1) send_all(sequence);
    }
  }
  /// A whole good reduce, as the first operation: it shows that the engine works, and fills in `agreement`.
  void play_first() { play(1); }
  void play(std::uint64_t sequence) {
    Outcomes outcomes;
    std::vector<float> output(32);
    start(sequence, output, outcomes);
    if (sequence > 1) send_all(sequence);
    receive_all(sequence);
    BOOST_REQUIRE(outcomes.wait_for_all(1));
    BOOST_TEST(outcomes.all().at(0).stats.has_value());
    BOOST_TEST(output[0] == 4.0F);
    BOOST_TEST(output[31] == 2.0F);  // the mean of 1 and 3
  }
  /// Returns when the engine has done all that it had to do before, while an operation runs: it measures nothing beside one.
  void settle() {
    for (int turns = 0; turns < 2; ++turns) {
      std::promise<void> turned;
      engine->measure(Member{PeerId{77}, "", {}, 7}, [&](const auto&) { turned.set_value(); });
      turned.get_future().wait();
    }
  }
  /// The outcome of an operation that the other side answers with these frames.
  template <class Play>
  ReduceOutcome outcome_of(std::uint64_t sequence, Play play_other) {
    Outcomes outcomes;
    std::vector<float> output(32);
    start(sequence, output, outcomes);
    play_other();
    BOOST_REQUIRE(outcomes.wait_for_all(1));
    return outcomes.all().at(0);
  }

  std::mutex stands_still;  ///< whoever holds it stops the engine when it looks at its clock
  std::atomic<std::int64_t> now_ns = 1;
  std::atomic<std::int64_t> tick_ns = 0;  ///< by which the clock goes on whenever it is read
  View view{Epoch{1}, {Member{OTHER, "", {}, 0}, Member{OURS, "", {}, 1}}};
  std::vector<Contribution> contributions{{OTHER, 1}, {OURS, 1}};
  std::vector<float> input = std::vector<float>(8 << 20, 1.0F);
  std::uint64_t agreement = 0;
  bool damage = false;
  bool vote = false;
  std::shared_ptr<Faults> faults = std::make_shared<Faults>();
  SocketPtr socket;
  SocketPtr second;  ///< of the same lane
  std::unique_ptr<LaneEngine> engine;
};

}  // namespace prime::lanes::test

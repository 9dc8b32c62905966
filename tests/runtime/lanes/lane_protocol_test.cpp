// Owns the tests of one engine against a peer whose every byte the test writes itself: stale, early, wrong, mute and garbage.
#include <boost/test/unit_test.hpp>
#include <poll.h>

#include "runtime/lanes/frame.hpp"
#include "tests/runtime/lanes/cluster.hpp"

using namespace prime;
using namespace prime::lanes;
using namespace prime::lanes::test;

namespace {

constexpr PeerId OTHER{1};  // dials, so that the engine only waits
constexpr PeerId OURS{2};

OperationId op(std::uint64_t sequence) { return {Epoch{1}, Sequence{sequence}}; }

/// The engine has rank 1 of 2 and owns elements 16 to 31 of 32; the test plays rank 0.
class Duet {
 public:
  explicit Duet(std::uint32_t streams = 1) {
    EngineOptions options;
    options.streams = [streams] { return streams; };
    options.self = OURS;
    options.window_chunks = 64;  // more than sockets hold
    options.now = [this] { return Instant(Duration(now_ns.fetch_add(tick_ns))); };
    engine = std::make_unique<LaneEngine>(std::move(options));
    connect();
  }
  void connect() {
    auto [near, far] = tcp_pair();
    socket = near;
    engine->adopt(std::make_unique<PlainChannel>(std::move(far), OTHER));
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

  std::atomic<std::int64_t> now_ns = 1;
  std::atomic<std::int64_t> tick_ns = 0;  ///< by which the clock goes on whenever it is read
  View view{Epoch{1}, {Member{OTHER, "", {}, 0}, Member{OURS, "", {}, 1}}};
  std::vector<Contribution> contributions{{OTHER, 1}, {OURS, 1}};
  std::vector<float> input = std::vector<float>(8 << 20, 1.0F);
  std::uint64_t agreement = 0;
  bool damage = false;
  bool vote = false;
  SocketPtr socket;
  SocketPtr second;  ///< of the same lane
  std::unique_ptr<LaneEngine> engine;
};

}  // namespace

BOOST_FIXTURE_TEST_CASE(a_played_reduce_succeeds, Duet) {
  play_first();
  for (std::uint64_t sequence = 2; sequence < 10; ++sequence) play(sequence);
}

BOOST_FIXTURE_TEST_CASE(frames_of_older_operations_are_dropped, Duet) {
  play_first();
  send_all(1);
  play(5);
  send(frame(3, PieceKind::Input), std::vector<float>(16, 99.0F));
  send(frame(5, PieceKind::Result), std::vector<float>(16, 99.0F));
  play(6);
}

BOOST_FIXTURE_TEST_CASE(frames_of_an_operation_that_is_not_started_yet_wait_for_it, Duet) {
  play_first();
  send_all(2);
  send_all(3);
  for (const std::uint64_t sequence : {2U, 3U}) {
    Outcomes outcomes;
    std::vector<float> output(32);
    start(sequence, output, outcomes);
    receive_all(sequence);
    BOOST_REQUIRE(outcomes.wait_for_all(1));
    BOOST_TEST(outcomes.all().at(0).stats.has_value());
  }
}

BOOST_FIXTURE_TEST_CASE(an_early_frame_neither_disturbs_nor_serves_the_running_operation, Duet) {
  play_first();
  Outcomes outcomes;
  std::vector<float> output(32);
  start(2, output, outcomes);
  send_all(4);
  engine->abort(op(2), "the other side has moved on");
  BOOST_REQUIRE(outcomes.wait_for_all(1));
  BOOST_TEST(!outcomes.all().at(0).stats.has_value());
  // The engine may have begun to send frames of operation 2 before the abort.
  Outcomes next;
  start(4, output, next);
  BOOST_REQUIRE(next.wait_for_all(1));
  BOOST_TEST(next.all().at(0).stats.has_value());
}

BOOST_FIXTURE_TEST_CASE(a_damaged_payload_names_its_sender, Duet) {
  play_first();
  const auto outcome = outcome_of(2, [&] {
    send(frame(2, PieceKind::Begin));
    damage = true;
    send(frame(2, PieceKind::Input), std::vector<float>(16, 3.0F));
  });
  BOOST_TEST((outcome.stats.error().name == ErrorName::LaneBroken));
  BOOST_TEST((outcome.suspect == OTHER));
}

BOOST_FIXTURE_TEST_CASE(a_frame_out_of_its_turn_is_a_violation, Duet) {
  play_first();
  auto wrong_chunk = frame(2, PieceKind::Input);
  wrong_chunk.chunk = 1;
  auto result_of_ours = frame(2, PieceKind::Result);
  result_of_ours.segment = 1;
  const auto second_begin = frame(2, PieceKind::Begin);
  std::uint64_t sequence = 1;
  for (auto wrong : {wrong_chunk, result_of_ours, second_begin, frame(2, PieceKind::Input)}) {
    wrong.op = op(++sequence);
    const auto outcome = outcome_of(sequence, [&] {
      send(frame(sequence, PieceKind::Begin));
      // The last one is the right frame with too few elements.
      send(wrong, std::vector<float>(wrong.kind == PieceKind::Begin ? 0 : wrong.kind == PieceKind::Input && wrong.chunk == 0 ? 15 : 16));
    });
    BOOST_TEST((outcome.stats.error().name == ErrorName::ProtocolViolation));
    BOOST_TEST((outcome.suspect == OTHER));
    connect();
  }
}

BOOST_FIXTURE_TEST_CASE(a_peer_that_means_another_reduce_is_a_mismatch_and_keeps_its_lane, Duet) {
  play_first();
  std::uint64_t sequence = 1;
  for (int field = 0; field < 2; ++field) {
    auto begin = frame(++sequence, PieceKind::Begin);
    if (field == 0) begin.world = 3;
    if (field == 1) ++begin.agreement;
    const auto outcome = outcome_of(sequence, [&] { send(begin); });
    BOOST_TEST((outcome.stats.error().name == ErrorName::ReduceMismatch));
    BOOST_TEST((outcome.suspect == OTHER));
  }
  Outcomes outcomes;
  std::vector<float> output(32);
  start(++sequence, output, outcomes);
  send_all(sequence);
  BOOST_REQUIRE(outcomes.wait_for_all(1));
  BOOST_TEST(outcomes.all().at(0).stats.has_value());
}

BOOST_FIXTURE_TEST_CASE(a_mute_peer_is_named_at_the_deadline, Duet) {
  play_first();
  const auto outcome = outcome_of(2, [&] {
    BOOST_REQUIRE(receive().has_value());  // it has begun
    now_ns += Duration(PATIENCE).count() + 1;
    engine->abort(op(99), "only wakes the thread, which looks at its clock");
  });
  BOOST_TEST((outcome.stats.error().name == ErrorName::DeadlineExceeded));
  BOOST_TEST((outcome.suspect == OTHER));
}

BOOST_FIXTURE_TEST_CASE(a_peer_that_closes_in_mid_operation_is_named, Duet) {
  play_first();
  const auto outcome = outcome_of(2, [&] {
    send(frame(2, PieceKind::Begin));
    send(frame(2, PieceKind::Input), std::vector<float>(16, 3.0F));
    // The engine's result proves that it has our input; what it still needs is our result.
    for (int frames = 0; frames < 3; ++frames) BOOST_REQUIRE(receive().has_value());
    socket->cut();
  });
  BOOST_TEST((outcome.stats.error().name == ErrorName::LaneBroken));
  BOOST_TEST((outcome.suspect == OTHER));
}

BOOST_FIXTURE_TEST_CASE(a_peer_that_closes_before_its_first_frame_may_dial_again, Duet) {
  play_first();
  const auto outcome = outcome_of(2, [&] {
    BOOST_REQUIRE(receive().has_value());
    socket->cut();
    connect();
    send_all(2);
  });
  BOOST_TEST(outcome.stats.has_value());
}

BOOST_FIXTURE_TEST_CASE(a_peer_that_closes_before_its_first_frame_and_stays_away_is_named, Duet) {
  play_first();
  const auto outcome = outcome_of(2, [&] {
    BOOST_REQUIRE(receive().has_value());
    socket->cut();
    // Also the second lane is lost: a peer has one more chance, not more.
    connect();
    BOOST_REQUIRE(receive().has_value());
    socket->cut();
  });
  BOOST_TEST((outcome.stats.error().name == ErrorName::LaneBroken));
  BOOST_TEST((outcome.suspect == OTHER));
}

BOOST_FIXTURE_TEST_CASE(a_peer_that_has_gone_before_an_operation_begins_is_not_waited_for_until_its_deadline, Duet) {
  play_first();
  socket->cut();
  // Another lane, which the engine also closes, tells that it has seen the end of the first.
  connect();
  send_bytes(std::vector<std::byte>(HEADER_BYTES));
  BOOST_REQUIRE(!receive().has_value());
  const auto outcome = outcome_of(2, [&] {
    Outcomes refused;
    std::vector<float> unused(32);
    start(1, unused, refused);
    BOOST_REQUIRE(refused.wait_for_all(1));  // so operation 2 has started
    now_ns += Duration(3s).count();
    engine->abort(op(99), "only wakes the thread, which looks at its clock");
  });
  BOOST_TEST((outcome.stats.error().name == ErrorName::LaneBroken));
  BOOST_TEST((outcome.suspect == OTHER));
}

BOOST_FIXTURE_TEST_CASE(who_begins_what_was_given_up_before_there_was_a_lane_is_told, Duet) {
  socket->cut();
  vote = true;
  const auto outcome = outcome_of(1, [&] { engine->abort(op(1), "the test says so"); });
  BOOST_TEST(!outcome.stats.has_value());
  for (const auto kind : {PieceKind::Begin, PieceKind::Input}) {  // the latter where tensors are exchanged whole
    connect();
    send(frame(1, kind), std::vector<float>(kind == PieceKind::Input ? 16 : 0));
    const auto answer = receive();
    BOOST_REQUIRE(answer.has_value());
    BOOST_TEST((answer->kind == PieceKind::Aborted));
    BOOST_TEST((answer->op == op(1)));
  }
}

BOOST_AUTO_TEST_CASE(a_doubt_of_which_half_is_here_when_its_operation_ends_is_answered) {
  Duet duet(2);
  duet.vote = true;
  duet.second = duet.socket;
  duet.greet(7, 1, 2);
  duet.connect();
  duet.greet(7, 0, 2);
  BOOST_TEST(!duet.outcome_of(1, [&] { duet.engine->abort(op(1), "the test says so"); }).stats.has_value());
  const auto receive_until = [&](PieceKind kind, std::uint64_t sequence, std::vector<std::byte>* payload) {
    auto header = duet.receive(payload);
    while (header && (header->kind != kind || header->op != op(sequence))) header = duet.receive(payload);
    BOOST_REQUIRE(header.has_value());
    duet.agreement = header->agreement;
  };
  receive_until(PieceKind::Aborted, 1, nullptr);
  Outcomes outcomes;
  std::vector<float> output(32);
  duet.start(2, output, outcomes);
  receive_until(PieceKind::Begin, 2, nullptr);
  duet.send_all(2);
  std::vector<std::byte> digest;
  receive_until(PieceKind::Vote, 2, &digest);
  // The header of a doubt on one stream; answers on the other one tell that it was read.
  const SocketPtr first = std::exchange(duet.socket, duet.second);
  const std::vector<std::byte> nobody_lost(2);
  auto doubt = duet.frame(2, PieceKind::Doubt);
  doubt.payload_bytes = 2;
  doubt.payload_checksum = checksum(nobody_lost);
  duet.send_bytes(encode(doubt));
  duet.socket = first;
  for (int turn = 0; turn < 2; ++turn) {
    duet.send(duet.frame(1, PieceKind::Begin));
    receive_until(PieceKind::Aborted, 1, nullptr);
  }
  auto vote = duet.frame(2, PieceKind::Vote);
  vote.payload_bytes = static_cast<std::uint32_t>(digest.size());
  vote.payload_checksum = checksum(digest);
  duet.send_bytes(encode(vote));
  duet.send_bytes(digest);
  BOOST_REQUIRE(outcomes.wait_for_all(1));
  BOOST_TEST(outcomes.all().at(0).stats.has_value());
  duet.socket = duet.second;
  duet.send_bytes(nobody_lost);
  duet.socket = first;
  receive_until(PieceKind::Committed, 2, nullptr);
}

BOOST_FIXTURE_TEST_CASE(an_abort_in_mid_frame_frees_the_buffers_and_finishes_the_frame, Duet) {
  play_first();
  Outcomes outcomes;
  {
    // 16 MiB for the other side, more than sockets hold: the engine is stopped in the middle of a frame.
    std::vector<float> large(8 << 20);
    start(2, large, outcomes);
    const auto theirs = receive();
    BOOST_REQUIRE(theirs.has_value());
    auto begin = frame(2, PieceKind::Begin);
    begin.agreement = theirs->agreement;
    send(begin);
    BOOST_REQUIRE(receive().has_value());
    engine->abort(op(2), "the test says so");
    BOOST_REQUIRE(outcomes.wait_for_all(1));
    std::vector<float>(input.size(), -7.0F).swap(input);  // as a trainer would go on
  }
  input.assign(input.size(), 1.0F);
  Outcomes next;
  std::vector<float> output(32);
  start(3, output, next);
  send_all(3);
  std::vector<std::byte> payload;
  auto header = receive(&payload);  // also checks each payload against its checksum
  while (header && header->op == op(2)) header = receive(&payload);
  BOOST_REQUIRE(header.has_value());
  BOOST_TEST((header->op == op(3)));
  BOOST_REQUIRE(next.wait_for_all(1));
  BOOST_TEST(next.all().at(0).stats.has_value());
}

BOOST_FIXTURE_TEST_CASE(an_abort_in_mid_reception_drops_the_rest_of_the_frame, Duet) {
  play_first();
  auto begun = frame(2, PieceKind::Input);
  const std::vector<float> payload(16, 3.0F);
  begun.payload_bytes = 64;
  begun.payload_checksum = checksum(std::as_bytes(std::span{payload}));
  const auto bytes = std::as_bytes(std::span{payload});
  const auto outcome = outcome_of(2, [&] {
    send(frame(2, PieceKind::Begin));
    send_bytes(encode(begun));
    send_bytes(bytes.first(30));
    engine->abort(op(2), "the test says so");
  });
  BOOST_TEST((outcome.suspect == PeerId{}));
  send_bytes(bytes.subspan(30));
  Outcomes outcomes;
  std::vector<float> output(32);
  start(3, output, outcomes);
  send_all(3);
  BOOST_REQUIRE(outcomes.wait_for_all(1));
  BOOST_TEST(outcomes.all().at(0).stats.has_value());
}

BOOST_FIXTURE_TEST_CASE(an_early_frame_that_comes_damaged_while_its_operation_starts_costs_the_lane_and_no_more, Duet) {
  play_first();
  auto early = frame(2, PieceKind::Input);
  const std::vector<float> payload(16, 3.0F);  // the header's checksum is of something else
  const auto bytes = std::as_bytes(std::span{payload});
  early.payload_bytes = 64;
  send_bytes(encode(early));
  send_bytes(bytes.first(30));
  const auto outcome = outcome_of(2, [&] {
    BOOST_REQUIRE(receive().has_value());  // it has started
    send_bytes(bytes.subspan(30));
    BOOST_REQUIRE(!receive().has_value());
    connect();
    send_all(2);
  });
  BOOST_TEST(outcome.stats.has_value(), to_string(outcome.stats.error()));
}

BOOST_AUTO_TEST_CASE(streams_find_their_lane_in_whatever_order_their_greetings_come) {
  Duet duet(2);  // its first stream is connected
  duet.second = duet.socket;
  duet.greet(7, 1, 2);
  duet.connect();
  duet.greet(7, 0, 2);
  duet.play_first();
  duet.play(2);
  // One of a lane that is gone joins nothing, and disturbs nothing.
  const SocketPtr first = duet.socket;
  duet.connect();
  duet.greet(6, 1, 2);
  duet.socket = first;
  duet.play(3);
  // The first one of another lane replaces the one that was there.
  const SocketPtr second = std::exchange(duet.second, nullptr);
  duet.connect();
  duet.greet(8, 0, 2);
  duet.play(4);
  std::byte byte{};
  BOOST_TEST(::recv(second->fd(), &byte, 1, 0) == 0);
}

BOOST_AUTO_TEST_CASE(peers_that_differ_in_the_number_of_streams_say_so) {
  for (const auto& [ours, theirs] : {std::pair{1U, 2U}, {3U, 1U}, {3U, 2U}}) {
    Duet duet(ours);
    Outcomes outcomes;
    std::vector<float> output(32);
    duet.start(1, output, outcomes);
    if (theirs > 1) duet.greet(7, 0, static_cast<std::uint16_t>(theirs));
    else duet.send(duet.frame(1, PieceKind::Begin));
    BOOST_REQUIRE(outcomes.wait_for_all(1));
    BOOST_TEST((outcomes.all().at(0).stats.error().name == ErrorName::ReduceMismatch));
    BOOST_TEST(outcomes.all().at(0).stats.error().detail.find("streams") != std::string::npos);
  }
}

BOOST_AUTO_TEST_CASE(who_starts_after_a_lane_with_another_number_of_streams_was_closed_is_told_so) {
  for (const auto& [ours, theirs] : {std::pair{1U, 2U}, {3U, 1U}, {3U, 2U}}) {
    Duet duet(ours);
    if (theirs > 1) duet.greet(7, 0, static_cast<std::uint16_t>(theirs));
    else duet.send(duet.frame(1, PieceKind::Begin));
    BOOST_REQUIRE(!duet.receive().has_value());
    Outcomes outcomes;
    std::vector<float> output(32);
    duet.start(1, output, outcomes);
    BOOST_REQUIRE(outcomes.wait_for_all(1));
    BOOST_TEST((outcomes.all().at(0).stats.error().name == ErrorName::ReduceMismatch));
  }
}

/// Its first reads find nothing but bells; its descriptor never tells of anything.
class RungChannel final : public net::Channel {
 public:
  explicit RungChannel(SocketPtr silent, HeaderBytes bytes) : silent_(std::move(silent)), bytes_(bytes) {}
  Io read(std::span<std::byte> into) override {
    if (++reads_ <= BELLS) return {State::WantRead, 0};
    std::copy_n(bytes_.begin(), into.size(), into.begin());
    return {State::Ok, into.size()};
  }
  Io write(std::span<const std::byte> from) override { return {State::Ok, from.size()}; }
  [[nodiscard]] std::size_t buffered() const override { return 0; }
  [[nodiscard]] int fd() const override { return silent_->fd(); }
  [[nodiscard]] bool rung() override { return reads_ <= BELLS; }
  [[nodiscard]] PeerId peer() const override { return OTHER; }
  void shutdown() noexcept override {}

 private:
  SocketPtr silent_;
  static constexpr int BELLS = 20;  ///< more than other news wake the engine
  HeaderBytes bytes_;
  int reads_ = 0;
};

BOOST_AUTO_TEST_CASE(a_stream_that_only_heard_a_bell_is_read_again) {
  Duet duet(3);
  duet.tick_ns = 1000;  // so that the engine does not look about for ever, but sleeps
  Outcomes outcomes;
  std::vector<float> output(32);
  duet.start(1, output, outcomes);
  const auto [silent, other_end] = tcp_pair();
  // Its greeting is another than ours, so that reading it shows.
  duet.engine->adopt(std::make_unique<RungChannel>(silent, encode(duet.frame(1, PieceKind::Begin))));
  BOOST_REQUIRE(outcomes.wait_for_all(1));
  BOOST_TEST((outcomes.all().at(0).stats.error().name == ErrorName::ReduceMismatch));
}

BOOST_FIXTURE_TEST_CASE(a_frame_may_overtake_the_beginning, Duet) {
  play_first();
  const auto outcome = outcome_of(2, [&] {
    send(frame(2, PieceKind::Input), std::vector<float>(16, 3.0F));
    send(frame(2, PieceKind::Result), std::vector<float>(16, 4.0F));
    send(frame(2, PieceKind::Begin));
  });
  BOOST_TEST(outcome.stats.has_value());
}

BOOST_FIXTURE_TEST_CASE(an_operation_that_is_not_newer_is_refused, Duet) {
  play_first();
  const auto outcome = outcome_of(1, [] {});
  BOOST_TEST((outcome.stats.error().name == ErrorName::InternalError));
}

BOOST_FIXTURE_TEST_CASE(a_newer_operation_ends_the_one_that_runs, Duet) {
  play_first();
  Outcomes first;
  std::vector<float> output(32);
  start(2, output, first);
  Outcomes second;
  std::vector<float> second_output(32);
  start(3, second_output, second);
  BOOST_REQUIRE(first.wait_for_all(1));
  BOOST_TEST(!first.all().at(0).stats.has_value());
  send_all(3);
  BOOST_REQUIRE(second.wait_for_all(1));
  BOOST_TEST(second.all().at(0).stats.has_value());
}

BOOST_FIXTURE_TEST_CASE(garbage_closes_the_lane_and_nothing_else, Duet) {
  play_first();
  std::mt19937_64 random(1);
  for (int tries = 0; tries < 300; ++tries) {
    std::vector<std::byte> garbage(HEADER_BYTES + random() % 1000);
    for (auto& byte : garbage) byte = static_cast<std::byte>(random());
    send_bytes(garbage);
    BOOST_TEST(!receive().has_value());
    connect();
  }
  play(2);
}

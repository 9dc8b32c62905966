// Owns the tests of one engine against a peer whose every byte the test writes itself: stale, early, wrong, mute and garbage.
#include <boost/test/unit_test.hpp>

#include "runtime/net/congestion.hpp"
#include "tests/runtime/lanes/duet.hpp"

BOOST_AUTO_TEST_SUITE(lane_protocol)

using namespace prime;
using namespace prime::lanes;
using namespace prime::lanes::test;

BOOST_FIXTURE_TEST_CASE(a_played_reduce_succeeds, Duet) {
  play_first();
  for (std::uint64_t sequence = 2; sequence < 10; ++sequence) play(sequence);
}

namespace {

/// Who is at the other end says by which port it is connected. Where the engine has nothing more to send, what it is asked is answered
/// next.
void expect_inputs(Duet& duet, std::uint32_t port, std::uint32_t count) {
  Outcomes outcomes;
  std::vector<float> output(duet.input.size());
  duet.start(1, output, outcomes);
  duet.agreement = duet.receive()->agreement;
  FrameHeader begin = duet.frame(1, PieceKind::Begin);
  begin.chunk = port;
  duet.send(begin);
  for (std::uint32_t chunk = 0; chunk < count; ++chunk) {
    const auto header = duet.receive();
    BOOST_REQUIRE(header.has_value());
    BOOST_TEST((header->kind == PieceKind::Input && header->chunk == chunk));
  }
  FrameHeader question = duet.frame(1, PieceKind::Probe);
  question.op.sequence = Sequence{1};
  duet.send(question);
  const auto answer = duet.receive();
  BOOST_REQUIRE(answer.has_value());
  BOOST_TEST((answer->kind == PieceKind::Probed));
  duet.engine->abort(op(1), "the test ends");
  BOOST_TEST(outcomes.wait_for_all(1));
}

}  // namespace

BOOST_FIXTURE_TEST_CASE(a_peer_on_this_machine_has_three_chunks_to_answer_at_most, Duet) {
  expect_inputs(*this, net::ports_of(socket->fd()).first, 3);
}

/// Its port is another one than that of the connection that comes in here.
BOOST_FIXTURE_TEST_CASE(one_behind_a_proxy_on_this_machine_has_the_whole_window, Duet) {
  expect_inputs(*this, net::ports_of(socket->fd()).first + 1U, 64);
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
  std::uint64_t sequence = 1;
  for (auto wrong : {wrong_chunk, result_of_ours, frame(2, PieceKind::Input)}) {
    wrong.op = op(++sequence);
    const auto outcome = outcome_of(sequence, [&] {
      send(frame(sequence, PieceKind::Begin));
      // The last one is the right frame with too few elements.
      send(wrong, std::vector<float>(wrong.kind == PieceKind::Input && wrong.chunk == 0 ? 15 : 16));
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

/// What was sent to it went with its lane before it had read anything, and this rank had nothing more to send or to wait for.
BOOST_FIXTURE_TEST_CASE(a_peer_that_begins_twice_has_lost_what_was_sent_and_keeps_its_new_lane, Duet) {
  play_first();
  const auto outcome = outcome_of(2, [&] {
    for (int times = 0; times < 2; ++times) send(frame(2, PieceKind::Begin));
  });
  BOOST_TEST((outcome.stats.error().name == ErrorName::LaneBroken));
  BOOST_TEST((outcome.suspect == OTHER));
  Outcomes outcomes;
  std::vector<float> output(32);
  start(3, output, outcomes);
  send_all(3);
  BOOST_REQUIRE(outcomes.wait_for_all(1));
  BOOST_TEST(outcomes.all().at(0).stats.has_value());
}

BOOST_FIXTURE_TEST_CASE(a_mute_peer_is_named_at_the_deadline, Duet) {
  play_first();
  const auto outcome = outcome_of(2, [&] {
    BOOST_REQUIRE(receive().has_value());  // it has begun
    settle();
    now_ns += Duration(PATIENCE).count() + 1;
    engine->abort(op(99), "only wakes the thread, which looks at its clock");
  });
  BOOST_TEST((outcome.stats.error().name == ErrorName::DeadlineExceeded));
  BOOST_TEST((outcome.suspect == OTHER));
}

BOOST_FIXTURE_TEST_CASE(a_peer_whose_bytes_trickle_is_waited_for_however_long_it_takes, Duet) {
  play_first();
  constexpr std::size_t ELEMENTS = 16;
  const auto outcome = outcome_of(2, [&] {
    send(frame(2, PieceKind::Begin));
    for (int frames = 0; frames < 2; ++frames) BOOST_REQUIRE(receive().has_value());
    const auto trickle = [&](FrameHeader header, float value) {
      const std::vector<float> payload(ELEMENTS, value);
      header.payload_bytes = ELEMENTS * sizeof(float);
      header.payload_checksum = checksum(std::as_bytes(std::span{payload}));
      send_bytes(encode(header));
      for (const auto byte : std::as_bytes(std::span{payload})) {
        settle();
        now_ns += Duration(PATIENCE).count() - 1;  // no single byte is too late
        send_bytes({&byte, 1});
      }
    };
    trickle(frame(2, PieceKind::Input), 3.0F);
    BOOST_REQUIRE(receive().has_value());
    trickle(frame(2, PieceKind::Result), 4.0F);
  });
  BOOST_TEST(outcome.stats.has_value());
  BOOST_TEST((outcome.stats->elapsed > 100 * Duration(PATIENCE)));
}

/// The clock goes on by more than the deadline, and the thread looks at it.
void pass_a_deadline(Duet& duet) {
  duet.settle();
  duet.now_ns += Duration(PATIENCE).count() + 1;
  duet.engine->abort(op(99), "only wakes the thread, which looks at its clock");
}

BOOST_FIXTURE_TEST_CASE(what_was_written_long_ago_and_still_arrives_is_waited_for, Duet) {
  play_first();
  faults->unconfirmed = 100;
  Outcomes outcomes;
  std::vector<float> output(32);
  start(2, output, outcomes);
  send(frame(2, PieceKind::Begin));
  for (int frames = 0; frames < 2; ++frames) BOOST_REQUIRE(receive().has_value());
  for (const std::size_t left : {90U, 50U, 1U}) {
    settle();
    faults->unconfirmed = left;
    pass_a_deadline(*this);
    settle();
    BOOST_TEST(outcomes.all().empty(), "with " << left << " bytes left");
  }
  pass_a_deadline(*this);  // the last byte stays where it is
  BOOST_REQUIRE(outcomes.wait_for_all(1));
  BOOST_TEST((outcomes.all().at(0).stats.error().name == ErrorName::DeadlineExceeded));
}

BOOST_FIXTURE_TEST_CASE(what_comes_of_a_void_reduce_moves_for_the_one_behind_it, Duet) {
  play_first();
  auto stale = frame(2, PieceKind::Input);
  BOOST_TEST(!outcome_of(2, [&] { engine->abort(op(2), "void"); }).stats);
  Outcomes outcomes;
  std::vector<float> output(32);
  start(3, output, outcomes);
  const std::vector<float> payload(16, 3.0F);
  stale.payload_bytes = static_cast<std::uint32_t>(payload.size() * sizeof(float));
  send_bytes(encode(stale));
  for (const auto byte : std::as_bytes(std::span{payload})) {
    settle();
    now_ns += Duration(PATIENCE).count() - 1;
    send_bytes({&byte, 1});
  }
  send_all(3);
  BOOST_REQUIRE(outcomes.wait_for_all(1));
  BOOST_TEST(outcomes.all().at(0).stats.has_value());
}

BOOST_FIXTURE_TEST_CASE(a_peer_whose_bytes_lie_here_unread_when_this_process_goes_on_is_not_named, Duet) {
  play_first();
  for (std::uint64_t sequence = 2; sequence < 30; ++sequence) {
    const auto outcome = outcome_of(sequence, [&] {
      send(frame(sequence, PieceKind::Begin));
      send(frame(sequence, PieceKind::Input), std::vector<float>(16, 3.0F));
      for (int frames = 0; frames < 3; ++frames) BOOST_REQUIRE(receive().has_value());
      const std::lock_guard still(stands_still);
      send(frame(sequence, PieceKind::Result), std::vector<float>(16, 4.0F));
      now_ns += Duration(PATIENCE).count() + 1;
    });
    BOOST_TEST((outcome.suspect == PeerId{}));
    BOOST_TEST((outcome.stats.has_value() || outcome.stats.error().name == ErrorName::DeadlineExceeded));
  }
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

/// Its beginning is here when its new lane is adopted, which ends what this rank had begun over the old one.
BOOST_FIXTURE_TEST_CASE(who_begins_anew_what_its_new_lane_has_ended_is_told, Duet) {
  vote = true;
  Outcomes outcomes;
  std::vector<float> output(32);
  start(1, output, outcomes);
  const auto theirs = receive();
  BOOST_REQUIRE(theirs.has_value());
  auto begin = frame(1, PieceKind::Begin);
  begin.agreement = theirs->agreement;
  send(begin);
  const auto input_of_theirs = receive();
  BOOST_REQUIRE(input_of_theirs.has_value());
  BOOST_TEST((input_of_theirs->kind == PieceKind::Input));
  auto [near, far] = tcp_pair();
  const auto old = std::exchange(socket, near);
  send(begin);
  engine->adopt(std::make_unique<PlainChannel>(std::move(far), OTHER));
  const auto answer = receive();
  BOOST_REQUIRE(answer.has_value());
  BOOST_TEST((answer->kind == PieceKind::Aborted));
  BOOST_REQUIRE(outcomes.wait_for_all(1));
  BOOST_TEST((outcomes.all().at(0).stats.error().name == ErrorName::LaneBroken));
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

BOOST_FIXTURE_TEST_CASE(what_came_early_over_a_lane_that_is_lost_may_come_again, Duet) {
  play_first();
  send(frame(2, PieceKind::Begin));
  send_bytes(std::vector<std::byte>(HEADER_BYTES));  // no header: it costs the lane, after the beginning was read
  BOOST_REQUIRE(!receive().has_value());
  connect();
  const auto outcome = outcome_of(2, [&] { send_all(2); });
  BOOST_TEST(outcome.stats.has_value(), to_string(outcome.stats.error()));
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

BOOST_AUTO_TEST_SUITE_END()

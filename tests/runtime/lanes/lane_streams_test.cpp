// Owns the tests of lanes of several streams, against a peer whose every byte the test writes itself.
#include <boost/test/unit_test.hpp>

#include "tests/runtime/lanes/duet.hpp"

BOOST_AUTO_TEST_SUITE(lane_streams)

using namespace prime;
using namespace prime::lanes;
using namespace prime::lanes::test;

namespace {

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

}  // namespace

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

namespace {

/// Two streams, and an operation that lacks nothing but the other's vote.
struct LacksAVote {
  LacksAVote() {
    duet.vote = true;
    duet.second = duet.socket;
    duet.greet(7, 1, 2);
    duet.connect();
    duet.greet(7, 0, 2);
    duet.start(1, output, outcomes);
    auto header = duet.receive();
    while (header && header->kind != PieceKind::Begin) header = duet.receive();
    BOOST_REQUIRE(header.has_value());
    duet.agreement = header->agreement;
    duet.send_all(1);
    while (header && header->kind != PieceKind::Vote) header = duet.receive(&digest);
    BOOST_REQUIRE(header.has_value());
  }
  /// The first stream ends for us when the engine knows of the other one's end.
  void lose_the_second() {
    const auto second = std::exchange(duet.second, nullptr);
    ::shutdown(second->fd(), SHUT_RDWR);
    while (duet.receive()) continue;
  }
  Duet duet{2};
  Outcomes outcomes;
  std::vector<float> output = std::vector<float>(32);
  std::vector<std::byte> digest;
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_vote_that_comes_after_the_end_of_another_stream_counts) {
  LacksAVote lacking;
  Duet& duet = lacking.duet;
  lacking.lose_the_second();
  auto vote = duet.frame(1, PieceKind::Vote);
  vote.payload_bytes = static_cast<std::uint32_t>(lacking.digest.size());
  vote.payload_checksum = checksum(lacking.digest);
  duet.send_bytes(encode(vote));
  duet.send_bytes(lacking.digest);
  BOOST_REQUIRE(lacking.outcomes.wait_for_all(1));
  BOOST_TEST(lacking.outcomes.all().at(0).stats.has_value());
}

BOOST_AUTO_TEST_CASE(a_lane_that_has_lost_a_stream_ends_though_the_first_one_goes_on) {
  LacksAVote lacking;
  lacking.lose_the_second();
  lacking.duet.now_ns += Duration(2s).count();
  // Who writes to what is closed hears of it at the next try; to who still reads, this is a word of long ago.
  auto header = lacking.duet.frame(0, PieceKind::Vote);
  header.payload_checksum = checksum({});
  const auto late = encode(header);
  const auto until = monotonic_now() + PATIENCE;
  bool closed = false;
  while (!closed && monotonic_now() < until) {
    closed = ::send(lacking.duet.socket->fd(), late.data(), late.size(), MSG_NOSIGNAL) < 0;
    ::poll(nullptr, 0, 1);
  }
  BOOST_TEST(closed);
}

BOOST_AUTO_TEST_SUITE_END()

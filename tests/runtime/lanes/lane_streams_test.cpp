// Owns the tests of lanes of several streams, against a peer whose every byte the test writes itself.
#include <boost/test/unit_test.hpp>
#include <sys/ioctl.h>

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

namespace {

/// Reads as TLS does: what is behind the bytes that were asked for comes along, and poll tells of it no more.
class GreedyChannel final : public net::Channel {
 public:
  /// `reads`: how often it was tried. `life` ends with it.
  GreedyChannel(SocketPtr socket, std::shared_ptr<std::atomic<int>> reads, std::shared_ptr<void> life = nullptr)
      : life_(std::move(life)), plain_(std::move(socket), OTHER), reads_(std::move(reads)) {}
  Io read(std::span<std::byte> into) override {
    ++*reads_;
    if (here_.empty()) {
      here_.resize(64 * 1024);
      const Io found = plain_.read(here_);
      here_.resize(found.bytes);
      if (found.state != State::Ok) return found;
    }
    const auto count = std::min(into.size(), here_.size());
    std::copy_n(here_.begin(), count, into.begin());
    here_.erase(here_.begin(), here_.begin() + static_cast<std::ptrdiff_t>(count));
    return {State::Ok, count};
  }
  Io write(std::span<const std::byte> from) override { return plain_.write(from); }
  [[nodiscard]] std::size_t buffered() const override { return here_.size(); }
  [[nodiscard]] int fd() const override { return plain_.fd(); }
  [[nodiscard]] PeerId peer() const override { return OTHER; }
  void shutdown() noexcept override { plain_.shutdown(); }

 private:
  std::shared_ptr<void> life_;
  PlainChannel plain_;
  std::shared_ptr<std::atomic<int>> reads_;
  std::vector<std::byte> here_;
};

/// A lane of two streams, of which the first one has played a reduce; and an operation that has only begun, for another lane to come to.
struct AnotherLane {
  AnotherLane() {
    duet.greet(6, 0, 2);
    duet.play_first();
    duet.start(2, output, outcomes);
    auto [near, far] = tcp_pair();
    duet.socket = near;
    duet.engine->adopt(std::make_unique<GreedyChannel>(std::move(far), reads));
    duet.settle();
  }
  /// The engine stands where it has looked for what there is to read, and has read nothing yet. Once.
  void while_it_stands(const std::function<void()>& act) {
    duet.engine->measure(Member{PeerId{77}, "", {}, 7}, [this](const auto&) {
      stands.set_value();
      goes_on.get_future().wait();
    });
    stands.get_future().wait();
    act();
    goes_on.set_value();
  }

  std::promise<void> stands;
  std::promise<void> goes_on;
  Duet duet{2};
  std::shared_ptr<std::atomic<int>> reads = std::make_shared<std::atomic<int>>(0);
  Outcomes outcomes;
  std::vector<float> output = std::vector<float>(32);
};

}  // namespace

/// Its other end says nothing more, so that nothing but what it has brought can wake it.
BOOST_AUTO_TEST_CASE(what_has_come_along_with_a_greeting_is_read) {
  AnotherLane lane;
  lane.while_it_stands([&] {
    lane.duet.greet(7, 0, 2);
    lane.duet.send_all(2);
  });
  BOOST_REQUIRE(lane.outcomes.wait_for_all(1));
  BOOST_TEST(lane.outcomes.all().at(0).stats.has_value());
}

BOOST_AUTO_TEST_CASE(a_stream_that_has_not_greeted_is_not_tried_before_something_comes) {
  AnotherLane lane;
  const int tried = *lane.reads;
  BOOST_TEST(tried > 0);
  for (int turns = 0; turns < 10; ++turns) lane.duet.settle();
  BOOST_TEST(*lane.reads == tried);
}

/// Else the engine would hear of its end again and again, and never sleep.
BOOST_AUTO_TEST_CASE(a_stream_that_waits_for_its_lane_is_let_go_of_when_it_is_reset) {
  Duet duet(2);
  auto [near, far] = tcp_pair();
  duet.socket = near;
  std::promise<void> ended;
  const auto reads = std::make_shared<std::atomic<int>>(0);
  const int there = far->fd();
  duet.engine->adopt(
      std::make_unique<GreedyChannel>(std::move(far), reads, std::shared_ptr<void>(nullptr, [&](void*) { ended.set_value(); })));
  duet.greet(6, 1, 2);
  Outcomes outcomes;
  std::vector<float> output(32);
  duet.start(1, output, outcomes);
  for (int unread = 1; unread > 0;) {
    duet.settle();
    BOOST_REQUIRE(::ioctl(there, FIONREAD, &unread) == 0);
  }
  duet.settle();
  const linger at_once{1, 0};
  BOOST_REQUIRE(::setsockopt(near->fd(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once) == 0);
  duet.socket = nullptr;
  near = nullptr;
  BOOST_TEST((ended.get_future().wait_for(PATIENCE) == std::future_status::ready));
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

/// A channel of which the test says what its reads find.
class ToldChannel final : public net::Channel {
 public:
  enum class Reads { Bytes, Nothing, OneHeaderForEver };
  using Told = std::shared_ptr<std::atomic<Reads>>;
  /// When this one has ended, `first` finds bytes again.
  ToldChannel(SocketPtr socket, Told told, Told first = nullptr)
      : plain_(std::move(socket), OTHER), told_(std::move(told)), first_(std::move(first)) {}
  Io read(std::span<std::byte> into) override {
    if (*told_ == Reads::Nothing) return {State::WantRead, 0};
    if (*told_ == Reads::OneHeaderForEver) {
      FrameHeader header;
      header.kind = PieceKind::Vote;
      header.op = op(0);
      header.world = 2;
      header.payload_checksum = checksum({});
      const auto bytes = encode(header);
      for (auto& byte : into) byte = bytes[at_++ % bytes.size()];
      return {State::Ok, into.size()};
    }
    const Io found = plain_.read(into);
    if (found.state == State::Closed && first_) *first_ = Reads::Bytes;
    return found;
  }
  Io write(std::span<const std::byte> from) override { return plain_.write(from); }
  [[nodiscard]] std::size_t buffered() const override { return 0; }
  [[nodiscard]] int fd() const override { return plain_.fd(); }
  [[nodiscard]] PeerId peer() const override { return OTHER; }
  void shutdown() noexcept override { plain_.shutdown(); }

 private:
  PlainChannel plain_;
  Told told_;
  Told first_;
  std::size_t at_ = 0;
};

/// Two streams of which the test says what is read on the first one, until the second one has ended if that one `gives_back`.
struct EndsApart {
  explicit EndsApart(bool votes, bool gives_back = true) {
    duet.vote = votes;
    connect(std::make_shared<std::atomic<ToldChannel::Reads>>(), gives_back ? first : nullptr);
    duet.second = duet.socket;
    duet.greet(7, 1, 2);
    connect(first);
    duet.greet(7, 0, 2);
  }
  void connect(ToldChannel::Told told, ToldChannel::Told other = nullptr) {
    auto [near, far] = tcp_pair();
    duet.socket = near;
    duet.engine->adopt(std::make_unique<ToldChannel>(std::move(far), std::move(told), std::move(other)));
  }
  FrameHeader receive_until(PieceKind kind) {
    auto header = duet.receive(&payload);
    while (header && header->kind != kind) header = duet.receive(&payload);
    BOOST_REQUIRE(header.has_value());
    duet.agreement = header->agreement;
    return *header;
  }
  /// An operation that lacks nothing but our vote; the engine's is in `payload`.
  void begin() {
    duet.start(1, output, outcomes);
    receive_until(PieceKind::Begin);
    duet.send_all(1);
    receive_until(PieceKind::Vote);
  }
  void vote(std::uint64_t sequence, std::span<const std::byte> digest) {
    auto header = duet.frame(sequence, PieceKind::Vote);
    header.payload_bytes = static_cast<std::uint32_t>(digest.size());
    header.payload_checksum = checksum(digest);
    duet.send_bytes(encode(header));
    duet.send_bytes(digest);
  }
  void end_the_second() { ::shutdown(std::exchange(duet.second, nullptr)->fd(), SHUT_RDWR); }

  Duet duet{2};
  ToldChannel::Told first = std::make_shared<std::atomic<ToldChannel::Reads>>();
  Outcomes outcomes;
  std::vector<float> output = std::vector<float>(32);
  std::vector<std::byte> payload;
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_vote_that_came_before_the_end_of_another_stream_counts) {
  EndsApart lane{true};
  lane.begin();
  *lane.first = ToldChannel::Reads::Nothing;
  lane.vote(1, lane.payload);
  lane.end_the_second();
  BOOST_REQUIRE(lane.outcomes.wait_for_all(1));
  BOOST_TEST(lane.outcomes.all().at(0).stats.has_value());
}

BOOST_AUTO_TEST_CASE(who_commits_after_the_end_of_another_stream_has_told_its_own_vote) {
  EndsApart lane{true};
  lane.begin();
  const auto digest = lane.payload;
  lane.vote(1, digest);
  BOOST_REQUIRE(lane.outcomes.wait_for_all(1));
  Outcomes outcomes;
  std::vector<float> output(32);
  lane.duet.start(2, output, outcomes);
  lane.duet.send(lane.duet.frame(2, PieceKind::Begin));
  lane.duet.send(lane.duet.frame(2, PieceKind::Input), std::vector<float>(16, 3.0F));
  lane.receive_until(PieceKind::Result);
  *lane.first = ToldChannel::Reads::Nothing;
  lane.duet.send(lane.duet.frame(2, PieceKind::Result), std::vector<float>(16, 4.0F));
  lane.vote(2, digest);
  lane.end_the_second();
  BOOST_TEST((lane.receive_until(PieceKind::Vote).op == op(2)));
  BOOST_REQUIRE(outcomes.wait_for_all(1));
  BOOST_TEST(outcomes.all().at(0).stats.has_value());
}

BOOST_AUTO_TEST_CASE(a_lane_that_has_lost_a_stream_ends_whatever_its_first_one_says) {
  for (const auto reads : {ToldChannel::Reads::Nothing, ToldChannel::Reads::OneHeaderForEver}) {
    EndsApart lane{false, false};
    lane.duet.play_first();
    *lane.first = reads;
    lane.end_the_second();
    BOOST_TEST(!lane.duet.receive().has_value());
  }
}

BOOST_AUTO_TEST_SUITE_END()

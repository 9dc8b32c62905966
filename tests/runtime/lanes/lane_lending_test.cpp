// Owns the tests of engines that use inputs where shared memory has them, while nothing but frames makes anything happen: the clock stands.
#include <array>
#include <boost/test/unit_test.hpp>
#include <sys/socket.h>

#include "runtime/lanes/stream.hpp"
#include "runtime/net/memory_channel.hpp"
#include "runtime/net/shared_region.hpp"
#include "tests/runtime/lanes/cluster.hpp"

using namespace prime;
using namespace prime::lanes;
using namespace prime::lanes::test;

namespace {

constexpr std::size_t WORLD = 3;
constexpr std::size_t ELEMENTS = WORLD * 64 * 1024;  // a chunk of 256 KiB for each owner

/// Three engines whose lanes are there from the start, and on which time stands still.
struct Trio {
  Trio() {
    view.epoch = Epoch{1};
    for (std::uint64_t rank = 0; rank < WORLD; ++rank) view.members.push_back(Member{PeerId{rank + 1}, "", {}, rank});
    for (std::size_t rank = 0; rank < WORLD; ++rank) {
      EngineOptions options;
      options.self = view.members[rank].id;
      options.now = [now = monotonic_now()] { return now; };
      options.on_chunk = [this, rank](OperationId op, std::uint64_t, std::uint64_t) { steps.put(rank, op); };
      engines[rank] = std::make_unique<LaneEngine>(std::move(options));
    }
    for (std::size_t a = 0; a < WORLD; ++a)
      for (std::size_t b = a + 1; b < WORLD; ++b) join(a, b);
  }
  void join(std::size_t a, std::size_t b) {
    std::array<int, 2> ends{};
    BOOST_REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0);
    const auto bell = [&](std::size_t end, std::size_t peer) {
      return std::make_unique<PlainChannel>(std::make_shared<Socket>(ends[end]), view.members[peer].id);
    };
    auto offered = net::MemoryChannel::offer(bell(0, b));
    BOOST_REQUIRE(offered.has_value());
    engines[a]->adopt(std::move(*offered));
    engines[b]->adopt(net::MemoryChannel::accept(bell(1, a)));
  }
  void start(std::size_t rank, std::uint64_t tag) {
    ReduceRequest request;
    request.op = OperationId{Epoch{1}, Sequence{1}, Tag{tag}};
    request.view = view;
    request.self = view.members[rank].id;
    for (const auto& member : view.members) request.contributions.push_back({member.id, 1});
    request.input = std::as_bytes(std::span{inputs[rank]});
    request.output = std::as_writable_bytes(std::span{outputs[tag][rank]});
    request.deadline = PATIENCE;
    request.schedule = Schedule::Direct;
    request.vote = true;
    engines[rank]->start(std::move(request), [ended = ended, key = tag * WORLD + rank](ReduceOutcome each) { ended.put(key, each); });
  }

  /// Of which operations chunks have come, by rank.
  class Steps {
   public:
    void put(std::size_t rank, OperationId op) {
      const std::lock_guard lock(mutex_);
      ++steps_[{rank, op.tag.value}];
      changed_.notify_all();
    }
    bool wait(std::size_t rank, std::uint64_t tag) {
      std::unique_lock lock(mutex_);
      return changed_.wait_for(lock, PATIENCE, [&] { return steps_.contains({rank, tag}); });
    }

   private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::map<std::pair<std::size_t, std::uint64_t>, int> steps_;
  };

  View view;
  Steps steps;
  Outcomes ended;
  std::vector<std::vector<float>> inputs{WORLD, std::vector<float>(ELEMENTS, 2.0F)};
  std::array<std::vector<std::vector<float>>, 2> outputs{std::vector(WORLD, std::vector<float>(ELEMENTS)),
                                                         std::vector(WORLD, std::vector<float>(ELEMENTS))};
  std::array<std::unique_ptr<LaneEngine>, WORLD> engines;
};

}  // namespace

/// Rank 0 has an input of one reduce from rank 1 and of the other one from rank 2: what each of them lacks lies behind the other one.
BOOST_FIXTURE_TEST_CASE(inputs_that_wait_for_each_other_are_copied_out_of_the_way, Trio) {
  for (const std::uint64_t tag : {0, 1}) start(0, tag);
  start(1, 0);
  start(2, 1);
  for (const std::uint64_t tag : {0, 1}) BOOST_REQUIRE(steps.wait(0, tag));
  start(1, 1);
  start(2, 0);
  BOOST_REQUIRE(ended.wait_for_all(2 * WORLD));
  for (const auto& [key, outcome] : ended.all()) BOOST_TEST(outcome.stats.has_value());
  for (const auto& of_tag : outputs)
    for (const auto& output : of_tag) BOOST_TEST((output == std::vector<float>(ELEMENTS, 2.0F)));
}

namespace {

/// An engine of rank 1 of 2, and the other end of its lane, through which the test plays rank 0: its tensors lie in a region.
struct Reading {
  static constexpr std::size_t HALF = 64 * 1024;
  Reading() {
    EngineOptions options;
    options.self = PeerId{2};
    options.now = [this] {
      const std::lock_guard still(standing);
      return monotonic_now();
    };
    engine = std::make_unique<LaneEngine>(std::move(options));
    std::array<int, 2> ends{};
    BOOST_REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) == 0);
    const auto bell = [&](std::size_t end, std::uint64_t peer) {
      return std::make_unique<PlainChannel>(std::make_shared<Socket>(ends[end]), PeerId{peer});
    };
    engine->adopt(net::MemoryChannel::offer(bell(0, 1)).value());
    other.emplace(net::MemoryChannel::accept(bell(1, 2)));
    engine->share(own);
  }
  void start(std::uint64_t sequence) {
    ReduceRequest request;
    request.op = OperationId{Epoch{1}, Sequence{sequence}, Tag{}};
    request.view = View{Epoch{1}, {Member{PeerId{1}, "", {}, 0}, Member{PeerId{2}, "", {}, 1}}};
    request.self = PeerId{2};
    request.contributions = {{PeerId{1}, 1}, {PeerId{2}, 1}};
    request.input = std::as_bytes(std::span{input});
    request.output = std::as_writable_bytes(std::span{output});
    request.deadline = PATIENCE;
    request.schedule = Schedule::Direct;
    request.vote = vote;
    engine->start(std::move(request), [ended = ended, sequence](ReduceOutcome each) { ended.put(sequence, std::move(each)); });
  }
  /// Whether only the place of its payload was sent.
  bool send(FrameHeader header, PieceKind kind, std::uint16_t segment, std::span<const float> payload, std::uint64_t checksum_of_it) {
    header.kind = kind;
    header.segment = segment;
    header.payload_bytes = static_cast<std::uint32_t>(payload.size_bytes());
    header.payload_checksum = checksum_of_it;
    other->send(Frame{header, std::as_bytes(payload), nullptr}, payload.empty() ? nullptr : region);
    const bool elsewhere = other->sending_header().elsewhere;
    while (other->sending()) {
      (void)other->write();
      other->polled(POLLIN | POLLOUT);
    }
    return elsewhere;
  }
  /// The next frame of this kind; what else comes is passed over.
  FrameHeader await(PieceKind kind, std::vector<std::byte>* payload = nullptr) {
    for (;;)
      if (const FrameHeader header = await_any(payload); header.kind == kind) return header;
  }
  FrameHeader await_any(std::vector<std::byte>* payload = nullptr) {
    std::array<std::byte, 4096> bin{};
    for (;;) {
      const auto step = other->read(bin);
      BOOST_REQUIRE_MESSAGE(step != Stream::ReadStep::Lost, (other->error() ? to_string(*other->error()) : ""));
      if (step == Stream::ReadStep::Blocked) {
        pollfd fd{other->fd(), POLLIN, 0};
        BOOST_REQUIRE(::poll(&fd, 1, 120'000) == 1);
        other->polled(POLLIN | POLLOUT);
      }
      if (step != Stream::ReadStep::Header) continue;
      const FrameHeader header = other->header();
      if (payload == nullptr || header.elsewhere) {
        other->discard();
        return header;
      }
      payload->resize(header.payload_bytes);
      other->receive(Reception{header, *payload, nullptr});
      while (other->read(bin) != Stream::ReadStep::Payload) other->polled(POLLIN);
      return header;
    }
  }
  /// Which payloads of a reduce were read where they lie.
  struct Seen {
    bool its_input = false;
    bool its_result = false;
    bool own_input = false;
    bool own_result = false;
  };
  /// The part of rank 0, whose result is 2 throughout, or what it has overwritten it with.
  Seen play(std::uint64_t sequence, float result = 2.0F) {
    const std::vector<float> right(HALF, 2.0F);
    start(sequence);
    const FrameHeader begin = await(PieceKind::Begin);
    const auto tensor = values_of(*region);
    std::ranges::fill(tensor, 3.0F);
    send(begin, PieceKind::Begin, 0, {}, checksum({}));
    Seen seen;
    seen.its_input = send(begin, PieceKind::Input, 1, tensor.last(HALF), 0);
    std::map<PieceKind, FrameHeader> came;
    while (!came.contains(PieceKind::Input) || !came.contains(PieceKind::Result)) {
      const FrameHeader header = await_any();
      came[header.kind] = header;
    }
    seen.own_input = came[PieceKind::Input].elsewhere;
    seen.own_result = came[PieceKind::Result].elsewhere;
    std::ranges::fill(tensor.first(HALF), result);
    seen.its_result = send(begin, PieceKind::Result, 0, tensor.first(HALF), checksum(std::as_bytes(std::span{right})));
    return seen;
  }
  /// Ends a reduce that is played with the vote of rank 0; whether all has come out right.
  bool commit(std::uint64_t sequence) {
    if (vote) {
      std::vector<std::byte> digest;
      FrameHeader header = await(PieceKind::Vote, &digest);
      other->send(Frame{header, digest, nullptr});
      while (other->sending()) (void)other->write();
    }
    return ended.wait([&](const auto& all) { return all.contains(sequence); }) && ended.all().at(sequence).stats.has_value() &&
           output == std::vector<float>(2 * HALF, 2.0F);
  }
  /// Each end reads in the other one's memory once it has said so. Returns the sequence of the next reduce.
  std::uint64_t until_both_read() {
    for (std::uint64_t sequence = 1; sequence < 1000; ++sequence) {
      const auto seen = play(sequence);
      BOOST_REQUIRE(commit(sequence));
      if (seen.its_input && seen.own_input) return sequence + 1;
    }
    BOOST_FAIL("none reads in the other one's memory");
    return 0;
  }

  static std::shared_ptr<net::SharedRegion> region_of(float value) {
    auto region = net::SharedRegion::make(2 * HALF * sizeof(float)).value();
    std::ranges::fill(values_of(*region), value);
    return region;
  }
  static std::span<float> values_of(const net::SharedRegion& region) { return {reinterpret_cast<float*>(region.bytes().data()), 2 * HALF}; }

  std::mutex standing;  ///< whoever holds it stops the engine when it looks at its clock
  bool vote = true;
  std::shared_ptr<net::SharedRegion> own = region_of(1.0F);
  std::span<float> input = values_of(*own);
  std::vector<float> output = std::vector<float>(2 * HALF);
  Outcomes ended;
  std::unique_ptr<LaneEngine> engine;
  std::shared_ptr<net::SharedRegion> region = region_of(3.0F);
  std::optional<Stream> other;
};

}  // namespace

/// Who gives a reduce up is told its memory is free, and may write to it before the others have heard.
BOOST_FIXTURE_TEST_CASE(a_result_that_its_sender_has_overwritten_ends_the_reduce_and_not_the_lane, Reading) {
  const std::uint64_t sequence = until_both_read();
  const auto seen = play(sequence, 7.0F);
  BOOST_TEST((seen.its_input && seen.its_result && seen.own_input && !seen.own_result));  // the output is no region
  BOOST_REQUIRE(ended.wait([&](const auto& all) { return all.contains(sequence); }));
  const auto outcome = ended.all().at(sequence);
  BOOST_REQUIRE(!outcome.stats.has_value());
  BOOST_TEST((outcome.stats.error().name == ErrorName::LaneBroken));
  BOOST_TEST(outcome.stats.error().detail.find("damaged") == std::string::npos, to_string(outcome.stats.error()));
  BOOST_TEST((outcome.suspect == PeerId{1}));
  (void)play(sequence + 1);  // over the same lane
  BOOST_TEST(commit(sequence + 1));
}

/// It may free it, too, and share other memory by the same number.
BOOST_FIXTURE_TEST_CASE(a_result_whose_memory_is_gone_ends_the_reduce_and_not_the_lane, Reading) {
  const std::uint64_t sequence = until_both_read();
  start(sequence);
  const FrameHeader begin = await(PieceKind::Begin);
  send(begin, PieceKind::Begin, 0, {}, checksum({}));
  std::unique_lock stands_still(standing);  // the engine, so that it hears of the new memory before it reads where the old one was
  BOOST_TEST(send(begin, PieceKind::Result, 0, values_of(*region).first(HALF), 1));
  region = region_of(3.0F);
  (void)send(begin, PieceKind::Input, 1, values_of(*region).last(HALF), 0);
  stands_still.unlock();
  BOOST_REQUIRE(ended.wait([&](const auto& all) { return all.contains(sequence); }));
  const auto outcome = ended.all().at(sequence);
  BOOST_REQUIRE(!outcome.stats.has_value());
  BOOST_TEST(outcome.stats.error().detail.find("has given the reduce up") != std::string::npos, to_string(outcome.stats.error()));
  (void)play(sequence + 1);
  BOOST_TEST(commit(sequence + 1));
}

/// Who asks how a reduce has ended may have sent its input as a place: the answer has none.
BOOST_FIXTURE_TEST_CASE(what_comes_too_late_from_elsewhere_is_answered, Reading) {
  const std::uint64_t sequence = until_both_read();
  start(sequence);
  const FrameHeader begin = await(PieceKind::Begin);
  engine->abort(begin.op, "the test says so");
  BOOST_REQUIRE(ended.wait([&](const auto& all) { return all.contains(sequence); }));
  send(begin, PieceKind::Begin, 0, {}, checksum({}));
  BOOST_TEST(send(begin, PieceKind::Input, 1, values_of(*region).last(HALF), 0));
  for (int answers = 0; answers < 2; ++answers) (void)await(PieceKind::Aborted);
  (void)play(sequence + 1);
  BOOST_TEST(commit(sequence + 1));
}

/// Without a vote a rank may have ended well, and write to its tensors, while others still read what it has sent.
BOOST_FIXTURE_TEST_CASE(without_a_vote_nobody_reads_in_the_memory_of_another_one, Reading) {
  vote = false;
  for (std::uint64_t sequence = 1; sequence < 20; ++sequence) {
    BOOST_TEST(!play(sequence).own_input);
    BOOST_REQUIRE(commit(sequence));
  }
}

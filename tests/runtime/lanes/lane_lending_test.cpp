// Owns the tests of engines that use inputs where shared memory has them, while nothing but frames makes anything happen: the clock stands.
#include <array>
#include <boost/test/unit_test.hpp>
#include <sys/socket.h>

#include "runtime/net/memory_channel.hpp"
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

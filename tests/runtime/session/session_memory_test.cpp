// Owns the tests of the memory that a session gives, and of copied tensors.
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <fcntl.h>
#include <future>
#include <sys/mman.h>
#include <unistd.h>

#include "prime/session.hpp"
#include "runtime/session/arena.hpp"
#include "tests/runtime/session/door.hpp"
#include "tests/runtime/session/test_agent.hpp"

using namespace prime;
using namespace prime::test;

namespace {

std::span<float> span_of(const std::shared_ptr<float[]>& memory, std::size_t count) { return {memory.get(), count}; }
std::span<const std::byte> bytes_of(std::span<float> values) { return std::as_bytes(values); }

/// Descends as `ByHand`, on two tensors of 4 and 5 values.
struct Descent {
  std::span<float> first;
  std::span<float> second;

  void begin() const {
    const auto values = initial_values(9, 1.0F);
    std::ranges::copy(std::span{values}.first(4), first.begin());
    std::ranges::copy(std::span{values}.last(5), second.begin());
  }
  void bind_to(Session& session) const {
    must(session.bind({"first", {4}, first}));
    must(session.bind({"second", {5}, second}));
  }
  [[nodiscard]] Result<std::vector<Committed>> step(Session& session) const {
    for (const auto& values : {first, second}) {
      std::vector<float> own(values.begin(), values.end());
      descend(own);
      std::ranges::copy(own, values.begin());
    }
    return session.report({.loss = 1.0, .tokens = 1});
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(session_memory)

BOOST_AUTO_TEST_CASE(pieces_lie_one_behind_the_other_and_those_at_the_end_are_given_again) {
  auto arena = Arena::create().value();
  auto a = arena.take(3).value();
  auto b = arena.take(1).value();
  auto c = arena.take(5).value();
  BOOST_TEST((b.get() == a.get() + 3 && c.get() == b.get() + 1));
  BOOST_TEST(arena.find(bytes_of(span_of(c, 5)))->first == 4U);
  BOOST_TEST(!arena.has_given_back());
  c[0] = 7;
  const auto where = span_of(c, 5);
  b.reset();
  BOOST_TEST((arena.has_given_back() && !arena.find(bytes_of(where))->given_back));
  BOOST_TEST(arena.find(bytes_of(span_of(a, 4)))->given_back);
  c.reset();
  BOOST_TEST(arena.find(bytes_of(where))->given_back);
  auto d = arena.take(2).value();
  BOOST_TEST((d.get() == a.get() + 3 && d[0] == 0 && d[1] == 0));
  std::array<float, 2> elsewhere{};
  BOOST_TEST(!arena.find(bytes_of(elsewhere)));
  BOOST_TEST((arena.take(std::uint64_t{1} << 60U).error().name == ErrorName::MemoryUnavailable));
  BOOST_TEST((arena.take(0).error().name == ErrorName::Usage));
}

BOOST_AUTO_TEST_CASE(what_is_published_is_read_where_it_lies) {
  for (const bool in_order : {true, false}) {
    Door door;
    TestAgent agent;
    auto client = std::async(std::launch::async, [in_order] {
      auto session = Session::attach().value();
      auto second = in_order ? std::shared_ptr<float[]>{} : session.allocate(5).value();
      auto first = session.allocate(4).value();
      if (in_order) second = session.allocate(5).value();
      const Descent trainer{span_of(first, 4), span_of(second, 5)};
      trainer.begin();
      trainer.bind_to(session);
      while (session.next().value()) trainer.step(session).value();
      std::vector<float> values(first.get(), first.get() + 4);
      values.insert(values.end(), second.get(), second.get() + 5);
      return values;
    });
    agent.adopt(door.let_in());
    agent.seat();
    BOOST_TEST(agent.shares == in_order);
    ByHand expected{initial_values(9, 1.0F)};
    for (int i = 0; i < 3; ++i) {
      agent.step();
      expected.step(TestAgent::INNER_STEPS);
    }
    agent.finish();
    BOOST_TEST(client.get() == expected.values, boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(memory_that_was_given_back_or_has_another_tensor_is_refused_by_name) {
  Door door;
  TestAgent agent;
  auto client = std::async(std::launch::async, [] {
    auto session = Session::attach().value();
    auto memory = session.allocate(9).value();
    const Descent trainer{span_of(memory, 4), std::span{memory.get() + 4, 5}};
    trainer.begin();
    trainer.bind_to(session);
    std::vector<std::string> said;
    auto gone = session.allocate(3).value();
    const auto was = span_of(gone, 3);
    gone.reset();
    said.push_back(session.bind({"gone", {3}, was}, Role::Private).error().detail);
    said.push_back(session.bind({"twice", {2}, std::span{memory.get() + 3, 2}}, Role::Private).error().detail);
    session.next().value();
    said.push_back(session.allocate(3).error().detail);
    memory.reset();
    for (std::uint32_t i = 1; i < TestAgent::INNER_STEPS; ++i) {
      session.report({.loss = 1.0, .tokens = 1}).value();
      session.next().value();
    }
    said.push_back(session.report({.loss = 1.0, .tokens = 1}).error().detail);
    return said;
  });
  agent.adopt(door.let_in());
  agent.seat();
  agent.begin();
  const std::vector<std::string> expected{"`gone` lies in memory of `allocate` that was given back",
                                          "`twice` lies where `first` does, in memory of `allocate`",
                                          "memory is given before the first step", "`first` is bound, and its memory was given back"};
  BOOST_TEST(client.get() == expected, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(memory_that_a_trainer_could_make_shorter_is_refused) {
  const auto layout = make_layout({{"x", {5}}}).value();
  auto state = OuterState::create(layout, {}).value();
  const Descriptor open(::memfd_create("open", MFD_CLOEXEC));
  BOOST_REQUIRE(::ftruncate(open.number(), 4096) == 0);
  BOOST_TEST((state.begin_life({}, &open).error().name == ErrorName::TrainerProtocol));
  const auto sealed = create_memory_file("short", 4 * sizeof(float)).value();
  BOOST_TEST(!state.begin_life({}, &sealed));
  BOOST_TEST(state.begin_life({}, nullptr).has_value());
}

BOOST_AUTO_TEST_CASE(copied_tensors_are_brought_and_given_and_kept_in_records) {
  TestAgent agent;
  std::vector<std::vector<std::int64_t>> seen;
  for (int life = 0; life < 2; ++life) {
    Door door;
    auto client = std::async(std::launch::async, [life] {
      auto session = Session::attach().value();
      auto values = initial_values(9, 1.0F);
      const Descent trainer{std::span{values}.first(4), std::span{values}.last(5)};
      std::vector<std::int64_t> count{100 + life};
      std::vector<std::int64_t> own{0};
      trainer.bind_to(session);
      must(session.bind({"own", {1}, own}, Role::Private));
      must(session.bind({"count", {1}, count}, Role::Copied));
      std::vector<std::int64_t> begins;
      for (int i = 0; i < 4; ++i) {
        if (!session.next().value()) break;
        begins.push_back(count[0]);
        ++count[0];
        trainer.step(session).value();
      }
      return begins;
    });
    agent.adopt(door.let_in());
    agent.seat();
    std::int64_t brought = 0;
    std::memcpy(&brought, agent.brought.data(), sizeof brought);
    BOOST_TEST(brought == 100 + life);
    if (life == 0) {
      const std::int64_t donors = 40;
      agent.copied.resize(64);
      std::memcpy(agent.copied.data(), &donors, sizeof donors);
    }
    agent.step();
    agent.begin();
    seen.push_back(client.get());
    agent.host.reset();
    agent.events.clear();
  }
  BOOST_TEST(seen[0] == (std::vector<std::int64_t>{40, 41, 42, 43}), boost::test_tools::per_element());
  BOOST_TEST(seen[1] == (std::vector<std::int64_t>{43, 44, 45, 46}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_SUITE_END()

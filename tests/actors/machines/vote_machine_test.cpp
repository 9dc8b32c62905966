// Owns the proof of the vote: whatever rank is lost, or whatever one connection, at whatever point, the survivors all commit or all
// abort, and none waits for ever. The machines that ship run over seeded networks.
#include "actors/reduce_worker/vote_machine.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <deque>
#include <optional>
#include <random>

using namespace prime;

namespace {

const Error CAUSE{ErrorName::PeerLost, "the test says so"};

struct Network {
  struct Message {
    vote::Word word;
    Digest digest;
    vote::Ranks lost;
  };
  explicit Network(std::uint32_t world, std::uint64_t seed)
      : random(seed), links(world * world), alive(world, true), down(world * world), noticed(world * world), completed(world) {
    for (std::uint32_t r = 0; r < world; ++r) states.push_back(vote::start(r, world));
  }
  [[nodiscard]] std::uint32_t world() const { return static_cast<std::uint32_t>(states.size()); }
  [[nodiscard]] std::size_t link(std::uint32_t from, std::uint32_t to) const { return from * world() + to; }

  void apply(std::uint32_t rank, vote::Transition transition) {
    const auto before = states[rank].phase;
    states[rank] = std::move(transition.state);
    const auto after = states[rank].phase;
    if (before == vote::Phase::Committed || before == vote::Phase::Aborted) BOOST_REQUIRE((before == after));
    for (const auto& saying : transition.sayings)
      for (std::uint32_t to = 0; to < world(); ++to)
        if (to != rank && (saying.to ? *saying.to == to : !states[rank].lost[to]) && !down[link(rank, to)])
          links[link(rank, to)].push_back({saying.word, states[rank].own, states[rank].lost});
  }
  void complete(std::uint32_t rank) {
    completed[rank] = true;
    apply(rank, vote::complete(states[rank], Digest{1, odd_one == rank ? 3U : 2U}));
  }
  void deliver(std::uint32_t from, std::uint32_t to) {
    const Message message = links[link(from, to)].front();
    links[link(from, to)].pop_front();
    switch (message.word) {
      case vote::Word::Vote: return apply(to, vote::vote_from(states[to], from, message.digest));
      case vote::Word::Doubt: return apply(to, vote::doubt_from(states[to], from, message.lost));
      case vote::Word::Committed: return apply(to, vote::committed_by(states[to], from));
      case vote::Word::Aborted: return apply(to, vote::aborted_by(states[to], from));
    }
  }
  /// What is on its way may still arrive in part, then both ends hear of it.
  void cut(std::uint32_t a, std::uint32_t b) {
    for (const auto each : {link(a, b), link(b, a)}) {
      down[each] = true;
      auto& queue = links[each];
      queue.resize(random() % (queue.size() + 1));
    }
  }
  void kill(std::uint32_t rank) {
    alive[rank] = false;
    for (std::uint32_t other = 0; other < world(); ++other)
      if (other != rank && !down[link(rank, other)]) cut(rank, other);
  }
  /// It neither says nor hears anything any more, and nobody is told.
  void freeze(std::uint32_t rank) { alive[rank] = false; }
  void notice(std::uint32_t rank, std::uint32_t other) {
    noticed[link(other, rank)] = true;
    apply(rank, vote::lost(states[rank], other, CAUSE));
  }
  /// One thing that can happen next, at random; false when nothing can.
  bool step() {
    possible.clear();
    for (std::uint32_t a = 0; a < world(); ++a) {
      if (!alive[a]) continue;
      // A result takes the inputs of all: nobody completes it after one has given up.
      if (!completed[a] && states[a].phase == vote::Phase::Reducing) possible.push_back({Act::Complete, a, a});
      for (std::uint32_t b = 0; b < world(); ++b) {
        if (a == b) continue;
        if (!links[link(b, a)].empty()) possible.push_back({Act::Deliver, a, b});
        else if (down[link(b, a)] && !noticed[link(b, a)]) possible.push_back({Act::Notice, a, b});
      }
    }
    if (possible.empty()) return false;
    const auto [kind, a, b] = possible[random() % possible.size()];
    if (kind == Act::Complete) complete(a);
    else if (kind == Act::Deliver) deliver(b, a);
    else notice(a, b);
    return true;
  }
  void check() {
    std::size_t committed = 0;
    std::size_t aborted = 0;
    for (std::uint32_t r = 0; r < world(); ++r) {
      if (!alive[r]) continue;
      if (states[r].phase == vote::Phase::Committed) ++committed;
      else if (states[r].phase == vote::Phase::Aborted) ++aborted;
      else BOOST_REQUIRE_MESSAGE(false, "rank " << r << " waits for ever in phase " << static_cast<int>(states[r].phase));
    }
    BOOST_REQUIRE_MESSAGE(committed == 0 || aborted == 0, committed << " committed and " << aborted << " aborted");
    (committed > 0 ? commits : aborts) = true;
  }

  std::mt19937_64 random;
  std::vector<vote::State> states;
  std::vector<std::deque<Message>> links;
  std::vector<bool> alive;
  std::vector<bool> down;
  std::vector<bool> noticed;  ///< by the receiver
  std::vector<bool> completed;
  struct Act {
    enum { Complete, Deliver, Notice } kind;
    std::uint32_t rank;
    std::uint32_t other;
  };
  std::vector<Act> possible;  ///< in this step; here, since there are millions of them
  std::optional<std::uint32_t> odd_one;
  bool commits = false;
  bool aborts = false;
};

// The sanitizer watches the same code at work for fewer seeds.
#if defined(__SANITIZE_ADDRESS__)
constexpr std::uint64_t SEEDS = 6'500;
#else
constexpr std::uint64_t SEEDS = 40'000;
#endif

/// Runs seeds with `disturb` once at a random moment of each; how many ended in which way.
template <class Disturb>
std::pair<int, int> run_seeds(std::uint32_t least_world, Disturb disturb) {
  std::pair<int, int> ends;
  for (std::uint64_t seed = 1; seed <= SEEDS; ++seed) {
    const auto world = least_world + static_cast<std::uint32_t>(seed % 4);
    Network network(world, seed);
    std::vector<std::size_t> moments{network.random() % (world * world * 2)};
    while (moments.size() < 3 && network.random() % 2 == 0) moments.push_back(network.random() % (world * world * 3));
    for (std::size_t count = 0;; ++count) {
      for (std::size_t which = 0; which < moments.size(); ++which)
        if (moments[which] == count) disturb(network, which);
      if (!network.step() && count > world * world * 3) break;
    }
    network.check();
    ++(network.commits ? ends.first : ends.second);
  }
  return ends;
}

}  // namespace

BOOST_AUTO_TEST_CASE(undisturbed_all_commit) {
  const auto [commits, aborts] = run_seeds(1, [](Network&, std::size_t) {});
  BOOST_TEST(aborts == 0);
  BOOST_TEST(commits > 0);
}

BOOST_AUTO_TEST_CASE(survivors_of_any_crashes_agree) {
  const auto [commits, aborts] = run_seeds(2, [](Network& network, std::size_t) {
    const auto victim = static_cast<std::uint32_t>(network.random() % network.world());
    std::size_t living = 0;
    for (const bool each : network.alive) living += each ? 1 : 0;
    if (living > 1 && network.alive[victim]) network.kill(victim);
  });
  BOOST_TEST(commits > 1000);
  BOOST_TEST(aborts > 1000);
}

BOOST_AUTO_TEST_CASE(both_ends_of_a_lost_connection_agree_where_a_third_rank_reaches_them) {
  const auto [commits, aborts] = run_seeds(3, [](Network& network, std::size_t which) {
    if (which > 0) return;
    const auto a = static_cast<std::uint32_t>(network.random() % network.world());
    const auto b = (a + 1 + static_cast<std::uint32_t>(network.random() % (network.world() - 1))) % network.world();
    network.cut(a, b);
  });
  BOOST_TEST(commits > 1000);
  BOOST_TEST(aborts > 1000);
}

BOOST_AUTO_TEST_CASE(one_that_gives_up_ends_it_for_all_unless_all_had_voted) {
  const auto [commits, aborts] = run_seeds(2, [](Network& network, std::size_t) {
    const auto rank = static_cast<std::uint32_t>(network.random() % network.world());
    network.apply(rank, vote::fail(network.states[rank], CAUSE));
  });
  BOOST_TEST(commits > 1000);
  BOOST_TEST(aborts > 1000);
}

BOOST_AUTO_TEST_CASE(another_result_is_never_committed) {
  const auto [commits, aborts] = run_seeds(2, [](Network& network, std::size_t) { network.odd_one = 0; });
  BOOST_TEST(aborts > 1000);
  (void)commits;  // the odd one may have been named only after it had voted like the others
}

/// All that wait miss the deadline, in whatever order; who is named is one that stands still, and where nobody does nobody is.
BOOST_AUTO_TEST_CASE(after_the_deadline_who_does_not_answer_is_named_and_nobody_else) {
  std::size_t named = 0;
  std::size_t unnamed = 0;
  std::size_t divided = 0;
  for (std::uint64_t seed = 1; seed <= SEEDS; ++seed) {
    Network network(2 + static_cast<std::uint32_t>(seed % 4), seed);
    std::optional<std::uint32_t> frozen;
    for (auto steps = network.random() % 20; steps > 0 && network.step();) --steps;
    if (seed % 3 != 0) network.freeze(frozen.emplace(static_cast<std::uint32_t>(network.random() % network.world())));
    // A result takes the inputs of all: with one of them missing nobody completes it, whatever the simulation would allow.
    if (seed % 2 == 0) network.completed.assign(network.world(), true);
    std::vector<std::uint32_t> awake;
    for (std::uint32_t r = 0; r < network.world(); ++r)
      if (network.alive[r]) awake.push_back(r);
    std::ranges::shuffle(awake, network.random);
    const auto each_that_waits = [&](const auto& act) {
      for (const auto rank : awake) {
        if (!vote::is_over(network.states[rank])) act(rank);
        for (auto steps = network.random() % 4; steps > 0 && network.step();) --steps;
      }
      while (network.step()) {
      }
    };
    each_that_waits([&](std::uint32_t rank) { network.apply(rank, vote::overdue(network.states[rank], CAUSE)); });
    each_that_waits([&](std::uint32_t rank) {
      const auto silent = vote::silent(network.states[rank]);
      BOOST_REQUIRE_MESSAGE(silent && !network.alive[*silent], "rank " << rank << " waits, but not for one that stands still");
      BOOST_TEST_REQUIRE(vote::needs(network.states[rank], *silent));
      ++named;
      network.apply(rank, vote::nobody_answers(network.states[rank], CAUSE));
      BOOST_TEST_REQUIRE(vote::is_over(network.states[rank]));
    });
    for (const auto rank : awake) unnamed += vote::is_over(network.states[rank]) && awake.size() == network.world() ? 1 : 0;
    network.check();
    if (!frozen) continue;
    // It goes on, and sees that its own deadline has passed: it ends as the others did, unless it had committed before it stood still.
    const bool had_committed = network.states[*frozen].phase == vote::Phase::Committed;
    network.alive[*frozen] = true;
    network.apply(*frozen, vote::overdue(network.states[*frozen], CAUSE));
    while (network.step()) {
    }
    if (!had_committed) network.check();
    else divided += network.aborts ? 1 : 0;
  }
  BOOST_TEST(divided > 0U);  // who stands still for longer than the others ask counts as lost (docs/INVARIANTS.md)
  BOOST_TEST(named > 1000U);
  BOOST_TEST(unnamed > 1000U);
}

BOOST_AUTO_TEST_CASE(a_rank_that_is_lost_while_it_is_asked_is_not_waited_for) {
  auto state = vote::overdue(vote::start(0, 3), CAUSE).state;
  state = vote::aborted_by(std::move(state), 1).state;
  BOOST_TEST(!vote::is_over(state));
  BOOST_TEST(vote::silent(state).value() == 2U);
  state = vote::lost(std::move(state), 2, CAUSE).state;
  BOOST_TEST(vote::is_over(state));
  BOOST_TEST(!vote::needs(state, 2));
}

/// Whoever has everyone's vote commits, and may leave at once.
BOOST_AUTO_TEST_CASE(a_rank_that_is_lost_after_its_vote_is_here_leaves_no_doubt) {
  const Digest digest{1, 2};
  auto state = vote::complete(vote::start(0, 3), digest).state;
  state = vote::vote_from(std::move(state), 1, digest).state;
  auto lost = vote::lost(std::move(state), 1, CAUSE);
  BOOST_TEST(lost.sayings.empty());
  BOOST_TEST((vote::vote_from(std::move(lost.state), 2, digest).state.phase == vote::Phase::Committed));
}

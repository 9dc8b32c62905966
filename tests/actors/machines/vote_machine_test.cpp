// Owns the proof of the vote: whatever rank is lost, or whatever one connection, at whatever point, the survivors all commit or all
// abort, and none waits for ever. The machines that ship run over seeded networks.
#include "actors/reduce_worker/vote_machine.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <deque>
#include <numeric>
#include <optional>
#include <random>
#include <utility>

using namespace prime;

namespace {

const Error CAUSE{ErrorName::PeerLost, "the test says so"};

struct Network {
  struct Message {
    vote::Word word;
    Digest digest;
    vote::Ranks lost;
    bool asks;
  };
  explicit Network(std::uint32_t world, std::uint64_t seed)
      : random(seed),
        links(world * world),
        alive(world, true),
        down(world * world),
        noticed(world * world),
        completed(world),
        late(world),
        heard(world, vote::Ranks(world)) {
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
          links[link(rank, to)].push_back({saying.word, states[rank].own, states[rank].lost, vote::asks(states[rank])});
  }
  void complete(std::uint32_t rank) {
    completed[rank] = true;
    apply(rank, vote::complete(states[rank], Digest{1, odd_one == rank ? 3U : 2U}, late[rank]));
  }
  void deliver(std::uint32_t from, std::uint32_t to) {
    const Message message = links[link(from, to)].front();
    links[link(from, to)].pop_front();
    heard[to][from] = true;
    switch (message.word) {
      case vote::Word::Vote: return apply(to, vote::vote_from(states[to], from, message.digest, late[to]));
      case vote::Word::Doubt: return apply(to, vote::doubt_from(states[to], from, message.lost, message.asks));
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
  /// It neither says nor hears anything until it thaws, and nobody is told.
  void freeze(std::uint32_t rank) {
    if (alive[rank]) had_committed = states[rank].phase == vote::Phase::Committed;
    alive[rank] = false;
  }
  void thaw(std::uint32_t rank) { alive[rank] = true; }
  void look(std::uint32_t rank) { apply(rank, vote::look(states[rank], std::exchange(heard[rank], vote::Ranks(world())), CAUSE)); }
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
  std::vector<std::optional<Error>> late;  ///< the rank's deadline has passed
  std::vector<vote::Ranks> heard;          ///< by the receiver, since it looked last
  struct Act {
    enum { Complete, Deliver, Notice } kind;
    std::uint32_t rank;
    std::uint32_t other;
  };
  std::vector<Act> possible;  ///< in this step; here, since there are millions of them
  std::optional<std::uint32_t> odd_one;
  bool had_committed = false;  ///< the frozen one, before it was
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

/// A second of all: who is awake looks once if it must, and all that had been said before is heard. `stops`: one that is frozen meanwhile.
void pass_second(Network& network, std::optional<std::uint32_t> stops = {}) {
  std::vector<std::uint32_t> ranks(network.world());
  std::iota(ranks.begin(), ranks.end(), 0U);
  std::ranges::shuffle(ranks, network.random);
  std::vector<std::uint32_t> looks;  // a word that came may have made it look
  for (const auto& state : network.states) looks.push_back(state.looks);
  for (const auto rank : ranks) {
    for (auto steps = network.random() % 4; steps > 0 && network.step();) --steps;
    const auto& state = network.states[rank];
    const bool must = (network.late[rank] || looks[rank] > 0) && !vote::is_over(state) && state.looks == looks[rank];
    if (must && network.alive[rank]) network.look(rank);
    if (stops && network.random() % network.world() == 0) network.freeze(*stops);
  }
  if (stops) network.freeze(*stops);
  while (network.step()) {
  }
}

/// One that stands still from `stops` until `goes_on`, in seconds, or does not.
struct Freeze {
  std::uint32_t one = 0;
  std::uint64_t stops = 0;
  std::uint64_t goes_on = 0;
};

/// `deadlines` in seconds, by rank; then time enough for all looks.
constexpr std::uint64_t EARLIEST = 2;
constexpr std::uint64_t LOOKING = 4 * vote::LOOKS;

void play(Network& network, const std::vector<std::uint64_t>& deadlines, const Freeze& freeze, std::optional<Freeze> crash) {
  for (std::uint64_t second = 0; second < std::ranges::max(deadlines) + LOOKING; ++second) {
    if (crash && second == crash->stops) network.kill(crash->one);
    for (std::uint32_t r = 0; r < network.world(); ++r)
      if (second == deadlines[r]) network.late[r] = CAUSE;
    if (second == freeze.goes_on) network.thaw(freeze.one);
    if (second >= EARLIEST) {
      pass_second(network, second == freeze.stops ? std::optional(freeze.one) : std::nullopt);
      continue;
    }
    for (auto steps = network.random() % 8; steps > 0 && network.step();) --steps;  // not all is said at once
    if (second == freeze.stops) network.freeze(freeze.one);
  }
}

/// One stands still from a second before the deadline on, or after it, for a while or for good. The deadlines of half of the runs differ,
/// and in some another one crashes.
BOOST_AUTO_TEST_CASE(after_the_deadline_who_stands_still_is_named_and_nobody_else_and_all_that_go_on_agree) {
  std::size_t named = 0;
  std::size_t unnamed = 0;
  std::size_t forgiven = 0;
  std::size_t divided = 0;
  for (std::uint64_t seed = 1; seed <= SEEDS; ++seed) {
    Network network(2 + static_cast<std::uint32_t>(seed % 4), seed);
    std::vector<std::uint64_t> deadlines(network.world(), EARLIEST);
    const std::uint64_t differ = seed % 8 < 4 ? 1 : seed % 8 < 6 ? 5 : 30;
    for (std::uint32_t r = 1; r < network.world(); ++r) deadlines[r] += network.random() % differ;
    std::ranges::shuffle(deadlines, network.random);
    const auto end = std::ranges::max(deadlines) + LOOKING;
    Freeze freeze{static_cast<std::uint32_t>(network.random() % network.world()), end, end};
    if (seed % 3 == 1) freeze.stops = network.random() % (std::ranges::max(deadlines) + vote::LOOKS);
    if (seed % 3 == 1) freeze.goes_on = freeze.stops + 1 + network.random() % end;
    if (seed % 6 == 1)
      freeze = {freeze.one, network.random() % (EARLIEST + 1), 1 + EARLIEST + network.random() % (vote::LOOKS - 1)};  // in time
    if (seed % 3 == 2)
      freeze = {freeze.one, network.random() % (EARLIEST + 1),
                EARLIEST + 2 * vote::LOOKS - network.random() % 2};  // when they wait no longer
    // A result takes the inputs of all: with one of them missing nobody completes it, whatever the simulation would allow.
    if (seed % 2 == 0) network.completed.assign(network.world(), true);
    std::optional<Freeze> crash;
    if (network.world() > 2 && seed % 5 == 0)
      crash = Freeze{(freeze.one + 1) % network.world(), network.random() % (EARLIEST + 2 * vote::LOOKS), end};
    play(network, deadlines, freeze, crash);
    const bool freezes = freeze.stops < end;
    const bool sleeps = freezes && freeze.goes_on >= end;
    for (std::uint32_t r = 0; r < network.world(); ++r) {
      if ((r == freeze.one && sleeps) || (crash && r == crash->one)) continue;
      const auto& state = network.states[r];
      BOOST_REQUIRE_MESSAGE(vote::is_over(state), "rank " << r << " of seed " << seed << " still waits");
      if (state.named)
        BOOST_REQUIRE_MESSAGE(r != freeze.one && state.named == freeze.one && freezes,
                              "seed " << seed << ": rank " << *state.named << " was named");
      named += state.named ? 1 : 0;
      unnamed += state.named ? 0 : 1;
      if (r == freeze.one || freeze.stops > EARLIEST || freeze.goes_on >= EARLIEST + vote::LOOKS) continue;
      BOOST_REQUIRE_MESSAGE(!state.named, "seed " << seed << ": it went on in time and was named");
      ++forgiven;
    }
    // Who had committed, or has more time than the others, and stands still for longer than these ask, counts as lost (docs/INVARIANTS.md).
    const bool counts_as_lost = freezes && (network.had_committed || deadlines[freeze.one] > EARLIEST);
    if (counts_as_lost && network.states[(freeze.one + network.world() - 1) % network.world()].phase == vote::Phase::Aborted) {
      divided += network.states[freeze.one].phase == vote::Phase::Committed ? 1 : 0;
      network.alive[freeze.one] = false;
    }
    BOOST_TEST_CONTEXT("seed " << seed) { network.check(); }
  }
  BOOST_TEST(divided > 0U);
  BOOST_TEST(forgiven > 1000U);
  BOOST_TEST(named > 1000U);
  BOOST_TEST(unnamed > 1000U);
}

/// A cancel, a loss and another result make ranks doubt, too; then one that stands still has time until the deadline.
BOOST_AUTO_TEST_CASE(looks_begin_with_a_deadline_and_with_nothing_else) {
  auto state = vote::complete(vote::start(0, 3), Digest{1, 2}).state;
  const auto cancelled = vote::cancel(state, CAUSE).state;
  BOOST_TEST(!vote::asks(cancelled));
  state = vote::doubt_from(std::move(state), 1, vote::Ranks(3), false).state;
  BOOST_TEST((state.phase == vote::Phase::Doubting));
  BOOST_TEST(!vote::asks(state));
  const auto asked = vote::doubt_from(std::move(state), 1, vote::Ranks(3), true);
  BOOST_TEST(vote::asks(asked.state));
  BOOST_REQUIRE(asked.sayings.size() == 1U);
  BOOST_TEST((asked.sayings.front().word == vote::Word::Doubt));  // the others hear of it, too
}

BOOST_AUTO_TEST_CASE(who_doubts_already_says_so_again_at_its_deadline) {
  auto state = vote::complete(vote::start(0, 3), Digest{1, 2}).state;
  state = vote::lost(std::move(state), 2, CAUSE).state;
  BOOST_TEST(!vote::asks(state));
  const auto asked = vote::look(std::move(state), {}, CAUSE);
  BOOST_TEST(vote::asks(asked.state));
  BOOST_REQUIRE(asked.sayings.size() == 1U);
  BOOST_TEST((asked.sayings.front().word == vote::Word::Doubt));
}

/// Else who has a later deadline might still hear of another end from the one that both waited for.
BOOST_AUTO_TEST_CASE(a_rank_that_waits_no_longer_says_so_to_all_that_it_gave_up_on) {
  auto state = vote::complete(vote::start(1, 3), Digest{1, 2}).state;
  state = vote::look(std::move(state), {}, CAUSE).state;
  state = vote::doubt_from(std::move(state), 0, vote::Ranks(3), false).state;
  for (std::uint32_t look = 1; look < 2 * vote::LOOKS; ++look) state = vote::look(std::move(state), vote::Ranks(3), CAUSE).state;
  BOOST_TEST((state.phase == vote::Phase::Doubting));
  const auto ended = vote::look(std::move(state), vote::Ranks(3), CAUSE);
  BOOST_TEST((ended.state.phase == vote::Phase::Aborted));
  std::vector<std::uint32_t> told;
  for (const auto& saying : ended.sayings)
    if (saying.word == vote::Word::Aborted && saying.to) told.push_back(*saying.to);
  BOOST_TEST(told == (std::vector<std::uint32_t>{0, 2}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_rank_that_commits_tells_everyone_that_doubts) {
  const Digest digest{1, 2};
  auto state = vote::complete(vote::start(0, 3), digest).state;
  state = vote::doubt_from(std::move(state), 2, vote::Ranks(3), false).state;
  state = vote::lost(std::move(state), 2, CAUSE).state;
  const auto committed = vote::committed_by(std::move(state), 1);
  BOOST_TEST((committed.state.phase == vote::Phase::Committed));
  BOOST_REQUIRE(committed.sayings.size() == 1U);
  BOOST_TEST((committed.sayings.front().word == vote::Word::Committed));
  BOOST_TEST(committed.sayings.front().to.value() == 2U);
}

BOOST_AUTO_TEST_CASE(a_rank_that_is_lost_while_it_is_asked_is_not_waited_for) {
  auto state = vote::look(vote::start(0, 3), {}, CAUSE).state;
  state = vote::aborted_by(std::move(state), 1).state;
  BOOST_TEST(!vote::is_over(state));
  BOOST_TEST(vote::needs(state, 2));
  state = vote::lost(std::move(state), 2, CAUSE).state;
  BOOST_TEST(vote::is_over(state));
  BOOST_TEST(!vote::needs(state, 2));
}

/// It is why the deadline passed, and the loss says more: its address refuses, or it has another key.
BOOST_AUTO_TEST_CASE(why_a_rank_was_lost_before_it_answered_is_told) {
  auto state = vote::look(vote::start(0, 3), {}, CAUSE).state;
  state = vote::lost(std::move(state), 2, Error{ErrorName::LaneBroken, "connection refused"}).state;
  BOOST_TEST(state.cause->detail == "connection refused");
  state = vote::aborted_by(std::move(state), 1).state;
  state = vote::lost(std::move(state), 1, Error{ErrorName::LaneBroken, "it went its way"}).state;
  BOOST_TEST(state.cause->detail == "connection refused");
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

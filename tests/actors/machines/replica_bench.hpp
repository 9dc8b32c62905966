// Owns the bench on which replicas are tested: two shards, peers 10 and 11 of replica a, 20 and 21 of replica b, and so on.
#pragma once

#include <boost/test/unit_test.hpp>

#include "actors/coordinator/waits.hpp"
#include "actors/membership/replicas.hpp"
#include "coordinator_bench.hpp"

namespace prime::coordinator {

using Ids = std::vector<std::uint64_t>;

inline std::uint32_t shard_of(std::uint64_t peer) { return static_cast<std::uint32_t>(peer % 10); }
inline std::string replica_of(std::uint64_t peer) { return std::string(1, static_cast<char>('a' + peer / 10 - 1)); }
/// What a shard holds at a revision; no two alike.
inline Digest held(std::uint64_t peer, std::uint64_t revision) { return {revision + 1, shard_of(peer) + 1}; }
inline Digest whole(std::uint64_t revision) { return membership::combined(std::vector{held(10, revision), held(11, revision)}); }

/// What its trainer is born with; the first replica founds the state.
inline Digest born(std::uint64_t peer) { return peer < 20 ? held(peer, 0) : Digest{peer, 99}; }

struct ReplicaBench : Heard {
  explicit ReplicaBench(std::uint32_t replicas = 2, std::uint64_t outer_steps = 3, std::uint32_t shards = 2) {
    Options options;
    options.run = "run";
    options.shards = shards;
    options.start_quorum = replicas;
    options.outer_steps = outer_steps;
    options.samples_per_peer = 10;
    options.max_peers = 4;
    state = initial(options, now);
  }

  static Hello hello_of(std::uint64_t peer) {
    Hello hello{PROTOCOL_VERSION, "run", PeerId{peer}, "p" + std::to_string(peer), Endpoint{"h", static_cast<std::uint16_t>(peer)}, 1};
    hello.shard = shard_of(peer);
    hello.replica = replica_of(peer);
    return hello;
  }
  void greet(std::uint64_t peer) { hear(peer, hello_of(peer)); }
  void returns(std::uint64_t peer) {
    auto hello = hello_of(peer);
    hello.returning = true;
    hear(peer, hello);
  }
  void seat(std::uint64_t peer) {
    greet(peer);
    hear(peer, Seated{Revision{}, born(peer), Digest{7, shard_of(peer)}, 100 + shard_of(peer), 1});
  }
  void seat_all(const Ids& peers) {
    for (const auto peer : peers) seat(peer);
  }
  void ready(std::uint64_t peer, std::uint64_t weight = 100) {
    hear(peer, Ready{state.step(), state.revision, weight, 10, Real{1.0}, {}, Real{1.0}, 1});
  }
  void ready_all(const Ids& peers) {
    for (const auto peer : peers) ready(peer);
  }
  void vote(std::uint64_t peer) { hear(peer, Vote{state.operation, held(peer, state.step().value), 1, 1}); }
  /// Time passes, and these are heard every second.
  void pass(Duration duration, const Ids& heard) {
    std::vector<Effect> all;
    for (Duration left = duration; left > Duration{}; left -= 1s) {
      now += std::min<Duration>(left, 1s);
      for (const auto peer : heard) {
        hear(peer, Heartbeat{});
        all.insert(all.end(), effects.begin(), effects.end());
      }
      on(Tick{});
      all.insert(all.end(), effects.begin(), effects.end());
    }
    effects = std::move(all);
  }
};

inline Ids ids_of(const View& view) {
  Ids ids;
  for (const auto& member : view.members) ids.push_back(member.id.value);
  return ids;
}

inline const Ids ALL{10, 11, 20, 21};
inline const Ids THREE{10, 11, 20, 21, 30, 31};

inline ReplicaBench training(const Ids& peers = ALL) {
  ReplicaBench bench{static_cast<std::uint32_t>(peers.size() / 2)};
  bench.seat_all(peers);
  // The first replica founds the state, the others fetch.
  for (const auto peer : peers)
    if (peer >= 20) bench.hear(peer, Fetched{Revision{}, held(peer, 0)});
  BOOST_REQUIRE(bench.state.phase == Phase::Training);
  return bench;
}

inline ReplicaBench reducing(const Ids& peers = ALL) {
  auto bench = training(peers);
  bench.ready_all(peers);
  BOOST_REQUIRE(bench.state.phase == Phase::Reducing);
  return bench;
}

}  // namespace prime::coordinator

// Owns what is known of one replica: its peers, what each has said, and who of them is missing.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "actors/coordinator/coordinator_state.hpp"
#include "actors/coordinator/waits.hpp"

namespace prime::coordinator {

/// One peer of a replica. What it has said waits here until the others have said the same.
struct ShardPeer {
  Hello hello;
  bool here = true;   ///< its connection stands, as far as is known
  bool back = false;  ///< over a new one, and waits for the others of its replica
  Instant heard{};
  std::uint64_t moved_bytes = 0;  ///< as its last heartbeat had it
  std::uint64_t elements = 0;     ///< that its trainer has bound
  std::uint32_t trainer_pid = 0;
  std::optional<FetchState> asked;    ///< the fetch that it was sent for
  std::optional<Error> fetch_failed;  ///< how that ended; or it has fetched
  std::optional<Fetched> fetched;
  Fetched holds;  ///< what it said last
  std::optional<Seated> seated;
  std::optional<Ready> ready;
  std::optional<StateSaved> saved;
  std::optional<FinalReport> report;
};

struct Replica {
  std::string name;
  std::vector<std::optional<ShardPeer>> shards;
  std::map<OperationId, std::map<std::uint32_t, Vote>> votes;  ///< by shard, until all are there
  Instant since{};                                             ///< its first peer greeted
  bool whole = false;
  BeginStep begun;                         ///< as the run told it last, and which attempt at that it is
  std::optional<std::uint32_t> lost_with;  ///< the shard whose peer went first

  [[nodiscard]] PeerId lead() const { return shards.front()->hello.peer; }
};

/// Whether each of its shards has a peer, and whether those of one that has been whole are all connected.
bool is_complete(const Replica& replica);
bool all_here(const Replica& replica);
/// The most silent of its peers.
Instant last_heard(const Replica& replica);
/// A peer that has said nothing else yet.
ShardPeer greeting(const Hello& hello, Instant now);

/// As events name one of its peers.
Who who(const Replica& replica, const Hello& hello);
/// "shard 1 of replica north"
std::string name_of(const Replica& replica, std::uint32_t shard);
/// "shard 1", "shards 0, 2"
std::string shards_text(const Named& shards);
std::string missing_in(const Replica& replica);

}  // namespace prime::coordinator

#include "actors/coordinator/grid_machine.hpp"

#include <utility>

#include "actors/coordinator/grid_words.hpp"
#include "actors/membership/membership_machine.hpp"
#include "kernels/digest/digest.hpp"

namespace prime::coordinator {
namespace {

/// Handles one event.
class Folding {
 public:
  Folding(Grid& grid, Instant now, std::vector<Effect>& effects)
      : g_(grid), now_(now), effects_(effects), rows_(grid, now, effects), words_(grid, rows_, now, effects) {}

  std::optional<Snapshot> decided() { return rows_.decided(); }

  std::string operator()(const Received& event) {
    if (const auto* hello = std::get_if<Hello>(&event.message)) return greeted(event.from, *hello);
    const auto known = g_.places.find(event.from);
    if (known == g_.places.end()) return membership::without_seat(g_.run, event.from, effects_);
    const auto [key, shard] = known->second;
    auto& replica = g_.replicas.at(key);
    auto& peer = *replica.shards[shard];
    // It is cut off, and will say it again when it is back.
    if (!peer.here) return "a message over a connection that has ended";
    peer.heard = now_;
    rows_.note_silence(replica);
    if (const auto* farewell = std::get_if<Deathrattle>(&event.message)) return rows_.said_goodbye(replica, shard, *farewell);
    if (const auto* beat = std::get_if<Heartbeat>(&event.message)) return words_.beat(replica, event.from, *beat);
    // Once all of them are back, each of them says it again.
    if (replica.whole && !all_here(replica)) return "its replica waits for the return of another peer";
    return words_.heard(key, shard, event.message);
  }

  std::string operator()(const ConnectionLost& event) { return rows_.lost(event); }
  std::string operator()(const ProcessGone& event) { return rows_.vanished(event); }
  std::string operator()(const StopRequested& event) { return rows_.forward(event); }
  std::string operator()(const PauseRequested& event) { return rows_.forward(event); }
  std::string operator()(const ResumeRequested& event) { return rows_.forward(event); }

  std::string operator()(const Coordinators& event) {
    rows_.tell_unformed(event);
    return rows_.forward(event);
  }

  std::string operator()(const Tick& event) {
    rows_.send_away_overdue();
    return rows_.forward(event);
  }

 private:
  std::string greeted(PeerId from, const Hello& hello) {
    auto reason = rows_.greeted(from, hello);
    if (const auto place = g_.places.find(from); place != g_.places.end()) words_.once_whole(place->second.replica);
    return reason;
  }

  Grid& g_;
  Instant now_;
  std::vector<Effect>& effects_;
  Rows rows_;
  Words words_;
};

}  // namespace

Digest combined(std::span<const Digest> shards) { return kernels::combine_digests(shards, shards.size()); }

Digest combined(std::span<const std::vector<Digest>> shards) {
  std::vector<Digest> fragments;
  for (std::size_t fragment = 0; fragment < shards.front().size(); ++fragment) {
    std::vector<Digest> parts;
    for (const auto& shard : shards) parts.push_back(shard[fragment]);
    fragments.push_back(combined(parts));
  }
  return kernels::digest_of_parts(fragments);
}

Grid initial_grid(Options options, Instant now) {
  Grid grid;
  grid.views.resize(options.shards);
  grid.contributions.resize(options.shards);
  grid.run = initial(std::move(options), now);
  return grid;
}

Grid restore_grid(Options options, const Snapshot& snapshot, Instant now) {
  auto grid = initial_grid(options, now);
  grid.run = restore(std::move(options), snapshot, now);
  if (grid.run.options.shards == 1) return grid;
  grid.parts = snapshot.shard_digests;
  for (const auto& kept : snapshot.members) {
    const auto key = grid.next_replica++;
    auto& replica = grid.replicas[key];
    replica.name = kept.member.name;
    replica.whole = true;
    ++grid.whole;
    grid.torn.insert(key);
    for (std::uint32_t shard = 0; shard < kept.parts.size(); ++shard) {
      const auto& [member, pid, trainer_pid, elements] = kept.parts[shard];
      const Hello hello{PROTOCOL_VERSION, grid.run.options.run, member.id, member.name, member.lanes, pid, true, shard, replica.name};
      auto& peer = replica.shards.emplace_back(greeting(hello, now));
      peer->here = false;
      peer->elements = elements;
      peer->trainer_pid = trainer_pid;
      grid.places.emplace(member.id, Grid::Place{key, shard});
    }
  }
  return grid;
}

GridTransition step(Grid grid, const Event& event, Instant now) {
  GridTransition result{.state = std::move(grid)};
  auto& state = result.state;
  // After the end, whoever comes hears of it, and everybody else was told.
  if (state.run.options.shards == 1 || state.run.phase == Phase::Over) {
    auto transition = step(std::move(state.run), event, now);
    state.run = std::move(transition.state);
    result.decided = std::move(transition.decided);
    result.effects = std::move(transition.effects);
    result.reason = std::move(transition.reason);
    return result;
  }
  Folding folding{state, now, result.effects};
  result.reason = std::visit(folding, event);
  result.decided = folding.decided();
  return result;
}

}  // namespace prime::coordinator

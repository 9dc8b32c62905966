#include "runtime/launch/private_states.hpp"

#include <algorithm>
#include <map>
#include <system_error>

#include "runtime/store/private_state.hpp"

namespace prime::launch {
namespace fs = std::filesystem;
namespace {

/// Directories that hold checkpoints of one run, as RUN/peers/NAME-ID/checkpoints, with the digits of the peer's id that the name has.
std::map<fs::path, std::string> places_around(const fs::path& checkpoint) {
  const auto own = fs::absolute(checkpoint).lexically_normal().parent_path();
  const auto peers = own.parent_path().parent_path();
  std::map<fs::path, std::string> places{{own, {}}};
  if (own.filename() != "checkpoints" || peers.filename() != "peers") return places;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator{peers, ignored}) {
    const auto name = entry.path().filename().string();
    places[entry.path() / "checkpoints"] = name.substr(name.rfind('-') + 1);
  }
  return places;
}

/// What its owner can do about a damaged one.
Error damaged_beside(Error error, const fs::path& path, const store::CheckpointState& state) {
  error.detail += "; without " + path.string() + ", which somebody has to " +
                  (error.name == ErrorName::CheckpointFormat ? "put elsewhere" : "remove") +
                  ", `--from` goes on from an older outer step of which all is whole, or else from outer step " +
                  std::to_string(state.outer_step.value) + " with fresh private state of that peer's trainer";
  return error;
}

/// "alice", "alice and bob"
std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) text += (i == 0 ? "" : i + 1 == names.size() ? " and " : ", ") + names[i];
  return text;
}

void add(std::string& text, const std::string& more) { text += (text.empty() ? "" : "; ") + more; }

}  // namespace

Result<PrivateStates> private_states_of(const fs::path& checkpoint, const store::CheckpointState& state) {
  PrivateStates found;
  found.known = !state.members.empty();
  found.any = state.private_state;
  if (!found.known) return found;
  std::map<PeerId, std::pair<fs::path, bool>> of_peer;  // and whether it was late
  const auto places = places_around(checkpoint);
  for (const auto& [place, digits] : places) {
    const auto path = store::private_state_path(place, state.outer_step);
    std::error_code ignored;
    if (!fs::exists(path, ignored)) continue;
    const auto said = store::peek_private_state(path);
    if (said && (said->state != state.state || said->run != state.run)) continue;
    auto verified = store::verify_private_state(path);
    if (!verified) return fail(damaged_beside(std::move(verified.error()), path, state));
    of_peer.insert_or_assign(verified->peer, std::pair{path, verified->late});
  }
  for (const auto& [peer, name] : state.members) {
    const auto kept = of_peer.find(peer);
    if (kept == of_peer.end()) {
      found.paths.emplace_back();
      found.missing.push_back(name);
      const auto digits = to_string(peer).substr(0, 8);
      if (std::ranges::any_of(places, [&](const auto& place) { return place.second == digits; })) found.missing_of_here.push_back(name);
      continue;
    }
    found.any = true;
    found.paths.push_back(kept->second.first);
    if (kept->second.second) found.late.push_back(name);
  }
  return found;
}

Continuation continuation_of(const std::vector<PrivateStates>& states, const store::CheckpointState& state, std::uint32_t replicas,
                             std::uint32_t quorum) {
  Continuation on;
  if (std::ranges::any_of(states, [](const auto& each) { return !each.known; })) {
    on.fresh = "the checkpoint does not say what its trainers had for themselves";
    return on;
  }
  if (std::ranges::none_of(states, &PrivateStates::any)) return on;
  for (const auto& shard : states)
    if (shard.paths.size() != replicas) {
      const std::string what = states.size() > 1 ? " replicas" : " peers";
      on.fresh = "the checkpoint is of " + std::to_string(shard.paths.size()) + what + ", and " + std::to_string(replicas) + " start here";
      return on;
    }
  on.any = true;
  on.paths.resize(replicas);
  std::vector<std::string> missing;
  std::vector<std::string> late;
  for (const auto& shard : states) {
    for (std::uint32_t rank = 0; rank < replicas; ++rank) on.paths[rank].push_back(shard.paths[rank]);
    missing.insert(missing.end(), shard.missing.begin(), shard.missing.end());
    late.insert(late.end(), shard.late.begin(), shard.late.end());
  }
  if (!missing.empty())
    add(on.fresh,
        std::string{missing.size() > 1 ? "what the trainers of " : "what the trainer of "} + listed(missing) + " had is not here");
  if (!late.empty()) add(on.fresh, listed(late) + (late.size() > 1 ? " were" : " was") + " at work that the checkpoint lacks");
  if (std::ranges::any_of(state.versions, [&](OuterStep version) { return version != state.outer_step; }))
    add(on.fresh, "it was saved between two fragments of an outer step");
  if (quorum > 0 && quorum < replicas) add(on.fresh, "`--quorum` lets the first outer step begin before all are there");
  return on;
}

}  // namespace prime::launch

#include "runtime/launch/find_checkpoint.hpp"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <optional>
#include <ranges>
#include <set>

#include "actors/membership/replicas.hpp"
#include "kernels/digest/digest.hpp"
#include "runtime/manifest/continuation.hpp"
#include "runtime/manifest/load.hpp"
#include "runtime/session/state_digest.hpp"
#include "runtime/store/journal.hpp"
#include "runtime/telemetry/event_json.hpp"
#include "runtime/telemetry/run_files.hpp"
#include "runtime/telemetry/run_observer.hpp"

namespace prime::launch {
namespace fs = std::filesystem;
namespace {

/// Of one outer step, the states of the shards that are tried with each other: rollbacks leave several of a shard, seldom more than two.
constexpr std::size_t COMBINATIONS_MAX = 4096;
constexpr std::string_view STEP_PREFIX = "step-";

using PathsByStep = std::map<std::string, std::vector<fs::path>, std::greater<>>;

/// What a coordinator's journal says of the states that its run has had, by digest. Empty where it is on another machine.
struct Lineage {
  std::map<OuterStep, std::string> standing;  ///< by outer step
  std::set<std::string> undone;               ///< by a rollback: peers that had been lost before it may have saved them
  std::set<OuterStep> undone_steps = {};      ///< that were not made anew
};

Result<Lineage> lineage_of(const fs::path& run) {
  Lineage lineage;
  auto& [standing, undone, undone_steps] = lineage;
  PRIME_CHECK(store::JournalReader{telemetry::coordinator_journal(run)}.read_to_end([&](const store::JournalLine& line) {
    const auto event = telemetry::read_event(JournalWriter::Coordinator, line);
    if (!event || !*event) return;
    if (const auto* done = std::get_if<events::OuterStepCommitted>(&**event)) {
      const auto digest = to_string(done->digest);
      standing[done->outer_step] = digest;
      undone.erase(digest);
      undone_steps.erase(done->outer_step);
    } else if (const auto* back = std::get_if<events::RolledBack>(&**event)) {
      for (auto void_one = standing.upper_bound(back->outer_step); void_one != standing.end(); void_one = standing.erase(void_one)) {
        undone.insert(void_one->second);
        undone_steps.insert(void_one->first);
      }
    }
  }));
  return lineage;
}

/// The outer step that the run had come to.
OuterStep committed_by(const Lineage& lineage) { return lineage.standing.empty() ? OuterStep{} : lineage.standing.rbegin()->first; }

OuterStep step_of(const std::string& name) { return OuterStep{std::strtoull(name.c_str() + STEP_PREFIX.size(), nullptr, 10)}; }

/// Newest step first.
PathsByStep checkpoints_of(const fs::path& run) {
  PathsByStep by_step;
  for (const auto& journal : telemetry::peer_journals(run)) {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator{journal.parent_path() / "checkpoints", ignored})
      if (entry.path().filename().string().starts_with(STEP_PREFIX)) by_step[entry.path().filename()].push_back(entry.path());
  }
  return by_step;
}

Error no_checkpoint(const fs::path& run, const std::string& what = "no checkpoint") {
  return Error{ErrorName::Usage,
               run.filename().string() + " has " + what + "; `down` saves one, and `checkpoint.every` makes a run save on the way"};
}

/// Of steps that are newer than what there is besides.
struct Damage {
  std::vector<fs::path> paths;
  std::optional<Error> error;  ///< of the newest

  void add(const fs::path& path, Error of_it) {
    paths.push_back(path);
    if (!error) error = std::move(of_it);
  }
};

/// What is damaged or of another format, and what its owner can do. `older`: what there is besides, of a run of so many shards.
Error refused(Damage damage, const std::optional<FoundCheckpoint>& older, std::uint32_t shards) {
  auto error = std::move(*damage.error);
  if (!older) {
    error.detail += shards > 1 ? "; of no older outer step are all shards whole here" : "; of no older outer step is a whole one here";
    return error;
  }
  std::string paths;
  for (const auto& path : damage.paths) paths += (paths.empty() ? "" : " and ") + path.string();
  // What another release reads is nothing to remove.
  const bool foreign = error.name == ErrorName::CheckpointFormat;
  if (foreign && shards == 1) {
    error.detail += "; to go on from outer step " + std::to_string(older->state.outer_step.value) +
                    " instead, which this one reads: `--from " + older->paths.front().string() + "`";
    return error;
  }
  const auto step = "outer step " + std::to_string(older->state.outer_step.value);
  error.detail += "; " + (shards > 1 ? "all shards of " + step + " are whole" : "that of " + step + " is whole") + ": without " + paths +
                  ", which somebody has to " + (foreign ? "put elsewhere" : "remove") + ", `--from` goes on from there";
  return error;
}

/// Among whole checkpoints of falling outer steps, the first with which all trainers of this machine can go on; else the first of all.
class Choice {
 public:
  /// Whether the search is over.
  bool takes(FoundCheckpoint found) {
    std::vector<std::string> missing;
    for (const auto& shard : found.privates) missing.insert(missing.end(), shard.missing_of_here.begin(), shard.missing_of_here.end());
    if (incomplete_ && (found.state.members != incomplete_->state.members || !missing.empty())) return false;
    if (!missing.empty()) {
      passed_over_ = PassedOver{found.state.outer_step, found.paths, std::move(missing)};
      incomplete_ = std::move(found);
      return false;
    }
    found.passed_over = std::move(passed_over_);
    complete_ = std::move(found);
    return true;
  }
  [[nodiscard]] bool is_empty() const { return !incomplete_ && !complete_; }
  std::optional<FoundCheckpoint> chosen() && { return complete_ ? std::move(complete_) : std::move(incomplete_); }

 private:
  std::optional<FoundCheckpoint> incomplete_;
  std::optional<FoundCheckpoint> complete_;
  std::optional<PassedOver> passed_over_;
};

/// Fills in what trainers had for themselves; `states` are those of the shards.
Result<void> add_private_states(FoundCheckpoint& found, const std::vector<store::CheckpointState>& states) {
  for (std::size_t shard = 0; shard < states.size(); ++shard) {
    PRIME_TRY(auto privates, private_states_of(found.paths[shard], states[shard]));
    found.privates.push_back(std::move(privates));
  }
  return {};
}

/// Of all its peers; what is damaged or of another format counts, so that nobody goes on from an older one unawares, but any whole one of
/// that step will do; one that says of whom it is goes first.
Result<FoundCheckpoint> newest_checkpoint(const fs::path& run) {
  PRIME_TRY(const auto lineage, lineage_of(run));
  Damage damage;
  Choice choice;
  bool is_whole = false;
  for (const auto& [step, paths] : checkpoints_of(run)) {
    Damage here;
    std::optional<FoundCheckpoint> whole;
    for (const auto& path : paths) {
      auto state = store::verify_checkpoint(path);
      if (!state) here.add(path, std::move(state.error()));
      else if (!lineage.undone.contains(to_string(state->state)) && (!whole || whole->state.members.empty()))
        whole = FoundCheckpoint{{path}, *state, {std::max(state->outer_step, committed_by(lineage)), 1, {}}};
    }
    if (!whole) {
      if (!is_whole)
        for (const auto& path : here.paths) damage.add(path, *here.error);
      continue;
    }
    is_whole = true;
    if (damage.error) return fail(refused(std::move(damage), whole, 1));
    if (auto added = add_private_states(*whole, {whole->state}); !added) {
      if (choice.is_empty()) return fail(std::move(added.error()));
      continue;  // it is older than what can be gone on from, and no better
    }
    if (choice.takes(*std::move(whole))) break;
  }
  if (auto found = std::move(choice).chosen()) return *std::move(found);
  return damage.error ? fail(refused(std::move(damage), std::nullopt, 1)) : fail(no_checkpoint(run));
}

/// Of one shard, the states of one outer step.
using StatesOfShard = std::map<Digest, std::pair<fs::path, store::CheckpointState>>;

struct FittingShards {
  FoundCheckpoint found;
  std::vector<store::CheckpointState> states;  ///< by shard
};

/// The digest of a model in shards; that of no state where they are divided in different ways.
Digest whole_of(const std::vector<StatesOfShard::const_iterator>& shards) {
  std::vector<std::vector<Digest>> digests;
  for (const auto& one : shards) {
    const auto& state = one->second.second;
    digests.push_back(state.digests.empty() ? std::vector{state.state} : state.digests);
    if (digests.back().size() != digests.front().size()) return {};
  }
  return membership::whole_digest(digests);
}

/// One state of each shard that together are what the run has committed and not undone; nothing when there is none.
std::optional<FittingShards> fitting(const std::vector<StatesOfShard>& shards, const Lineage& lineage) {
  std::vector<StatesOfShard::const_iterator> chosen;
  bool choice = false;
  for (const auto& states : shards) {
    if (states.empty()) return std::nullopt;
    chosen.push_back(states.begin());
    choice |= states.size() > 1;
  }
  const auto committed = lineage.standing.find(chosen.front()->second.second.outer_step);
  // Where nobody here knows which states were committed together, none are guessed.
  if (committed == lineage.standing.end() && choice) return std::nullopt;
  for (std::size_t tried = 0; tried < COMBINATIONS_MAX; ++tried) {
    const auto whole = whole_of(chosen);
    const auto name = to_string(whole);
    if (committed != lineage.standing.end() ? committed->second == name : !lineage.undone.contains(name)) {
      FittingShards fit{{{}, chosen.front()->second.second}, {}};
      fit.found.state.state = whole;
      fit.found.state.shards = 1;
      for (const auto& [path, state] : std::views::transform(chosen, [](const auto& one) { return one->second; })) {
        fit.found.paths.push_back(path);
        fit.states.push_back(state);
      }
      return fit;
    }
    std::size_t shard = 0;
    while (shard < shards.size() && ++chosen[shard] == shards[shard].end()) {
      chosen[shard] = shards[shard].begin();
      ++shard;
    }
    if (shard == shards.size()) break;
  }
  return std::nullopt;
}

/// With another model the peers would find out by themselves, after everything has started, and each of them for itself.
Result<void> check_model(const fs::path& checkpoint, const manifest::Shared& wanted) {
  PRIME_TRY(const auto text, store::read_manifest(checkpoint));
  const auto kept = manifest::parse_shared(text);
  if (!kept) return {};  // of another version, whose keys cannot be compared
  std::string differing;
  for (const auto& change : manifest::state_changes(*kept, wanted))
    differing +=
        (differing.empty() ? "`" : ", `") + std::string{change.path} + "` is " + change.wanted + " here and " + change.kept + " there";
  return differing.empty() ? Result<void>{} : fail(ErrorName::StateMismatch, differing + " (" + checkpoint.string() + ")");
}

/// The digest by which the peers of the new run will know the state: its division may be another one, or its digest of an earlier form.
Result<void> divide_anew(FoundCheckpoint& found, const Division& wanted) {
  auto& state = found.state;
  if (state.division == wanted && !state.dated) return {};
  const auto& versions = state.versions;
  if (std::ranges::any_of(versions, [&](OuterStep version) { return version != state.outer_step; }))
    return fail(ErrorName::StateMismatch,
                found.paths.front().string() + " was saved when some of its " + std::to_string(versions.size()) +
                    " fragments had made outer step " + std::to_string(state.outer_step.value + 1) +
                    " and others had not: go on from it with `sync.fragments: {count: " + std::to_string(state.division.count) +
                    ", pattern: " + std::string{to_string(state.division.pattern)} +
                    "}`, or from a checkpoint of a whole step: `primectl pause` before `primectl down` leads to one");
  std::vector<std::vector<Digest>> digests;
  for (const auto& path : found.paths) {
    PRIME_TRY(const auto loaded, store::load_checkpoint(path));
    std::vector<TensorShape> tensors;
    for (const auto& tensor : loaded.layout) tensors.push_back({tensor.name, tensor.shape});
    PRIME_TRY(const auto layout, make_layout(std::move(tensors), wanted));
    digests.push_back(fragment_digests({loaded.parameters, loaded.momentum}, layout, state.outer_step));
  }
  state.state = membership::whole_digest(digests);
  state.division = wanted;
  state.versions.assign(wanted.count > 1 ? wanted.count : 0, state.outer_step);
  state.dated = false;
  return {};
}

Result<FoundCheckpoint> found_in(const fs::path& run, const manifest::Shared& shared) {
  const auto shards = shared.membership.shards;
  if (shards == 1) return newest_checkpoint(run);
  auto found = newest_of_all_shards(run, shards);
  if (found || found.error().name == ErrorName::CheckpointCorrupt || found.error().name == ErrorName::CheckpointFormat) return found;
  // Of a run with other shards there is none, and the one that is there says why.
  PRIME_TRY(const auto other, newest_checkpoint(run));
  PRIME_CHECK(check_model(other.paths.front(), shared));
  return found;
}

}  // namespace

/// A peer may have died before it saved the step that others saved.
Result<FoundCheckpoint> newest_of_all_shards(const fs::path& run, std::uint32_t count) {
  PRIME_TRY(const auto lineage, lineage_of(run));
  NewestStep newest{committed_by(lineage), count, {}};
  for (std::uint32_t shard = 0; shard < count; ++shard) newest.missing.push_back(shard);
  Choice choice;
  bool is_whole = false;
  Damage damage;
  for (const auto& [step, paths] : checkpoints_of(run)) {
    std::vector<StatesOfShard> shards(count);
    Damage here;
    for (const auto& path : paths) {
      auto state = store::verify_checkpoint(path);
      if (state && state->shards == count) shards[state->shard].try_emplace(state->state, path, *state);
      if (state) continue;
      here.add(path, std::move(state.error()));
    }
    std::vector<std::uint32_t> missing;
    for (std::uint32_t shard = 0; shard < count; ++shard)
      if (shards[shard].empty()) missing.push_back(shard);
    const bool of_this_run = missing.size() < count || !here.paths.empty();
    if (const auto at = step_of(step); of_this_run && !is_whole && at >= newest.outer_step && !lineage.undone_steps.contains(at)) {
      newest.outer_step = at;
      newest.missing = missing;
    }
    if (auto fit = fitting(shards, lineage)) {
      if (damage.error) return fail(refused(std::move(damage), fit->found, count));
      is_whole = true;
      if (auto added = add_private_states(fit->found, fit->states); !added) {
        if (choice.is_empty()) return fail(std::move(added.error()));
        continue;
      }
      if (choice.takes(std::move(fit->found))) break;
      continue;
    }
    if (is_whole) continue;
    // With those that are damaged the step may have been complete: nobody goes on from an older one unawares.
    if (missing.empty() || here.paths.size() < missing.size()) continue;
    for (const auto& path : here.paths) damage.add(path, *here.error);
  }
  if (damage.error && !is_whole) return fail(refused(std::move(damage), std::nullopt, count));
  if (auto found = std::move(choice).chosen()) {
    found->newest = std::move(newest);
    return *std::move(found);
  }
  const auto what = "no outer step of which all " + std::to_string(count) + " shards have a whole checkpoint here";
  if (newest.outer_step.value == 0) return fail(no_checkpoint(run, what));
  const auto lacking = what_is_missing(newest, "outer step " + std::to_string(newest.outer_step.value));
  return fail(ErrorName::Usage, run.filename().string() + " has " + what + ": " + lacking);
}

bool is_older(const FoundCheckpoint& found) { return found.state.outer_step < found.newest.outer_step; }

std::string what_is_missing(const NewestStep& newest, const std::string& of) {
  if (newest.shards > 1 && newest.missing.empty()) return "what is saved here of " + of + " does not belong together";
  if (newest.shards == 1 || newest.missing.size() == newest.shards) return of + " is saved nowhere here";
  std::string list;
  for (const auto shard : newest.missing) list += (list.empty() ? "" : ", ") + std::to_string(shard);
  const bool several = newest.missing.size() > 1;
  return std::string{several ? "shards " : "shard "} + list + " of " + of + (several ? " are" : " is") + " saved nowhere here";
}

bool has_checkpoint(const fs::path& run) { return !checkpoints_of(run).empty(); }

Result<FoundCheckpoint> find_checkpoint(const fs::path& state_root, const std::string& name, const manifest::Manifest& manifest,
                                        const std::function<void()>& waits) {
  const auto path = fs::absolute(name);
  FoundCheckpoint found;
  std::error_code ignored;
  if (!fs::is_directory(path / "prime", ignored)) {
    // A run's own directory, else its name: what happens to lie here under that name is neither.
    auto run = fs::is_directory(path / "peers", ignored) ? Result<fs::path>{path} : telemetry::find_run(state_root, name);
    if (!run && fs::exists(path, ignored))
      return fail(ErrorName::Usage,
                  path.string() + " is no checkpoint; name a run, its directory, or one of its `peers/*/checkpoints/step-*`");
    PRIME_TRY(const auto directory, std::move(run));
    telemetry::RunObserver observer{directory};
    observer.settle(waits);
    if (auto elsewhere = telemetry::lives_elsewhere(observer)) {
      elsewhere->detail += "; the path of one of its checkpoints, instead of the run, begins another run beside it";
      return fail(*std::move(elsewhere));
    }
    PRIME_TRY(found, found_in(directory, manifest.shared));
  } else {
    PRIME_TRY(found.state, store::verify_checkpoint(path));
    found.paths = {path};
    PRIME_CHECK(add_private_states(found, {found.state}));
  }
  for (const auto& one : found.paths) PRIME_CHECK(check_model(one, manifest.shared));
  PRIME_CHECK(divide_anew(found, manifest.shared.sync.fragments));
  if (found.state.shards > 1)
    return fail(ErrorName::Usage, path.string() + " is one shard of " + std::to_string(found.state.shards) +
                                      "; name the run that it is of, and the others are found with it");
  if (found.state.outer_step.value >= manifest.shared.train.outer_steps)
    return fail(ErrorName::Usage, found.paths.front().string() + " is of outer step " + std::to_string(found.state.outer_step.value) +
                                      ", and `train.outer_steps` is " + std::to_string(manifest.shared.train.outer_steps) +
                                      ": nothing is left to train; `--set train.outer_steps=" +
                                      std::to_string(2 * found.state.outer_step.value) + "` trains as long again");
  return found;
}

}  // namespace prime::launch

#include "runtime/replay/replay.hpp"

#include <algorithm>
#include <numeric>

#include "runtime/agent/run_terms.hpp"
#include "runtime/manifest/load.hpp"
#include "runtime/replay/kept_rounds.hpp"
#include "runtime/replay/loopback_reduce.hpp"
#include "runtime/session/state_digest.hpp"
#include "runtime/store/checkpoint.hpp"
#include "runtime/store/contribution.hpp"
#include "runtime/telemetry/run_files.hpp"

namespace prime::replay {
namespace {

/// What all rounds of a run share.
struct Run {
  std::string id;
  ReduceTerms terms;
  OuterState state;
};

Result<Run> begin(const KeptFiles& kept, const std::string& id) {
  if (kept.starts().empty())
    return fail(ErrorName::ReplayImpossible, "what its first round began with was not kept by any peer whose files are here");
  const auto& path = kept.starts().front();
  PRIME_TRY(const auto start, store::load_checkpoint(path));
  if (start.state.run != id) return fail(ErrorName::ReplayImpossible, path.string() + " is of run " + start.state.run);
  PRIME_TRY(const auto shared, manifest::parse_shared(start.manifest));
  std::vector<TensorShape> tensors;
  for (const auto& tensor : start.layout) tensors.push_back({tensor.name, tensor.shape});
  PRIME_TRY(auto layout, make_layout(std::move(tensors), shared.sync.fragments));
  auto options = outer_options(shared);
  options.in_flight = 1;
  options.feedback = false;  // each contribution has its own beside it
  PRIME_TRY(auto state, OuterState::create(std::move(layout), options));
  std::vector<std::uint32_t> all(state.layout().fragments());
  std::iota(all.begin(), all.end(), 0U);
  auto incoming = state.reserve(all);
  for (auto& each : incoming) {
    each.version = start.state.versions.empty() ? start.state.outer_step : start.state.versions[each.fragment];
    place({start.parameters, start.momentum}, state.layout(), each.fragment, each.parameters, each.momentum);
  }
  PRIME_CHECK(state.adopt(incoming, {start.state.revision, start.state.tokens, start.state.next_sample}, start.state.state));
  return Run{id, reduce_terms(shared), std::move(state)};
}

/// What went into one round, as the peers kept it: the same operation, or they speak of different tries.
Result<std::vector<store::LoadedContribution>> inputs_of(const KeptFiles& kept, const Run& run, const events::RoundCommitted& round) {
  std::vector<store::LoadedContribution> inputs;
  for (const auto& peer : round.contributors) {
    PRIME_TRY(const auto path, kept.contribution(round.fragment, round.version, peer));
    PRIME_TRY(auto input, store::read_contribution(path));
    const auto& of = input.of;
    if (of.run != run.id) return fail(ErrorName::ReplayImpossible, path.string() + " is of run " + of.run);
    if (of.operation != to_string(round.operation) || (!inputs.empty() && of.contributions != inputs.front().of.contributions))
      return fail(ErrorName::ReplayImpossible,
                  path.string() + " is of operation " + of.operation + ", and " + to_string(round.operation) + " was committed");
    if (input.values.size() != run.state.layout().size(round.fragment))
      return fail(ErrorName::ReplayImpossible, path.string() + " has " + std::to_string(input.values.size()) +
                                                   " values, the fragment has " + std::to_string(run.state.layout().size(round.fragment)));
    inputs.push_back(std::move(input));
  }
  return inputs;
}

Result<Digest> replay_round(Run& run, const events::RoundCommitted& round, const std::vector<store::LoadedContribution>& inputs,
                            std::uint64_t turns) {
  const auto& of = inputs.front().of;
  std::vector<Brought> brought(of.contributions.size());
  for (const auto& input : inputs) {
    const auto rank = std::ranges::find(of.contributions, input.of.peer, &Contribution::peer) - of.contributions.begin();
    if (static_cast<std::size_t>(rank) == brought.size())
      return fail(ErrorName::ReplayImpossible, "peer " + to_string(input.of.peer) + " contributed and was no member");
    brought[static_cast<std::size_t>(rank)] = {input.values, input.residual};
  }
  auto request = request_of(run.terms, {round.fragment, round.version, of.ring});
  request.op = round.operation;
  request.contributions = of.contributions;
  PRIME_TRY(const auto mean, reduce(request, brought, turns));
  std::ranges::copy(mean, run.state.result(round.fragment).begin());
  const StepGain gain{.contributors = static_cast<std::uint32_t>(inputs.size()), .radii = of.radii};
  return run.state.prepare(round.operation, round.fragment, gain);
}

}  // namespace

Result<Replay> replay(const Options& options) {
  const auto id = std::filesystem::weakly_canonical(options.run).filename().string();
  PRIME_TRY(const auto rounds, committed_rounds(telemetry::coordinator_journal(options.run)));
  std::vector<std::filesystem::path> directories{options.run};
  directories.insert(directories.end(), options.contributions.begin(), options.contributions.end());
  PRIME_TRY(const auto kept, KeptFiles::find(directories));
  PRIME_TRY(auto run, begin(kept, id));
  Replay result;
  result.run = id;
  result.committed = rounds.size();
  result.fragments = run.state.layout().fragments();
  if (rounds.front().revision != run.state.counters().revision.next())
    return fail(ErrorName::ReplayImpossible, "its journal begins with revision " + std::to_string(rounds.front().revision.value) +
                                                 ", and what was kept first leads to " +
                                                 std::to_string(run.state.counters().revision.value + 1));
  for (const auto& round : rounds) {
    const auto of_round = "replaying revision " + std::to_string(round.revision.value);
    if (round.fragment >= result.fragments || round.contributors.empty())
      return fail(ErrorName::ReplayImpossible,
                  "revision " + std::to_string(round.revision.value) + ": the journal names no such fragment, or no contributor");
    const auto inputs = inputs_of(kept, run, round);
    if (!inputs) return fail(Error{inputs.error()}.with_context(of_round));
    const auto made = replay_round(run, round, *inputs, options.turns);
    if (!made) return fail(Error{made.error()}.with_context(of_round));
    if (*made != round.digest) {
      result.difference = Difference{round.revision, round.fragment, round.version, round.digest, *made};
      break;
    }
    PRIME_CHECK(run.state.commit(round.operation, 0));
    ++result.rounds;
    result.contributions += inputs->size();
    if (options.on_round) options.on_round(result.rounds, rounds.size());
  }
  result.state = run.state.digest();
  const auto fragments = run.state.fragments();
  result.outer_step = std::ranges::min_element(fragments, {}, &Fragment::version)->version;
  return result;
}

}  // namespace prime::replay

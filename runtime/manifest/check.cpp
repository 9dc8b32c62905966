#include "runtime/manifest/check.hpp"

#include <cmath>
#include <utility>

#include "runtime/manifest/values.hpp"
#include "runtime/models/architecture.hpp"

namespace prime::manifest {
namespace {

void check_model(const Model& model, std::vector<Conflict>& found) {
  const auto dim = std::to_string(model.dim);
  const auto heads = std::to_string(model.heads);
  if (model.dim % model.heads != 0) {
    found.push_back({{"model.dim", "model.heads"},
                     "`model.dim` must be a multiple of `model.heads`, found " + dim + " and " + heads,
                     "for example `dim: " + std::to_string((model.dim / model.heads / 2 + 1) * 2 * model.heads) + "`"});
  }
  models::architecture_of(model.arch).check(model, found);
}

void check_samples(const Shared& shared, std::vector<Conflict>& found) {
  // A sample is `context` predicted tokens and the one before them.
  const std::uint64_t sample = std::uint64_t{shared.model.context} + 1;
  const auto holds_a_sample = [&](std::string_view path, std::uint64_t bytes) {
    if (bytes >= sample) return;
    found.push_back({{path, "model.context"},
                     "`" + std::string{path} + "` must hold one sample, `model.context` + 1 = " + std::to_string(sample) +
                         " bytes, found " + print_byte_count(bytes),
                     "raise it, or lower `model.context`"});
  };
  holds_a_sample("data.per_file", shared.data.per_file_bytes);
  if (shared.data.held_out_percent == 0) return;
  holds_a_sample("data.held_out_per_file", shared.data.held_out_per_file_bytes);
  holds_a_sample("data.held_out_limit", shared.data.held_out_limit_bytes);
  holds_a_sample("train.evaluate.limit", shared.train.evaluate.limit_bytes);
}

void check_optimizer(const Train& train, std::vector<Conflict>& found) {
  const auto* sgd = std::get_if<Sgd>(&train.optimizer);
  if (sgd == nullptr || !sgd->nesterov || sgd->momentum > 0) return;
  found.push_back({{"train.optimizer.sgd.nesterov", "train.optimizer.sgd.momentum"},
                   "`train.optimizer.sgd.nesterov` needs a `momentum` above 0, found 0",
                   "for example `momentum: 0.9`, or leave `nesterov` out"});
}

/// Whether f = θ²/2 converges with inner steps that go half the way to its minimum, when each outer step is applied one later:
/// v ← μ v + Δ, G ← G − η (Δ + μ v). A trainer goes on from A = G − η (ω Δ' + μ w), w ← μ w + ω Δ', with its own share ω of what it
/// contributed last.
bool converges_delayed(const Nesterov& outer, double share) {
  constexpr int STEPS = 2000;
  constexpr double PART = 0.5;
  double shared = 1;
  double momentum = 0;
  double given = 1;
  double expected = 0;
  double in_flight = 0;
  for (int step = 0; step < STEPS; ++step) {
    momentum = outer.momentum * momentum + in_flight;
    shared -= outer.learning_rate * (in_flight + outer.momentum * momentum);
    in_flight = PART * given;
    expected = outer.momentum * expected + share * in_flight;
    given = shared - outer.learning_rate * (share * in_flight + outer.momentum * expected);
    if (std::abs(shared) > 1e6) return false;
  }
  return std::abs(shared) < 1;
}

void check_merge(const Shared& shared, std::vector<Conflict>& found) {
  if (shared.sync.merge == Merge::Mean) return;
  if (shared.sync.eager)
    found.push_back({{"sync.merge", "sync.eager"},
                     "`sync.merge` must be mean where `sync.eager` is true: a trainer goes on with its own part of a mean",
                     "for example `algorithm: delayed`, which may merge radially"});
  if (const auto shards = shared.membership.shards; shards > 1)
    found.push_back({{"sync.merge", "membership.shards"},
                     "`sync.merge` must be mean where `membership.shards` is above 1, found " + std::to_string(shards) +
                         ": no shard knows how long the whole of a tensor is",
                     "leave `merge` out, or hold the model in one peer"});
}

void check_algorithm(const Shared& shared, std::vector<Conflict>& found) {
  const auto& sync = shared.sync;
  if (sync.eager && (sync.overlap != sync.inner_steps || sync.mix > 0))
    found.push_back({{"sync.eager", sync.mix > 0 ? "sync.mix" : "sync.overlap"},
                     "`sync.eager` needs a whole outer step that overlaps, `overlap: " + std::to_string(sync.inner_steps) +
                         "`, and `mix: 0`, found " + std::to_string(sync.overlap) + " and " + print_number(sync.mix),
                     "for example `algorithm: eager` without these keys"});
  if (sync.decoupled() && (sync.overlap > 0 || sync.mix > 0 || sync.eager))
    found.push_back(
        {{"sync.algorithm", sync.overlap > 0 ? "sync.overlap"
                            : sync.mix > 0   ? "sync.mix"
                                             : "sync.eager"},
         "`sync.algorithm: decoupled` takes over each result as it is, when it arrives: `overlap` and `mix` must be 0 and `eager` "
         "false",
         "leave them out, or `algorithm: streaming`"});
  if (sync.weight == Weighting::Throughput && !sync.decoupled())
    found.push_back({{"sync.weight", "sync.algorithm"},
                     "`sync.weight: throughput` needs `sync.algorithm: decoupled`: with any other all peers make the same inner steps",
                     "leave `weight` out to weigh by tokens"});
  if (sync.decoupled() && shared.membership.correlated_loss == CorrelatedLoss::Rollback)
    found.push_back({{"sync.algorithm", "membership.correlated_loss"},
                     "`membership.correlated_loss` must not be rollback with `sync.algorithm: decoupled`, whose fragments are of different "
                     "steps",
                     "`continue` or `pause`"});
  if (sync.overlap == 0 && !sync.streams()) return;
  const auto* const because = sync.decoupled() ? "sync.algorithm" : sync.overlap > 0 ? "sync.overlap" : "sync.fragments.offsets";
  if (sync.overlap > sync.inner_steps)
    found.push_back({{"sync.overlap", "sync.inner_steps"},
                     "`sync.overlap` must be at most `sync.inner_steps`, found " + std::to_string(sync.overlap) + " and " +
                         std::to_string(sync.inner_steps),
                     "for example `overlap: " + std::to_string(sync.inner_steps) + "`"});
  if (sync.offsets == Offsets::Spread && sync.overlap >= sync.inner_steps)
    found.push_back({{"sync.overlap", "sync.fragments.offsets"},
                     "`sync.overlap` must be below `sync.inner_steps` where `sync.fragments.offsets` is `spread`, found " +
                         std::to_string(sync.overlap) + ": a fragment would be published again before its result is taken over",
                     "for example `overlap: " + std::to_string(sync.inner_steps / sync.fragments.count) + "`, or `offsets: end`"});
  if (sync.quorum > 0 && !sync.decoupled())
    found.push_back({{"sync.quorum", because},
                     "`sync.quorum` must be 0 where training goes on beside a reduce (`" + std::string{because} + "`), found " +
                         std::to_string(sync.quorum),
                     "leave `quorum` out to wait for all"});
  if (const auto shards = shared.membership.shards; shards > 1 && sync.decoupled())
    found.push_back({{"membership.shards", "sync.algorithm"},
                     "`membership.shards` must be 1 with `sync.algorithm: decoupled`, found " + std::to_string(shards) +
                         ": the trainers of a replica cannot each have a time of their own",
                     "any other algorithm trains models in several processes"});
  if (const auto every = shared.train.evaluate.every; every > 0 && (sync.streams() || sync.eager))
    found.push_back({{"train.evaluate.every", sync.eager ? "sync.eager" : because},
                     "`train.evaluate.every` must be 0 where " +
                         (sync.eager ? std::string{"trainers go on from states of their own (`sync.eager`)"}
                                     : "fragments are taken over one by one (`" + std::string{because} + "`)") +
                         ", found " + std::to_string(every) + ": no trainer holds the shared state on the way",
                     "`every: 0`: the final state is evaluated"});
  const double share = sync.eager ? 1.0 / shared.membership.peers.maximum : 0;
  if (sync.overlap == sync.inner_steps && !converges_delayed(sync.outer, share))
    found.push_back({{"sync.outer.nesterov.lr", "sync.algorithm"},
                     "`sync.outer` with `lr: " + print_number(sync.outer.learning_rate) +
                         "` and `momentum: " + print_number(sync.outer.momentum) +
                         "` does not converge where each outer step is applied one step later (`sync.overlap` is `sync.inner_steps`, as "
                         "with `delayed` and `eager`)",
                     "for example `outer: {nesterov: {lr: 0.4, momentum: 0.5}}`, or a momentum of 0"});
}

void check_quorum(const Shared& shared, std::vector<Conflict>& found) {
  const auto& sync = shared.sync;
  const auto& peers = shared.membership.peers;
  if (sync.quorum == 0) return;
  // Where nobody waits the minimum is of members, all of which vote on what the others have made.
  if ((sync.quorum < peers.minimum && !sync.decoupled()) || sync.quorum > peers.maximum)
    found.push_back({{"sync.quorum", "membership.peers"},
                     "`sync.quorum` must be within `membership.peers`, found " + std::to_string(sync.quorum) + " and " +
                         std::to_string(peers.minimum) + ".." + std::to_string(peers.maximum),
                     "for example `quorum: " + std::to_string(peers.minimum) + "`, or 0 to wait for all"});
  if (sync.grace > sync.deadline)
    found.push_back(
        {{"sync.grace", "sync.deadline"},
         "`sync.grace` must be at most `sync.deadline`, found " + print_duration(sync.grace) + " and " + print_duration(sync.deadline),
         "for example `grace: " + print_duration(sync.deadline) + "`"});
}

void check_wire(const Wire& wire, std::vector<Conflict>& found) {
  if (wire.codec != Codec::None) return;
  if (wire.result_codec != Codec::None)
    found.push_back(
        {{"sync.wire.result_codec", "sync.wire.codec"},
         "`sync.wire.result_codec` must be none where `sync.wire.codec` is none, found " + std::string{to_string(wire.result_codec)},
         "give contributions a codec, too, or leave `result_codec` out"});
  if (wire.feedback)
    found.push_back({{"sync.wire.feedback", "sync.wire.codec"},
                     "`sync.wire.feedback` needs a codec that loses something, and `sync.wire.codec` is none",
                     "for example `codec: int4`"});
}

bool holds_several(DataFormat format) {
  return format != DataFormat::Text && format != DataFormat::Tokens && format != DataFormat::Tokens32;
}

void check_vocab(const Data& data, std::uint32_t vocab, std::vector<Conflict>& found) {
  if (!data.tokenizer.is_bytes()) return;
  const bool several = data.sources.empty() ? holds_several(data.source)
                                            : std::any_of(data.sources.begin(), data.sources.end(),
                                                          [](const Source& source) { return holds_several(source.format); });
  const std::uint32_t least = several ? 257 : 256;
  if (vocab >= least) return;
  found.push_back({{"model.vocab", "data.tokenizer"},
                   "`model.vocab` must be at least " + std::to_string(least) + " for the tokenizer `bytes`" +
                       (several ? " and files of several documents, whose end is the id 256" : "") + ", found " + std::to_string(vocab),
                   "for example `vocab: " + std::to_string(least) + "`"});
}

/// What a source asks for that its format has not.
void check_source(const Source& source, std::vector<Conflict>& found) {
  const auto refuse = [&](std::string message, std::string hint) {
    found.push_back({{"data.sources"}, "`data.sources` " + std::move(message), std::move(hint)});
  };
  const bool fastq = source.format == DataFormat::Fastq;
  const bool cleans =
      !source.adapter.empty() || source.n_percent < 100 || source.min_length > 0 || source.max_length > 0 || source.deduplicate;
  if (cleans && !fastq && source.format != DataFormat::Fasta)
    refuse("has `adapter`, `n_limit`, `min_length`, `max_length` or `deduplicate` for a source that holds no reads",
           "they are for the formats `fasta` and `fastq`");
  if ((source.quality_trim > 0 || source.collapse != Collapse::Off) && !fastq)
    refuse("has `quality_trim` or `collapse` for a source without scores and pairs", "they are for the format `fastq`");
  if (source.field != Source{}.field && source.format != DataFormat::Jsonl && source.format != DataFormat::Parquet)
    refuse("has a `field`, found " + source.field + ", for a source without fields", "it is for the formats `jsonl` and `parquet`");
  constexpr std::size_t LEAST_ADAPTER = 3;
  if (!source.adapter.empty() && source.adapter.size() < LEAST_ADAPTER)
    refuse("has an `adapter` of " + std::to_string(source.adapter.size()) + " bases, found " + source.adapter,
           "it is found by three bases or more");
  if (source.max_length > 0 && source.max_length < source.min_length)
    refuse("has a `max_length` below its `min_length`: " + std::to_string(source.max_length) + " and " + std::to_string(source.min_length),
           "no read would be left");
}

void check_data(const Data& data, std::uint32_t vocab, std::vector<Conflict>& found) {
  check_vocab(data, vocab, found);
  const auto beside_sources = [&](std::string_view key, bool chosen) {
    if (data.sources.empty() || !chosen) return;
    found.push_back({{key, "data.sources"},
                     "`" + std::string{key} + "` has no part in a run with `data.sources`, which say where the data lies and what it is",
                     "leave one of them out"});
  };
  beside_sources("data.path", data.path != Data{}.path);
  beside_sources("data.source", data.source != Data{}.source);
  for (const auto& source : data.sources) check_source(source, found);
  const auto weighted = std::count_if(data.sources.begin(), data.sources.end(), [](const Source& source) { return source.weight.given(); });
  if (weighted > 0 && weighted < static_cast<std::ptrdiff_t>(data.sources.size()))
    found.push_back(
        {{"data.sources"}, "`data.sources` has a `weight` for some sources and none for others", "give all of them one, or none"});
  const auto changes = [](const Source& source) { return source.weight.changes(); };
  if (data.draw == Draw::Range && (weighted == 0 || std::any_of(data.sources.begin(), data.sources.end(), changes)))
    found.push_back({{"data.draw", "data.sources"},
                     std::string{"`data.draw: range` needs `data.sources` with weights that do not change, found "} +
                         (weighted == 0 ? "none" : "points"),
                     "give each source a `weight`, one number, or leave `draw` out"});
  // Between two points all are lines: their sum is 0 there only where it is 0 at both.
  for (const auto& source : data.sources)
    for (const auto& point : source.weight.points) {
      const auto is_out = [&](const Source& other) { return weight_at(other.weight, point.at) == 0; };
      if (!std::all_of(data.sources.begin(), data.sources.end(), is_out)) continue;
      found.push_back({{"data.sources"},
                       "`data.sources` has no `weight` above 0 at sample " + std::to_string(point.at),
                       "let a source begin where another ends"});
      return;
    }
}

void check_standby(const Membership& membership, std::vector<Conflict>& found) {
  const auto& [etcd, lease] = membership.standby;
  // A lease runs out, a standby notices, peers find it: all that before they give the run up.
  if (etcd.empty() || lease <= membership.coordinator_grace / 2) return;
  found.push_back({{"membership.standby.lease", "membership.coordinator_grace"},
                   "`membership.standby.lease` must be at most half of `membership.coordinator_grace`, found " + print_duration(lease) +
                       " and " + print_duration(membership.coordinator_grace),
                   "for example `lease: 10s` and `coordinator_grace: 1min`"});
}

}  // namespace

std::vector<Conflict> conflicts(const Manifest& manifest) {
  std::vector<Conflict> found;
  const auto& [shared, local] = manifest;
  check_model(shared.model, found);
  check_samples(shared, found);
  check_optimizer(shared.train, found);
  check_quorum(shared, found);
  check_merge(shared, found);
  check_algorithm(shared, found);
  check_wire(shared.sync.wire, found);
  check_standby(shared.membership, found);
  check_data(shared.data, shared.model.vocab, found);
  if (local.data_path && shared.data.sources.size() > 1)
    found.push_back(
        {{"local.data_path", "data.sources"},
         "`local.data_path` replaces one path, and `data.sources` has " + std::to_string(shared.data.sources.size()) + " sources",
         "leave it out, and let the paths of the sources be the same on this machine"});
  const auto& heartbeat = shared.membership.heartbeat;
  if (heartbeat.dead_after < 2 * heartbeat.every)
    found.push_back({{"membership.heartbeat.dead_after", "membership.heartbeat.every"},
                     "`membership.heartbeat.dead_after` must be at least twice `every`, found " + print_duration(heartbeat.dead_after) +
                         " and " + print_duration(heartbeat.every),
                     "for example `dead_after: " + print_duration(5 * heartbeat.every) + "`"});
  if (shared.membership.correlated_loss == CorrelatedLoss::Rollback && shared.checkpoint.every == 0)
    found.push_back({{"membership.correlated_loss", "checkpoint.every"},
                     "`membership.correlated_loss: rollback` needs checkpoints on the way, found `checkpoint.every` 0",
                     "for example `checkpoint: {every: 10}`, or `correlated_loss: pause`"});
  if (shared.checkpoint.keep_contributions && shared.membership.shards > 1)
    found.push_back({{"checkpoint.keep_contributions", "membership.shards"},
                     "`checkpoint.keep_contributions` is for runs whose peers hold the whole model each, found `membership.shards` " +
                         std::to_string(shared.membership.shards),
                     "leave one of them out"});
  return found;
}

Result<void> check_shards(const Shared& shared, const Local& local) {
  const auto shards = shared.membership.shards;
  if (shards == 1 || !local.trainer_command.empty()) return {};
  return fail(ErrorName::Usage, "the run's model is held in parts (`membership.shards` is " + std::to_string(shards) +
                                    "), and the built-in trainer holds a whole one: `local.trainer_command` must name a trainer of your "
                                    "own (docs/EMBEDDING.md)");
}

}  // namespace prime::manifest

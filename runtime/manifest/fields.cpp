#include "runtime/manifest/fields.hpp"

#include <algorithm>
#include <limits>

#include "messages/membership.hpp"
#include "runtime/manifest/field_rows.hpp"
#include "runtime/manifest/text_rules.hpp"
#include "runtime/models/architecture.hpp"

namespace prime::manifest {
namespace {

/// Of something that has only one alternative today.
Alternative only(std::string_view word) {
  return {{word}, [](const Manifest&) { return std::size_t{0}; }, [](Manifest&, std::size_t) {}};
}

void add_rope_scaling(std::vector<Field>& t) {
  t.push_back({"model.rope_scaling", "rotations slowed down, for windows longer than a model learned with; not with `gpt2`", Section{}});
  t.push_back({"model.rope_scaling.kind",
               "rotations that are slowed down. `linear`: all; `llama3`: the slow ones, as Llama 3.1 does; both are what `rope_type` of "
               "Hugging Face means",
               CHOICE(shared.model.rope_scaling.kind, "none", "linear", "llama3")});
  t.push_back({"model.rope_scaling.factor", "divisor of their frequencies; more than 1 with a `kind`",
               Decimal{AT(shared.model.rope_scaling.factor), up_to(1e6)}});
  t.push_back({"model.rope_scaling.low_freq_factor", "`llama3`: waves longer than `original_context` / this are slowed down whole",
               Decimal{AT(shared.model.rope_scaling.low_freq_factor), up_to(1e6)}});
  t.push_back({"model.rope_scaling.high_freq_factor", "`llama3`: waves shorter than `original_context` / this are left as they are",
               Decimal{AT(shared.model.rope_scaling.high_freq_factor), up_to(1e6)}});
  t.push_back({"model.rope_scaling.original_context", "`llama3`: tokens of the windows that the model learned with before",
               Integer{AT(shared.model.rope_scaling.original_context), 1, 1U << 24}});
}

void add_model(std::vector<Field>& t) {
  t.push_back({"model", "the decoder that is trained", Section{}});
  t.push_back(
      {"model.arch",
       "architecture. `llama`: RoPE, RMSNorm, SwiGLU, grouped-query attention; `gpt2`: learned positions, LayerNorm, GELU, biases. It "
       "sets what is not given of `ffn` and `tie_embeddings`",
       CHOICE(shared.model.arch, "llama", "gpt2")});
  t.push_back({"model.layers", "decoder blocks", Integer{AT(shared.model.layers), 1, 1024}});
  t.push_back({"model.dim", "width of the residual stream; a multiple of `heads`", Integer{AT(shared.model.dim), 2, 65536}});
  t.push_back({"model.heads", "query heads; dim / heads is even with `llama`", Integer{AT(shared.model.heads), 1, 1024}});
  t.push_back({.path = "model.kv_heads",
               .meaning = "key and value heads; divides `heads`; `heads` with `gpt2`",
               .type = Integer{AT(shared.model.kv_heads), 1, 1024},
               .derived = "heads",
               .derive = [](Manifest& m) { m.shared.model.kv_heads = m.shared.model.heads; }});
  t.push_back(
      {.path = "model.ffn",
       .meaning = "inner width of the part behind attention",
       .type = Integer{AT(shared.model.ffn), 1, 1U << 20},
       .derived = "8/3 dim, rounded up to a multiple of 32; 4 dim with `gpt2`",
       .derive = [](Manifest& m) { m.shared.model.ffn = models::architecture_of(m.shared.model.arch).usual_ffn(m.shared.model.dim); }});
  t.push_back({"model.vocab", "token ids; at least 256 for the tokenizer `bytes`", Integer{AT(shared.model.vocab), 1, 1U << 24}});
  t.push_back({"model.context", "tokens of a sample that are predicted; so many positions has a `gpt2`",
               Integer{AT(shared.model.context), 1, 1U << 20}});
  t.push_back({"model.rope_theta", "base of the rotary frequencies; not with `gpt2`", Decimal{AT(shared.model.rope_theta), up_to(1e12)}});
  add_rope_scaling(t);
  t.push_back({"model.attention_bias", "the four projections of attention have biases; not with `gpt2`, which always has them",
               Flag{AT(shared.model.attention_bias)}});
  t.push_back({"model.norm_epsilon", "added to the mean square that a norm divides by", Decimal{AT(shared.model.norm_epsilon), up_to(1)}});
  t.push_back({.path = "model.tie_embeddings",
               .meaning = "the output layer is the embedding, transposed",
               .type = Flag{AT(shared.model.tie_embeddings)},
               .derived = "true with `gpt2`, else false",
               .derive = [](Manifest& m) { m.shared.model.tie_embeddings = models::architecture_of(m.shared.model.arch).usually_tied(); }});
}

void derive_overlap(Manifest& m) {
  auto& sync = m.shared.sync;
  sync.overlap = 0;
  if (sync.algorithm == Algorithm::Delayed || sync.algorithm == Algorithm::Eager) sync.overlap = sync.inner_steps;
  if (sync.algorithm == Algorithm::Streaming) sync.overlap = std::min(5U, sync.inner_steps / sync.fragments.count);
}

void add_sync(std::vector<Field>& t) {
  t.push_back({"sync", "how peers agree on one model", Section{}});
  t.push_back(
      {"sync.algorithm",
       "`diloco`: many inner steps, then one averaged outer step, for which all wait; `delayed`: the same, reduced while the next one is "
       "trained, which hides the network where a reduce takes no longer than the inner steps, and wants a lower outer `lr`; `eager`: the "
       "same, but a trainer goes on at once with its own part of what is reduced; `streaming`: fragments are published one after the "
       "other, "
       "so that the network is never asked for the whole model at once, and each is reduced while training goes on; `decoupled`: the same, "
       "and no peer waits for another one: whoever is due first opens the round of a fragment, the others bring what they have by then, "
       "and each trains on at its own speed. It sets what is not given of `overlap`, `mix`, `eager`, `weight`, `quorum`, "
       "`fragments.offsets` and the "
       "outer `lr`",
       CHOICE(shared.sync.algorithm, "diloco", "delayed", "eager", "streaming", "decoupled")});
  t.push_back({"sync.inner_steps", "optimizer steps in one outer step", Integer{AT(shared.sync.inner_steps), 1, 1'000'000}});
  t.push_back({.path = "sync.overlap",
               .meaning =
                   "inner steps that a trainer makes between the publication of a fragment and its result, which it waits for then; 0: "
                   "it waits at once",
               .type = Integer{AT(shared.sync.overlap), 0, 1'000'000},
               .derived = "0 with `diloco`, `inner_steps` with `delayed` and `eager`, 5 with `streaming`, but no more than `inner_steps` / "
                          "`fragments.count`",
               .derive = derive_overlap});
  t.push_back(
      {.path = "sync.mix",
       .meaning = "how much of its own parameters a trainer keeps when it takes over a result: α θ + (1 − α) G; 1 ignores the others",
       .type = Decimal{AT(shared.sync.mix), FRACTION},
       .derived = "0.5 with `streaming`, else 0",
       .derive = [](Manifest& m) { m.shared.sync.mix = m.shared.sync.algorithm == Algorithm::Streaming ? 0.5 : 0; }});
  t.push_back({.path = "sync.eager",
               .meaning =
                   "where a whole outer step overlaps: a trainer begins the next one with what its peer expects of its own contribution, "
                   "as if the others had brought nothing, until the mean is there",
               .type = Flag{AT(shared.sync.eager)},
               .derived = "true with `eager`, else false",
               .derive = [](Manifest& m) { m.shared.sync.eager = m.shared.sync.algorithm == Algorithm::Eager; }});
  t.push_back(
      {"sync.merge",
       "`mean`: of the contributions, by their weights; `radial`: of the tensors of layers, directions and lengths are averaged apart, "
       "which keeps the step as long with many peers, whose contributions point apart, as with few (Decoupled DiLoCo, arXiv:2604.21428); "
       "embeddings and heads are averaged plainly",
       CHOICE(shared.sync.merge, "mean", "radial")});
  t.push_back(
      {.path = "sync.weight",
       .meaning = "what a contribution weighs: the `tokens` that it was trained on, or their `throughput`, tokens² by inner steps: a peer "
                  "that trains on larger batches weighs more for the same tokens (Decoupled DiLoCo, arXiv:2604.21428)",
       .type = CHOICE(shared.sync.weight, "tokens", "throughput"),
       .derived = "`throughput` with `decoupled`, else `tokens`",
       .derive = [](Manifest& m) { m.shared.sync.weight = m.shared.sync.decoupled() ? Weighting::Throughput : Weighting::Tokens; }});
  t.push_back({"sync.outer", "outer optimizer, on the averaged pseudo-gradient", only("nesterov")});
  t.push_back({"sync.outer.nesterov", "momentum with Nesterov's look-ahead", Section{}});
  t.push_back({.path = "sync.outer.nesterov.lr",
               .meaning = "outer learning rate",
               .type = Decimal{AT(shared.sync.outer.learning_rate), up_to(1000)},
               .derived = "0.4 with `streaming` and `eager`, else 0.7",
               .derive = [](Manifest& m) {
                 auto& sync = m.shared.sync;
                 sync.outer.learning_rate = sync.algorithm == Algorithm::Streaming || sync.algorithm == Algorithm::Eager ? 0.4 : 0.7;
               }});
  t.push_back({"sync.outer.nesterov.momentum", "decay of the outer momentum", Decimal{AT(shared.sync.outer.momentum), BELOW_ONE}});
  t.push_back({"sync.fragments", "parts of the model, each of whole tensors, that are reduced and committed by themselves", Section{}});
  t.push_back({"sync.fragments.count", "how many; more need less memory and void less work when a reduce fails",
               Integer{AT(shared.sync.fragments.count), 1, MAX_FRAGMENTS}});
  t.push_back(
      {"sync.fragments.pattern",
       "of layers, whose number stands in their tensors' names: `strided` puts layer l into fragment l mod count, `sequential` keeps "
       "neighbours together, `balanced` makes equal sizes of all tensors; what belongs to no layer goes to the smallest fragments",
       CHOICE(shared.sync.fragments.pattern, "strided", "sequential", "balanced")});
  t.push_back({.path = "sync.fragments.offsets",
               .meaning = "when they are published: all at the `end` of an outer step, or `spread` over its inner steps",
               .type = CHOICE(shared.sync.offsets, "end", "spread"),
               .derived = "`spread` with `streaming` and `decoupled`, else `end`",
               .derive = [](Manifest& m) {
                 auto& sync = m.shared.sync;
                 sync.offsets = sync.algorithm == Algorithm::Streaming || sync.decoupled() ? Offsets::Spread : Offsets::End;
               }});
  t.push_back(
      {"sync.in_flight",
       "fragments that are reduced at once, at most: while one is voted on, the next one moves; each takes the memory of its mean and "
       "its next version",
       Integer{AT(shared.sync.in_flight), 1, MAX_FRAGMENTS}});
  t.push_back({"sync.wire", "what travels in a reduce", Section{}});
  t.push_back({"sync.wire.codec", "compression; `none` sends 32-bit floats",
               CHOICE(shared.sync.wire.codec, "none", "f16", "bf16", "int8-minmax", "int8-zeropoint", "int8", "int4", "e3m0")});
  t.push_back(
      {.path = "sync.wire.result_codec",
       .meaning = "of the mean, where contributions have a codec: as 4 bits up, 8 down",
       .type = CHOICE(shared.sync.wire.result_codec, "none", "f16", "bf16", "int8-minmax", "int8-zeropoint", "int8", "int4", "e3m0"),
       .derived = "`codec`",
       .derive = [](Manifest& m) { m.shared.sync.wire.result_codec = m.shared.sync.wire.codec; }});
  t.push_back({"sync.wire.feedback",
               "error feedback: what the codec loses of a contribution is kept by its peer, and added to the next one; saved with what its "
               "trainer keeps for itself",
               Flag{AT(shared.sync.wire.feedback)}});
  t.push_back({"sync.wire.rounding", "of a codec: to the nearest value, or stochastic, which is right on average",
               CHOICE(shared.sync.wire.rounding, "nearest", "stochastic")});
  t.push_back({"sync.wire.schedule", "who sends to whom: auto chooses by size; a ring that missed its deadline is tried directly next",
               CHOICE(shared.sync.wire.schedule, "auto", "direct", "ring")});
  t.push_back({"sync.wire.streams", "connections between two peers; more than one where a network caps each",
               Integer{AT(shared.sync.wire.streams), 1, 64}});
  t.push_back({"sync.deadline",
               "a reduce or a state fetch is given up when no byte of it moves for so long, however long it takes in all; also how long "
               "the slowest peer may be behind the first",
               TimeSpan{AT(shared.sync.deadline), 100ms, 24 * HOUR}});
  t.push_back({.path = "sync.quorum",
               .meaning = "contributions that close an outer step without those of slower peers, which bring their work to a later one; 0: "
                          "waits for all, and evicts at the deadline; with `decoupled` it closes the round of a fragment, what comes too "
                          "late is dropped, and nobody is evicted for being slow",
               .type = Integer{AT(shared.sync.quorum), 0, MAX_PEERS},
               .derived = "1 with `decoupled`, else 0",
               .derive = [](Manifest& m) { m.shared.sync.quorum = m.shared.sync.decoupled() ? 1 : 0; }});
  t.push_back({"sync.grace", "once the quorum is ready, the others get so long; at most `deadline`",
               TimeSpan{AT(shared.sync.grace), 0ms, 24 * HOUR}});
  t.push_back({"sync.alone", "what the last peer does when more are asked for: wait for others, or stop",
               CHOICE(shared.sync.alone, "wait", "stop")});
}

void add_house(std::vector<Field>& t) {
  t.push_back({"membership", "who may take part, and who counts as lost", Section{}});
  t.push_back(
      {"membership.peers", "fewest and most peers, as `2..8`; from 1 for a run of one", Peers{AT(shared.membership.peers), MAX_PEERS}});
  t.push_back({"membership.shards",
               "parts of one model, each held by a peer of its own, whose trainer is `local.trainer_command`: `peers` counts whole models "
               "then, the replicas; not with `sync.algorithm: decoupled`, nor with `sync.merge: radial`",
               Integer{AT(shared.membership.shards), 1, MAX_SHARDS}});
  t.push_back({"membership.heartbeat", "signs of life", Section{}});
  t.push_back({"membership.heartbeat.every", "time between two heartbeats", TimeSpan{AT(shared.membership.heartbeat.every), 10ms, HOUR}});
  t.push_back({"membership.heartbeat.dead_after", "silence after which a peer is lost; at least twice `every`",
               TimeSpan{AT(shared.membership.heartbeat.dead_after), 20ms, 24 * HOUR}});
  t.push_back({"membership.wait_limit", "wait for enough peers before the run fails",
               TimeSpan{AT(shared.membership.wait_limit), 100ms, 7 * 24 * HOUR}});
  t.push_back({"membership.coordinator_grace", "a peer waits for a lost coordinator to come back",
               TimeSpan{AT(shared.membership.coordinator_grace), 100ms, 7 * 24 * HOUR}});
  t.push_back({"membership.correlated_loss",
               "when a third of the members or more (two at least) are lost within `dead_after`: `continue` with the others, `pause` until "
               "others have come in their place, for `wait_limit` at most, or `rollback` to the last step that `checkpoint.every` saved, "
               "with those "
               "that are left; `sync.alone: stop` goes before",
               CHOICE(shared.membership.correlated_loss, "continue", "pause", "rollback")});
  t.push_back({"membership.standby", "coordinators on other machines that take over (`primectl standby`)", Section{}});
  t.push_back({"membership.standby.etcd",
               "the etcd that says who leads and keeps what was decided, as `[http://10.0.0.5:2379]`; empty: nobody stands by",
               TextList{AT(shared.membership.standby.etcd), URL_RULE, 8}});
  t.push_back({"membership.standby.lease",
               "after so long without a sign of life of the leader another one takes over; at most half of `coordinator_grace`",
               TimeSpan{AT(shared.membership.standby.lease), 2s, HOUR}});
  t.push_back({"topology", "who sends to whom where links differ", Section{}});
  t.push_back({"topology.ring",
               "order of the peers in a ring: `join_order`, or `measured_bandwidth`, which measures the links between them in the "
               "background and avoids the slow ones; with the `auto` schedule a ring is taken where it beats sending directly",
               CHOICE(shared.topology.ring, "join_order", "measured_bandwidth")});
  t.push_back({"topology.measure_every", "a link is measured again; all of them are at once when a reduce takes twice as long as the last",
               TimeSpan{AT(shared.topology.measure_every), 1s, 24 * HOUR}});
  t.push_back({"trust", "how connections are protected", Section{}});
  t.push_back({"trust.transport", "tls: only holders of the run's key; plain: anyone, unencrypted",
               CHOICE(shared.trust.transport, "tls", "plain")});
  t.push_back({"checkpoint", "files to restart or publish from", Section{}});
  t.push_back({"checkpoint.every", "outer steps between two; 0: only at the end", Integer{AT(shared.checkpoint.every), 0, MANY}});
  t.push_back({"checkpoint.keep", "newest ones that are kept, and one more of what trainers keep for themselves",
               Integer{AT(shared.checkpoint.keep), 1, 1'000'000}});
  t.push_back({"checkpoint.retry", "a peer that ends with the run's state tries so long to write it, while its disk is full, say",
               TimeSpan{AT(shared.checkpoint.retry), 0ms, 24 * HOUR}});
  t.push_back({"checkpoint.keep_contributions",
               "each peer keeps on its disk what it brings to each round, before it votes: 4 bytes for each parameter of the fragment, and "
               "nothing is ever removed; `primectl replay` makes every version of the run again from that",
               Flag{AT(shared.checkpoint.keep_contributions)}});
}

void add_local(std::vector<Field>& t) {
  t.push_back({"local", "this peer only: not part of the run's digest, never sent", Section{}});
  t.push_back({"local.network", "where this peer is reached", Section{}});
  t.push_back(
      {"local.network.listen",
       "host:port to accept on, port 0 for any free one; absent: this machine only, unless the run is elsewhere. Of several processes "
       "that one command starts, as a coordinator and its peers, the first has this port and the next ones those that follow",
       OptionalText{AT(local.network.listen), LISTEN_RULE}});
  t.push_back(
      {"local.network.advertise",
       "HOST or HOST:PORT that others reach this machine by, or a list of them, the likeliest first; empty: the addresses that it has. "
       "Ports of further processes follow, as those of `listen`",
       TextList{AT(local.network.advertise), ADVERTISE_RULE, MAX_ADDRESSES, true}});
  t.push_back({"local.network.shared_memory", "lanes to peers of this machine go through memory", Flag{AT(local.network.shared_memory)}});
  t.push_back({"local.network.cap",
               "what this peer sends is kept to this rate: its part of reduces, states for joiners, and what it passes on for others, all "
               "together; not what goes through memory or to the coordinator, nor what it receives; absent: no cap",
               OptionalBitRate{AT(local.network.cap_bits_per_s), 100'000, 1'000'000'000'000}});
  t.push_back({"local.etcd", "how this machine proves itself to the etcd of `membership.standby.etcd`", Section{}});
  t.push_back({"local.etcd.authority", "PEM file with the CA of its certificate, where the system does not trust it",
               OptionalText{AT(local.etcd.authority), PATH_RULE}});
  t.push_back({"local.etcd.certificate", "PEM file that is shown to an etcd which asks for one",
               OptionalText{AT(local.etcd.certificate), PATH_RULE}});
  t.push_back({"local.etcd.key", "PEM file with the key of `certificate`", OptionalText{AT(local.etcd.key), PATH_RULE}});
  t.push_back({"local.etcd.user", "who may read and write below /prime/ there", OptionalText{AT(local.etcd.user), USER_RULE}});
  t.push_back({"local.etcd.password_file", "file whose first line is the password of `user`; nobody else may read it",
               OptionalText{AT(local.etcd.password_file), PATH_RULE}});
  t.push_back(
      {"local.device",
       "where the trainer computes: cpu, cuda or cuda:N (the GPU with that number), or auto, which takes the first GPU if it can be "
       "used and else the CPU, and says which",
       Text{AT(local.device), DEVICE_RULE}});
  t.push_back(
      {"local.micro_batch",
       "samples of a batch that go through the model at once, for want of memory; their gradients are summed, so that the step is that "
       "of the whole batch but for rounding; 0: all of them",
       Integer{AT(local.micro_batch), 0, 1U << 20}});
  t.push_back(
      {"local.activation_checkpointing",
       "the backward pass computes each block of the model again instead of keeping what the forward pass made of it: about a third more "
       "time for less memory, and the same step",
       Flag{AT(local.activation_checkpointing)}});
  t.push_back({"local.threads", "compute threads of the trainer", Integer{AT(local.threads), 1, 1024}});
  t.push_back({"local.trainer", "when a failing trainer is started again", Section{}});
  t.push_back({"local.trainer.restarts", "restarts allowed `within`; 0: never", Integer{AT(local.trainer.restarts), 0, 1000}});
  t.push_back({"local.trainer.within", "window in which restarts are counted", TimeSpan{AT(local.trainer.within), 1s, 7 * 24 * HOUR}});
  t.push_back({"local.trainer.stall_limit", "time without progress after which the trainer counts as failed",
               TimeSpan{AT(local.trainer.stall_limit), 100ms, 7 * 24 * HOUR}});
  t.push_back(
      {"local.record_every",
       "inner steps between two records of the trainer, from which it goes on exactly when it was started again: its private state and "
       "its local parameters, copied in memory; 0: only where an outer step ends, which costs no parameters. Trainers of shards "
       "record there alone",
       Integer{AT(local.record_every), 0, MANY}});
  t.push_back({"local.data_path", "replaces `data.path`, or the path of the only source, on this machine",
               OptionalText{AT(local.data_path), PATH_RULE}});
  t.push_back({"local.data_cache",
               "where data is kept once it is compiled, for all runs of this machine; absent: $XDG_CACHE_HOME/prime, else ~/.cache/prime",
               OptionalText{AT(local.data_cache), PATH_RULE}});
  t.push_back({"local.trainer_command", "program and arguments of a trainer of your own; empty: prime-trainer",
               TextList{AT(local.trainer_command), ARGUMENT_RULE, 64}});
}

std::vector<Field> build() {
  std::vector<Field> t;
  t.push_back({.path = "version",
               .meaning = "version of the manifest format",
               .type = Integer{AT(shared.version), MANIFEST_VERSION, MANIFEST_VERSION},
               .required = true});
  t.push_back({.path = "run", .meaning = "name of the run", .type = Text{AT(shared.run), RUN_RULE}, .required = true});
  add_model(t);
  add_data(t);
  add_train(t);
  add_sync(t);
  add_house(t);
  add_local(t);
  // The whole model, and not only what its tensors' shapes show: equal tensors with other heads or another context are another function,
  // and the data cursor counts samples of `model.context`.
  for (auto& field : t)
    field.of_state = field.path.starts_with("model.") || field.path.starts_with("data.tokenizer") || field.path == "sync.algorithm" ||
                     field.path == "membership.shards";
  return t;
}

/// Letters to add, drop, change, or swap with a neighbour: what fingers do.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i)
    for (std::size_t j = 1; j <= b.size(); ++j) {
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  return d[a.size()][b.size()];
}

}  // namespace

const std::vector<Field>& fields() {
  static const auto table = build();
  return table;
}

const Field* find_field(std::string_view path) {
  const auto& table = fields();
  const auto found = std::find_if(table.begin(), table.end(), [&](const Field& field) { return field.path == path; });
  return found == table.end() ? nullptr : &*found;
}

bool is_of_list(const Field& field) {
  const auto* parent = find_field(parent_path(field.path));
  return parent != nullptr && std::holds_alternative<Sources>(parent->type);
}

Manifest defaults_of(const Field& field) {
  Manifest manifest;
  if (is_of_list(field)) manifest.shared.data.sources.emplace_back();
  for (auto path = field.path; !path.empty(); path = parent_path(path)) {
    const auto* parent = find_field(parent_path(path));
    const auto* alternative = parent == nullptr ? nullptr : std::get_if<Alternative>(&parent->type);
    if (alternative == nullptr) continue;
    const auto word = std::find(alternative->words.begin(), alternative->words.end(), last_key(path));
    alternative->set(manifest, static_cast<std::size_t>(word - alternative->words.begin()));
  }
  return manifest;
}

std::vector<const Field*> children(std::string_view section) {
  std::vector<const Field*> result;
  for (const auto& field : fields())
    if (parent_path(field.path) == section) result.push_back(&field);
  return result;
}

std::string_view last_key(std::string_view path) { return path.substr(path.rfind('.') + 1); }

std::string_view parent_path(std::string_view path) {
  const auto dot = path.rfind('.');
  return dot == std::string_view::npos ? std::string_view{} : path.substr(0, dot);
}

std::string join_path(std::string_view section, std::string_view key) {
  return section.empty() ? std::string{key} : std::string{section} + "." + std::string{key};
}

bool is_local(std::string_view path) { return path == "local" || path.starts_with("local."); }

std::optional<std::string_view> nearest(std::string_view word, const std::vector<std::string_view>& candidates) {
  constexpr std::size_t LONGEST = 64;
  std::optional<std::string_view> best;
  // A third of the letters may be wrong, and always one; two for short words would match anything.
  auto best_distance = std::max<std::size_t>(2, word.size() / 3 + 1);
  if (word.size() > LONGEST) return std::nullopt;
  for (const auto candidate : candidates)
    if (const auto distance = edit_distance(word, candidate); distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  return best;
}

}  // namespace prime::manifest

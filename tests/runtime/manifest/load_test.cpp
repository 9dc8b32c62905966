// Owns what a valid manifest means: values, defaults, derived defaults, and what other peers may send.
#include "runtime/manifest/load.hpp"

#include "runtime/manifest/canonical.hpp"
#include "runtime/manifest/describe.hpp"
#include "tests/runtime/manifest/support.hpp"

using namespace prime;
using namespace prime::manifest;

namespace {

constexpr std::string_view HEAD = "version: 1\nrun: x\n";

Manifest parsed(const std::string& text) {
  auto outcome = parse_manifest(std::string{HEAD} + text, "x.yaml");
  BOOST_REQUIRE_MESSAGE(outcome.manifest.has_value(), render(outcome));
  return *outcome.manifest;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(loading)

BOOST_AUTO_TEST_CASE(every_manifest_of_the_repository_validates) {
  const auto manifests = test::files_with(test::repository() / "manifests", ".yaml");
  BOOST_TEST(!manifests.empty());
  for (const auto& path : manifests) {
    const auto outcome = load_manifest(path.string());
    BOOST_TEST(outcome.manifest.has_value(), render(outcome));
  }
}

BOOST_AUTO_TEST_CASE(the_quickstart_says_what_its_comments_say) {
  const auto manifest = load_manifest((test::repository() / "manifests/quickstart.yaml").string()).manifest.value();
  BOOST_TEST(manifest.shared.run == "quickstart");
  BOOST_TEST(manifest.shared.train.outer_steps == 60U);
  BOOST_TEST(std::get<AdamW>(manifest.shared.train.optimizer).learning_rate == 8e-3);
  BOOST_TEST(manifest.shared.train.evaluate.every == 10U);
  BOOST_TEST(manifest.shared.data.held_out_percent == 5.0);
  BOOST_TEST(manifest.shared.data.per_file_bytes == 32 * KIB);
  BOOST_TEST(manifest.shared.sync.inner_steps == 20U);
  BOOST_TEST((manifest.shared.membership.peers == PeerRange{2, 8}));
}

BOOST_AUTO_TEST_CASE(what_is_left_out_takes_the_default_of_the_structs) {
  Manifest expected;
  expected.shared.run = "x";
  BOOST_TEST((parsed("") == expected));
}

BOOST_AUTO_TEST_CASE(every_key_can_be_set) {
  const auto manifest = parsed(
      "model: {arch: llama, layers: 3, dim: 128, heads: 8, kv_heads: 2, ffn: 100, vocab: 300, context: 64, rope_theta: 5e5,\n"
      "  rope_scaling: {kind: llama3, factor: 8, low_freq_factor: 2, high_freq_factor: 3, original_context: 32}, attention_bias: true, "
      "norm_epsilon: "
      "1e-6,\n"
      "  tie_embeddings: true}\n"
      "data: {source: text, path: /a b, include: '*', per_file: 1MiB, tokenizer: bytes, held_out: 0.5%, held_out_per_file: 100B,\n"
      "  held_out_limit: 2GiB, seed: 7}\n"
      "train: {batch: 2, outer_steps: 3, optimizer: {adamw: {lr: 1, betas: [0, 0.5], weight_decay: 0, epsilon: 1e-6}}, schedule: "
      "{constant: {}},\n"
      "  precision: bf16, clip_norm: 0.5, z_loss: 1e-4, seed: 4294967295, evaluate: {every: 0, limit: 128B}}\n"
      "sync: {algorithm: diloco, inner_steps: 1, outer: {nesterov: {lr: 1, momentum: 0}}, wire: {codec: none}, deadline: 250ms, quorum: "
      "3,\n"
      "  grace: 100ms, alone: stop}\n"
      "membership: {peers: 1..1024, heartbeat: {every: 100ms, dead_after: 200ms}, wait_limit: 2h, coordinator_grace: 5s, correlated_loss: "
      "pause,\n  standby: {etcd: ['http://10.0.0.5:2379', 'https://[::1]:1'], lease: 2s}}\n"
      "trust: {transport: plain}\n"
      "checkpoint: {every: 5, keep: 1}\n"
      "local: {network: {listen: '[::1]:7077', advertise: peer.example, cap: 40Mbit/s}, etcd: {authority: /ca, user: me, password_file: "
      "p},\n"
      "  device: auto, micro_batch: 5, activation_checkpointing: true, threads: 4,\n"
      "  trainer: {restarts: 0, within: 1min, stall_limit: 1s}, record_every: 7,data_path: /here, trainer_command: [python3, 'my "
      "trainer.py']}\n");
  const auto& shared = manifest.shared;
  BOOST_TEST(
      (shared.model == Model{Architecture::Llama, 3, 128, 8, 2, 100, 300, 64, 5e5, {RopeKind::Llama3, 8, 2, 3, 32}, true, 1e-6, true}));
  BOOST_TEST((shared.data == Data{DataFormat::Text, "/a b", "*", MIB, {}, {}, true, 0.5, 100, 2 * GIB, 7}));
  BOOST_TEST(
      (shared.train == Train{2, 3, AdamW{1, {0, 0.5}, 0, 1e-6}, Constant{}, Precision::Bf16, 0.5, 1e-4, 4294967295U, Evaluate{0, 128}}));
  Sync sync;
  sync.inner_steps = 1;
  sync.outer = Nesterov{1, 0};
  sync.deadline = 250ms;
  sync.quorum = 3;
  sync.grace = 100ms;
  sync.alone = Alone::Stop;
  BOOST_TEST((shared.sync == sync));
  BOOST_TEST((shared.membership == Membership{PeerRange{1, 1024}, 1, Heartbeat{100ms, 200ms}, 120min, 5s, CorrelatedLoss::Pause,
                                              Standby{{"http://10.0.0.5:2379", "https://[::1]:1"}, 2s}}));
  BOOST_TEST((shared.trust == Trust{Transport::Plain}));
  BOOST_TEST((shared.checkpoint == Checkpoint{5, 1}));
  BOOST_TEST((manifest.local == Local{Network{"[::1]:7077", {"peer.example"}, true, 40'000'000},
                                      EtcdAccess{"/ca", {}, {}, "me", "p"},
                                      "auto",
                                      4,
                                      5,
                                      true,
                                      TrainerCare{0, 1min, 1s},
                                      7,
                                      "/here",
                                      {},
                                      {"python3", "my trainer.py"}}));
}

BOOST_AUTO_TEST_CASE(decoupled_closes_a_round_with_one_contribution_and_may_with_fewer_than_there_must_be_members) {
  const auto sync = parsed("sync: {algorithm: decoupled}\nmembership: {peers: 3..8}\n").shared.sync;
  BOOST_TEST((sync.quorum == 1U && sync.offsets == Offsets::Spread && sync.overlap == 0U && sync.mix == 0 && sync.streams()));
  BOOST_TEST(parsed("sync: {algorithm: decoupled, quorum: 2}\nmembership: {peers: 3..8}\n").shared.sync.quorum == 2U);
}

BOOST_AUTO_TEST_CASE(a_gpt2_has_defaults_of_its_own_and_none_of_what_a_llama_has) {
  const auto model = parsed("model: {arch: gpt2, dim: 64, heads: 4}\n").shared.model;
  BOOST_TEST((model.arch == Architecture::Gpt2));
  BOOST_TEST(model.ffn == 256U);
  BOOST_TEST(model.tie_embeddings);
  BOOST_TEST(!parsed("model: {arch: gpt2, tie_embeddings: false}\n").shared.model.tie_embeddings);
  BOOST_TEST(parsed("model: {arch: gpt2, dim: 12, heads: 4}\n").shared.model.dim == 12U, "a head may be odd: nothing is rotated");
  for (const std::string wrong : {"kv_heads: 2", "rope_theta: 5e5", "rope_scaling: {kind: linear, factor: 2}", "attention_bias: true"}) {
    const auto outcome = parse_manifest("version: 1\nrun: x\nmodel: {arch: gpt2, " + wrong + "}\n", "x.yaml");
    BOOST_REQUIRE(!outcome.manifest);
    BOOST_TEST(render(outcome).find("`model." + wrong.substr(0, wrong.find(':')) + "`") != std::string::npos, render(outcome));
  }
  const auto unknown = parse_manifest("version: 1\nrun: x\nmodel: {arch: gpt3}\n", "x.yaml");
  BOOST_REQUIRE(!unknown.manifest);
  BOOST_TEST(render(unknown).find("`llama` or `gpt2`") != std::string::npos, render(unknown));
}

BOOST_AUTO_TEST_CASE(what_scales_rotations_belongs_to_its_kind) {
  const auto refused = [](const std::string& wrong) {
    const auto outcome = parse_manifest("version: 1\nrun: x\nmodel: {rope_scaling: {" + wrong + "}}\n", "x.yaml");
    BOOST_REQUIRE_MESSAGE(!outcome.manifest, wrong);
    return render(outcome);
  };
  const auto names = [&](const std::string& wrong, const std::string& key) {
    const auto said = refused(wrong);
    BOOST_TEST(said.find("`model.rope_scaling." + key + "`") != std::string::npos, said);
  };
  names("factor: 2", "factor");
  names("kind: linear", "factor");
  names("kind: llama3, factor: 0.5", "factor");
  names("kind: linear, factor: 2, low_freq_factor: 2", "low_freq_factor");
  names("kind: linear, factor: 2, high_freq_factor: 2", "high_freq_factor");
  names("kind: linear, factor: 2, original_context: 2", "original_context");
  names("kind: llama3, factor: 2, low_freq_factor: 4", "low_freq_factor");
  names("kind: llama3, factor: 2, original_context: 0", "original_context");
  names("kind: yarn, factor: 2", "kind");
}

BOOST_AUTO_TEST_CASE(sources_are_maps_with_defaults_and_come_back_from_their_text) {
  const auto manifest = parsed(
      "model: {vocab: 1024}\n"
      "data:\n"
      "  tokenizer: {file: /t.json, end_of_document: '[EOS]'}\n"
      "  document_mask: false\n"
      "  sources:\n"
      "    - {path: /a.jsonl.gz, format: jsonl, field: body, weight: 2.5, on_error: skip}\n"
      "    - {path: ['/r/*_R1.fq', /q], format: fastq, weight: 1, quality_trim: 20, adapter: AGATC, n_limit: 5%, min_length: 30, "
      "max_length: 300,\n"
      "       deduplicate: true, collapse: files}\n");
  const auto& data = manifest.shared.data;
  BOOST_TEST((data.tokenizer == TokenizerChoice{"/t.json", "[EOS]"}));
  BOOST_TEST(!data.document_mask);
  BOOST_REQUIRE(data.sources.size() == 2U);
  BOOST_TEST(
      (data.sources[0] == Source{{"/a.jsonl.gz"}, DataFormat::Jsonl, "body", 2.5, OnError::Skip, 0, "", 100, 0, 0, false, Collapse::Off}));
  BOOST_TEST((data.sources[1] ==
              Source{{"/r/*_R1.fq", "/q"}, DataFormat::Fastq, "text", 1, OnError::Stop, 20, "AGATC", 5, 30, 300, true, Collapse::Files}));
  const auto text = shared_yaml(manifest) + local_yaml(manifest);
  BOOST_TEST((parse_manifest(text, "x.yaml").manifest.value() == manifest), text);
}

BOOST_AUTO_TEST_CASE(a_weight_is_a_number_or_a_line_through_points) {
  const auto manifest =
      parsed("data: {sources: [{path: /a, weight: [{at: 100, weight: 0.8}, {weight: 0.2, at: 300}]}, {path: /b, weight: 1}]}\n");
  const auto& sources = manifest.shared.data.sources;
  BOOST_TEST((sources[0].weight.points == std::vector<SourceWeight::Point>{{100, 0.8}, {300, 0.2}}));
  BOOST_TEST((sources[1].weight == SourceWeight{1}));
  BOOST_TEST(!sources[1].weight.changes());
  const auto at = [&](std::uint64_t sample) { return weight_at(sources[0].weight, sample); };
  BOOST_TEST(at(0) == 0.8);
  BOOST_TEST(at(100) == 0.8);
  BOOST_TEST(std::abs(at(200) - 0.5) < 1e-12);
  BOOST_TEST(at(300) == 0.2);
  BOOST_TEST(at(1'000'000) == 0.2);
  const auto text = shared_yaml(manifest);
  BOOST_TEST(text.find("weight: [{at: 100, weight: 0.8}, {at: 300, weight: 0.2}]") != std::string::npos, text);
  BOOST_TEST(text.find("weight: 1,") != std::string::npos, text);
}

BOOST_AUTO_TEST_CASE(several_addresses_may_be_advertised_with_ports_or_without) {
  const auto local = parsed("local: {network: {advertise: [a.example, 'b:80', '::1', '[::2]:81']}}\n").local;
  BOOST_TEST(local.network.advertise.size() == 4U);
}

BOOST_AUTO_TEST_CASE(a_model_is_held_by_one_peer_unless_it_is_sharded) {
  BOOST_TEST(parsed("").shared.membership.shards == 1U);
  BOOST_TEST(parsed("membership: {shards: 64}\n").shared.membership.shards == 64U);
}

BOOST_AUTO_TEST_CASE(derived_sizes_follow_what_they_are_derived_from) {
  const auto model = parsed("model: {heads: 8, dim: 160}\n").shared.model;
  BOOST_TEST(model.kv_heads == 8U);
  BOOST_TEST(model.ffn == 448U);  // 8/3 · 160 = 426.7
}

BOOST_AUTO_TEST_CASE(an_empty_schedule_takes_its_defaults) {
  BOOST_TEST((parsed("train: {schedule: {cosine: {}}}\n").shared.train.schedule == manifest::Schedule{Cosine{20, 0.1}}));
}

BOOST_AUTO_TEST_CASE(line_breaks_of_other_systems_and_a_document_marker_are_read) {
  BOOST_TEST(parse_manifest("---\r\nversion: 1\r\nrun: x\r\ntrain:\r\n  batch: 3\r\n", "x.yaml").manifest.value().shared.train.batch == 3U);
}

BOOST_AUTO_TEST_CASE(another_peer_cannot_choose_what_runs_on_this_machine) {
  const auto refused = parse_shared(std::string{HEAD} + "local: {trainer_command: [rm, x]}\n");
  BOOST_TEST(!refused.has_value());
  BOOST_TEST((refused.error().name == ErrorName::ManifestValue));
  BOOST_TEST(parse_shared(HEAD).value().run == "x");
}

BOOST_AUTO_TEST_CASE(two_halves_make_one_manifest) {
  const auto manifest = parsed("train: {batch: 3}\nlocal: {threads: 4}\n");
  BOOST_TEST((parse_halves(shared_yaml(manifest), local_yaml(manifest)).value() == manifest));
  BOOST_TEST((parse_halves(shared_yaml(manifest), "").value().local == Local{}));
  BOOST_TEST(!parse_halves(shared_yaml(manifest), "train: {batch: 8}\n").has_value());
}

BOOST_AUTO_TEST_CASE(a_manifest_built_in_code_is_checked_by_the_same_rules) {
  auto manifest = parsed("");
  BOOST_TEST(check(manifest).has_value());
  manifest.shared.model.dim = 97;
  BOOST_TEST(!check(manifest).has_value());
  manifest = parsed("");
  manifest.shared.sync.deadline = Duration{1'000'000'001};
  BOOST_TEST(!check(manifest).has_value());
}

BOOST_AUTO_TEST_CASE(the_first_problem_is_told_as_an_error_value) {
  const auto error = first_error(parse_manifest("version: 1\nrun: x\ntrain: {batch: 0}\nmodle: {}\n", "x.yaml"));
  BOOST_TEST((error.name == ErrorName::ManifestValue));
  BOOST_TEST(error.detail == "`train.batch` must be an integer ≥ 1, found `0` (x.yaml:3:16), and 1 more");
}

BOOST_AUTO_TEST_CASE(an_optimizer_and_a_schedule_are_chosen_by_their_key) {
  const auto& train = parsed(
                          "train: {optimizer: {sgd: {lr: 0.5, momentum: 0.8, nesterov: true, weight_decay: 0.1}}, schedule: {wsd: {warmup: "
                          "3, decay: 12.5%, floor: 0.5}}}\n")
                          .shared.train;
  BOOST_TEST((train.optimizer == Optimizer{Sgd{0.5, 0.8, true, 0.1}}));
  BOOST_TEST((train.schedule == prime::manifest::Schedule{Wsd{3, 12.5, 0.5}}));
  const auto& other =
      parsed(
          "train: {optimizer: {muon: {lr: 0.5, momentum: 0, nesterov: false, weight_decay: 0, iterations: 7, adamw: {lr: 1, "
          "betas: [0, 0.5], weight_decay: 0, epsilon: 1e-6}}}, schedule: {linear: {warmup: 4, floor: 0.25}}}\n")
          .shared.train;
  BOOST_TEST((other.optimizer == Optimizer{Muon{0.5, 0, false, 0, 7, AdamW{1, {0, 0.5}, 0, 1e-6}}}));
  BOOST_TEST((other.schedule == prime::manifest::Schedule{Linear{4, 0.25}}));
  BOOST_TEST(describe("train.optimizer.muon.iterations").value().find("default: 5") != std::string::npos);
  BOOST_TEST(describe("train.schedule.wsd.decay").value().find("default: 20%") != std::string::npos);
  const auto error =
      first_error(parse_manifest("version: 1\nrun: x\ntrain: {optimizer: {sgd: {momentum: 0, nesterov: true}}}\n", "x.yaml"));
  BOOST_TEST((error.name == ErrorName::ManifestValue));
}

BOOST_AUTO_TEST_CASE(every_key_is_described) {
  for (const auto& path : key_paths()) BOOST_TEST_CONTEXT(path) {
      BOOST_TEST(describe(path).value().starts_with(path + ": "));
    }
  BOOST_TEST(!describe("no.such.key").has_value());
  BOOST_TEST(nearest_keys("sync.iner_steps").front() == "sync.inner_steps");
  BOOST_TEST(nearest_keys("nothing like it at all").empty());
  BOOST_TEST(nearest_keys("sync.lr") ==
                 (std::vector<std::string>{"train.optimizer.adamw.lr", "train.optimizer.sgd.lr", "train.optimizer.muon.lr"}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_SUITE_END()

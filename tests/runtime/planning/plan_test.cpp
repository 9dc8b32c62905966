// Owns the tests of what a plan tells of a manifest.
#include "runtime/planning/plan.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

#include "runtime/planning/memory.hpp"

namespace prime::planning {
namespace {

/// That of manifests/quickstart.yaml.
manifest::Manifest small() {
  manifest::Manifest manifest;
  manifest.shared.run = "small";
  return manifest;
}

Plan plan_of(const manifest::Manifest& manifest, const Circumstances& circumstances = {}) {
  auto plan = make_plan(manifest, circumstances);
  BOOST_REQUIRE_MESSAGE(plan.has_value(), (plan ? std::string{} : plan.error().detail));
  return *std::move(plan);
}

Error refusal(const manifest::Manifest& manifest, const Circumstances& circumstances) {
  auto plan = make_plan(manifest, circumstances);
  BOOST_REQUIRE(!plan.has_value());
  return plan.error();
}

bool assumes(const Plan& plan, std::string_view words) {
  return std::ranges::any_of(plan.assumptions, [&](const std::string& told) { return told.find(words) != std::string::npos; });
}

constexpr std::uint64_t PARAMETERS = 2 * 256 * 96 + 2 * (4 * 96 * 96 + 3 * 96 * 256 + 2 * 96) + 96;

}  // namespace

BOOST_AUTO_TEST_SUITE(plans)

BOOST_AUTO_TEST_CASE(parameters_are_those_of_the_model) {
  auto manifest = small();
  BOOST_TEST(plan_of(manifest).parameters == PARAMETERS);
  manifest.shared.model.tie_embeddings = true;
  BOOST_TEST(plan_of(manifest).parameters == PARAMETERS - 256 * 96);
  manifest.shared.model.kv_heads = 2;
  BOOST_TEST(plan_of(manifest).parameters == PARAMETERS - 256 * 96 - 2 * (2 * 48 * 96));
  manifest.shared.model.attention_bias = true;
  BOOST_TEST(plan_of(manifest).parameters == PARAMETERS - 256 * 96 - 2 * (2 * 48 * 96) + 2 * (96 + 2 * 48 + 96));
}

BOOST_AUTO_TEST_CASE(the_smallest_gpt2_has_the_parameters_of_the_one_that_was_published) {
  auto manifest = small();
  auto& model = manifest.shared.model;
  model = {.arch = manifest::Architecture::Gpt2,
           .layers = 12,
           .dim = 768,
           .heads = 12,
           .kv_heads = 12,
           .ffn = 3072,
           .vocab = 50257,
           .context = 1024,
           .tie_embeddings = true};
  BOOST_TEST(plan_of(manifest).parameters == 124'439'808U);
  const std::uint64_t matrices = 12ULL * (4 * 768 * 768 + 2 * 768 * 3072);
  manifest.shared.train.optimizer = manifest::Muon{};
  BOOST_TEST(moments(manifest.shared) == 2 * 124'439'808ULL - matrices);
  const auto before = plan_of(manifest).trainer_bytes.value();
  model.arch = manifest::Architecture::Llama;
  BOOST_TEST(before != plan_of(manifest).trainer_bytes.value());
}

BOOST_AUTO_TEST_CASE(an_agent_holds_five_sizes_and_less_in_fragments_and_two_records) {
  auto manifest = small();
  BOOST_TEST(plan_of(manifest).agent_bytes == (5 + 4) * 4 * PARAMETERS, "AdamW's moments, twice");
  manifest.local.record_every = 5;
  BOOST_TEST(plan_of(manifest).agent_bytes == (5 + 9) * 4 * PARAMETERS, "and local parameters, three times");
  manifest.local.trainer_command = {"mine"};
  BOOST_TEST(plan_of(manifest).agent_bytes == 5 * 4 * PARAMETERS, "what another trainer keeps nobody knows");
  manifest.shared.sync.fragments.count = 2;
  manifest.shared.sync.in_flight = 1;
  const auto plan = plan_of(manifest);
  BOOST_TEST(plan.fragments == 2U);
  // A layer and half of what is of none in each: the embedding here, the head and the last norm there.
  const std::uint64_t larger = PARAMETERS - (PARAMETERS - 96) / 2;
  BOOST_TEST(plan.agent_bytes == 4 * (3 * PARAMETERS + 2 * larger));
  BOOST_TEST(plan.round_wire_bytes < plan.outer_step_wire_bytes);
  BOOST_TEST(plan.round_wire_bytes > plan.outer_step_wire_bytes / 2);
  BOOST_TEST(assumes(plan, "all 2 fragments are reduced"));
  manifest.shared.sync.in_flight = 5;
  BOOST_TEST(plan_of(manifest).agent_bytes == 4 * (3 * PARAMETERS + 2 * 2 * larger));
  manifest.shared.sync.fragments.count = 64;
  BOOST_TEST((refusal(manifest, {}).name == ErrorName::LayoutUnusable));
}

BOOST_AUTO_TEST_CASE(a_trainer_holds_four_sizes_and_what_the_backward_pass_keeps) {
  auto manifest = small();
  const auto trainer = [&] { return plan_of(manifest).trainer_bytes.value(); };
  const std::uint64_t states = 16 * PARAMETERS, tokens = 16 * 128;
  const std::uint64_t block = 4 * (8 * 96 + 4 * 256), head = 4 * (2 * 96 + 3 * 256);
  BOOST_TEST(trainer() == states + tokens * (3 * block + head));
  manifest.local.micro_batch = 4;
  BOOST_TEST(trainer() == states + tokens / 4 * (3 * block + head));
  manifest.local.activation_checkpointing = true;
  BOOST_TEST(trainer() == states + tokens / 4 * (2 * block + 2 * 4 * 96 + head));
  manifest.shared.train.precision = manifest::Precision::Bf16;
  BOOST_TEST(trainer() == states + 2 * PARAMETERS + tokens / 4 * ((2 * block + 2 * 4 * 96) / 2 + 2 * 2 * 96 + 256 * 14));
  manifest.local.trainer_command = {"own"};
  BOOST_TEST(!plan_of(manifest).trainer_bytes.has_value());
  BOOST_TEST(assumes(plan_of(manifest), "a trainer of your own"));
}

BOOST_AUTO_TEST_CASE(without_a_link_and_a_step_time_nothing_is_said_that_needs_them) {
  const auto plan = plan_of(small());
  BOOST_TEST(plan.peers == 8U);
  BOOST_TEST(!plan.reduce_s);
  BOOST_TEST(!plan.peak_bits_per_s);
  BOOST_TEST(!plan.mean_bits_per_s);
  BOOST_TEST(!plan.compute_utilization);
  BOOST_TEST(!plan.goodput);
  BOOST_TEST(plan.links.empty());
  BOOST_TEST(plan.outer_step_wire_bytes == 14.0 * 4 * PARAMETERS, boost::test_tools::tolerance(0.01));
}

BOOST_AUTO_TEST_CASE(times_follow_from_a_link_and_a_step_time) {
  auto manifest = small();
  const auto plan = plan_of(manifest, {.link_bits_per_s = 10'000'000, .peers = 3, .step_time = 100ms});
  const double bits = 8.0 * static_cast<double>(plan.outer_step_wire_bytes) / 3;
  BOOST_TEST(plan.reduce_s.value() == bits / 1e7, boost::test_tools::tolerance(1e-5));
  BOOST_TEST(plan.compute_utilization.value() == 2 / (2 + bits / 1e7), boost::test_tools::tolerance(1e-5));
  BOOST_TEST(plan.outer_step_s.value() == 2 + bits / 1e7, boost::test_tools::tolerance(1e-5));
  BOOST_TEST(plan.peak_bits_per_s.value() == 1e7);
  BOOST_TEST(plan.mean_bits_per_s.value() == bits / (2 + bits / 1e7), boost::test_tools::tolerance(1e-5));
  BOOST_TEST(plan.tokens == 3U * 20 * 16 * 128);
  BOOST_TEST(plan.tokens_per_s.value() == 3 * 16 * 128 / 0.1, boost::test_tools::tolerance(1e-9));
  BOOST_REQUIRE(plan.links.size() == 5U);
  for (const auto& [utilization, link] : plan.links) BOOST_TEST(link == bits / (2 / utilization - 2), boost::test_tools::tolerance(0.002));
  // Without a link: over one that nobody waits for.
  const auto boundless = plan_of(manifest, {.peers = 3, .step_time = 100ms});
  BOOST_TEST(!boundless.compute_utilization);
  BOOST_TEST(boundless.mean_bits_per_s.value() == bits / 2, boost::test_tools::tolerance(1e-5));
  BOOST_TEST(boundless.links.size() == 5U);
}

BOOST_AUTO_TEST_CASE(a_cap_is_a_link) {
  auto manifest = small();
  manifest.local.network.cap_bits_per_s = 5'000'000;
  BOOST_TEST(plan_of(manifest).link_bits_per_s.value() == 5e6);
  BOOST_TEST(plan_of(manifest, {.link_bits_per_s = 10'000'000}).link_bits_per_s.value() == 5e6);
  BOOST_TEST(plan_of(manifest, {.link_bits_per_s = 1'000'000}).link_bits_per_s.value() == 1e6);
}

BOOST_AUTO_TEST_CASE(a_run_of_one_sends_nothing_and_waits_for_nobody) {
  auto manifest = small();
  manifest.shared.membership.peers = {1, 1};
  const auto plan = plan_of(manifest, {.link_bits_per_s = 1'000'000, .step_time = 1s});
  BOOST_TEST(plan.outer_step_wire_bytes == 0U);
  BOOST_TEST(plan.compute_utilization.value() == 1.0);
  BOOST_TEST(plan.peak_bits_per_s.value() == 0.0);
  BOOST_TEST(plan.links.back().link_bits_per_s == 0.0);
}

BOOST_AUTO_TEST_CASE(shards_divide_what_a_peer_holds_and_all_of_them_send) {
  auto manifest = small();
  manifest.local.trainer_command = {"own"};
  const auto whole = plan_of(manifest, {.peers = 2});
  manifest.shared.membership.shards = 4;
  const auto plan = plan_of(manifest, {.peers = 2, .mtbf = 60min, .recovery = 10s});
  BOOST_TEST(plan.parameters == PARAMETERS);
  BOOST_TEST(plan.agent_bytes == (whole.agent_bytes + 3) / 4);
  BOOST_TEST(static_cast<double>(plan.outer_step_wire_bytes) == static_cast<double>(whole.outer_step_wire_bytes),
             boost::test_tools::tolerance(0.01));
  BOOST_TEST(plan.goodput.value() == 450.0 / 460, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(assumes(plan, "shards of a replica are equally large"));
  manifest.local.trainer_command.clear();  // as where the coordinator alone is started: the built-in trainer holds no shard
  BOOST_TEST(!plan_of(manifest).trainer_bytes.has_value());
}

BOOST_AUTO_TEST_CASE(peers_are_those_that_the_manifest_admits) {
  BOOST_TEST(refusal(small(), {.peers = 9}).detail == "--peers 9 is more than `membership.peers` admits, 8");
  BOOST_TEST(refusal(small(), {.peers = 1}).detail == "--peers 1 is fewer than `membership.peers` asks for, 2");
}

BOOST_AUTO_TEST_CASE(a_failure_holds_up_the_run_until_it_is_known) {
  const auto plan = plan_of(small(), {.peers = 4, .mtbf = 60min});
  BOOST_TEST(plan.goodput.value() == 900.0 / 910, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(assumes(plan, "each of 4 peers fails every 1h"));
  BOOST_TEST(assumes(plan, "`membership.heartbeat.dead_after`"));
}

BOOST_AUTO_TEST_CASE(where_nobody_waits_a_slow_link_makes_rounds_rarer_and_a_failure_holds_up_one_peer) {
  auto manifest = small();
  manifest.shared.sync.algorithm = manifest::Algorithm::Decoupled;
  manifest.shared.sync.offsets = Offsets::Spread;
  const auto plan = plan_of(manifest, {.link_bits_per_s = 1'000'000, .peers = 4, .step_time = 10ms, .mtbf = 60min});
  BOOST_TEST(plan.compute_utilization.value() == 1.0);
  BOOST_TEST(plan.outer_step_s.value() == plan.reduce_s.value());
  BOOST_TEST(plan.mean_bits_per_s.value() == 1'000'000.0, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(plan.goodput.value() == 3600.0 / 3610, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(assumes(plan, "nobody waits"));
  BOOST_TEST(assumes(plan, "holds up itself alone"));
}

/// Of Decoupled DiLoCo (arXiv:2604.21428): chips that fail once a year, simulated, as ../shared/spec/frontier.md §1.5 has them.
BOOST_AUTO_TEST_CASE(goodput_is_within_five_points_of_the_published) {
  struct Published {
    double chips, learners;
    Duration recovery;
    double goodput;
  };
  constexpr auto ELASTIC = 22s, NOT_ELASTIC = 65s;
  for (const auto& [chips, learners, recovery, published] : {Published{1.2e6, 1, NOT_ELASTIC, .27},
                                                             {2.4e6, 1, NOT_ELASTIC, .18},
                                                             {1.2e6, 1, ELASTIC, .58},
                                                             {2.4e6, 1, ELASTIC, .40},
                                                             {1.2e6, 2, ELASTIC, .70},
                                                             {1.2e6, 8, ELASTIC, .88},
                                                             {1.2e6, 16, ELASTIC, .93},
                                                             {2.4e6, 8, ELASTIC, .80},
                                                             {2.4e6, 16, ELASTIC, .86}}) {
    const auto between = std::chrono::duration_cast<Duration>(std::chrono::duration<double>{365.0 * 86400 * learners / chips});
    BOOST_TEST(std::abs(goodput(between, recovery) - published) < 0.05, chips << " chips, " << learners << " learners");
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace prime::planning

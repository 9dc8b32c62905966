// Checks the messages of the trainer socket: what is written can be read, and nothing else can.
#include "runtime/session/trainer_wire.hpp"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>

#include "runtime/session/packet_socket.hpp"

BOOST_AUTO_TEST_SUITE(trainer_wire)

using namespace prime;

namespace {

template <class T>
T round_trip(const T& message) {
  if constexpr (std::is_constructible_v<wire::ToAgent, T>) {
    return std::get<T>(wire::decode_to_agent(wire::encode(wire::ToAgent(message)).value()).value());
  } else {
    return std::get<T>(wire::decode_to_trainer(wire::encode(wire::ToTrainer(message)).value()).value());
  }
}

/// `V` stands for the version: a packet of another one is refused for that, whatever else it is.
bool refused_by_agent(std::string packet) {
  if (const auto at = packet.find(R"("v":V)"); at != std::string::npos) packet.replace(at + 4, 1, std::to_string(wire::VERSION));
  const auto message = wire::decode_to_agent(packet);
  return !message && message.error().name == ErrorName::TrainerProtocol && !message.error().detail.empty();
}

}  // namespace

BOOST_AUTO_TEST_CASE(what_the_agent_says_arrives_whole) {
  const auto welcome = round_trip(wire::Welcome{"run", PeerId{0xfedcba9876543210}, "brave-otter", "a: \"1\"\n", "b: 2\n", false});
  BOOST_TEST((welcome.peer == PeerId{0xfedcba9876543210}));
  BOOST_TEST(welcome.manifest == "a: \"1\"\n");
  BOOST_TEST(!welcome.fresh);
  BOOST_TEST((welcome.shard == 0 && welcome.shards == 1 && welcome.replica.empty()));
  const auto part = round_trip(wire::Welcome{"run", PeerId{1}, "calm-heron.63", "", "", true, 63, 64, "calm-heron"});
  BOOST_TEST((part.shard == 63 && part.shards == 64 && part.replica == "calm-heron"));
  const wire::StepPlan plan{OuterStep{5}, Revision{4}, 2, 3, 0xffffffffffffffff, 16, 20, 60, {2, 3}};
  const auto begin =
      round_trip(wire::Begin{plan, Digest{0x1234, 0xffffffffffffffff}, wire::Places{{1, OuterStep{4}}, {383, OuterStep{5}}}});
  BOOST_TEST((begin.plan.step == plan.step && begin.plan.base == plan.base && begin.plan.rank == 2 && begin.plan.peers == 3));
  BOOST_TEST((begin.plan.first_sample == plan.first_sample && begin.plan.batch == 16 && begin.plan.inner_steps == 20 &&
              begin.plan.total_steps == 60 && begin.plan.evaluate.index == 2 && begin.plan.evaluate.of == 3));
  BOOST_TEST((begin.state == Digest{0x1234, 0xffffffffffffffff} && begin.places.size() == 2U));
  BOOST_TEST((begin.places[1].block == 383U && begin.places[1].version == OuterStep{5}));
  BOOST_TEST((begin.in_flight.empty() && begin.published.empty()));
  const auto committed = round_trip(wire::StepCommitted{{OuterStep{5}, Revision{5}, Digest{1, 2}, 3}, wire::Places{{}}});
  BOOST_TEST((committed.committed.revision == Revision{5} && committed.committed.state == Digest{1, 2} && committed.committed.peers == 3));
  BOOST_TEST(!begin.resume);
  const wire::Totals totals{3, 0.1, 0xffffffffffffffff, 7, HeldOut{0.25, 1}, 1.5};
  const auto resumed = round_trip(wire::Begin{plan, {}, wire::Places{{}}, 5, wire::Resume{4, totals}});
  BOOST_TEST((resumed.record_place == 5U && resumed.resume->place == 4U && resumed.resume->within->made == 3U));
  BOOST_TEST((resumed.resume->within->loss_sum == 0.1 && resumed.resume->within->tokens == totals.tokens));
  BOOST_TEST((resumed.resume->within->samples == 7U && resumed.resume->within->held_out->loss == 0.25));
  BOOST_TEST(!round_trip(wire::Begin{plan, {}, wire::Places{{}}, 5, wire::Resume{4, {}}}).resume->within);
  BOOST_TEST((!resumed.copied && round_trip(wire::Begin{plan, {}, wire::Places{{}}, 5, {}, true}).copied));
  BOOST_TEST(round_trip(wire::Recorded{5}).place == 5U);
  const auto segments = round_trip(
      wire::Segments{MODEL_LIMITS.elements, {7, FragmentPattern::Sequential}, Offsets::Spread, 3, 0.25, true, true, true, 4096, 10, 5});
  BOOST_TEST(
      (segments.offsets == Offsets::Spread && segments.overlap == 3U && segments.mix == 0.25 && segments.eager && segments.decoupled));
  BOOST_TEST((segments.elements == MODEL_LIMITS.elements && segments.division == Division{7, FragmentPattern::Sequential}));
  BOOST_TEST((segments.record_bytes == 4096U && segments.record_every == 10U && segments.record_place == 5U));
  BOOST_TEST((wire::descriptor_count(wire::ToTrainer{segments}) == 3U && wire::descriptor_count(wire::ToTrainer{wire::Segments{}}) == 2U));
  const auto asked = round_trip(wire::Publish{3, OuterStep{7}});
  BOOST_TEST((asked.fragment == 3U && asked.version == OuterStep{7}));
  const auto finish = round_trip(wire::Finish{{{0, 2}, false}, OuterStep{3}, Revision{9}, {}, wire::Places{{1, OuterStep{3}}}});
  BOOST_TEST((finish.plan.evaluate.of == 2U && finish.step == OuterStep{3}));
  BOOST_TEST(!round_trip(wire::Stop{}).error);
  const auto error = Error(ErrorName::RunFull, "8 of 8").with_context("joining");
  BOOST_TEST((round_trip(wire::Stop{error}).error == error));
}

BOOST_AUTO_TEST_CASE(what_the_trainer_says_arrives_whole) {
  const auto bind = round_trip(wire::Bind{{{{"a \"quoted\"", {2, 3}}},
                                           {{"b", {}}, DataType::BF16},
                                           {{"b", {}}, DataType::I64, Role::Private},
                                           {{"c", {}}, DataType::U8, Role::Copied}},
                                          true});
  BOOST_TEST((bind.tensors == std::vector<BoundTensor>{{{"a \"quoted\"", {2, 3}}},
                                                       {{"b", {}}, DataType::BF16},
                                                       {{"b", {}}, DataType::I64, Role::Private},
                                                       {{"c", {}}, DataType::U8, Role::Copied}}));
  BOOST_TEST(bind.last);
  const auto contribution = round_trip(wire::Contribute{OuterStep{3}, 0xffffffffffffffff, 6, 0.1, HeldOut{1.0 / 3.0, 7}, 1e-9});
  BOOST_TEST(contribution.weight == 0xffffffffffffffff);
  BOOST_TEST(contribution.loss == 0.1);
  BOOST_TEST((contribution.held_out->loss == 1.0 / 3.0 && contribution.held_out->tokens == 7));
  BOOST_TEST(round_trip(wire::Contribute{.step = OuterStep{3}, .held_out = {}, .fragments = {2}, .tokens = 9}).tokens == 9U);
  BOOST_TEST((round_trip(wire::LeaseUsed{OuterStep{4}}).step == OuterStep{4}));
  BOOST_TEST(round_trip(wire::Inner{OuterStep{1}, 2, 3.5, 4, 5}).inner_steps == 2U);
  const auto record = round_trip(wire::Record{OuterStep{3}, {2, 0.5, 6, 4, {}, 0.25}});
  BOOST_TEST((record.step == OuterStep{3} && record.totals.made == 2U && record.totals.tokens == 6U && record.totals.seconds == 0.25));
  const DataIdentity data{Digest{5, 6}, "3 files in /data", "1 2 00000003 a\n"};
  BOOST_TEST((round_trip(wire::Data{data}).data == data));
  BOOST_TEST((round_trip(wire::Data{{Digest{5, 6}, std::string(5000, 's')}}).data.summary == std::string(MAX_DATA_SUMMARY_BYTES, 's')));
  BOOST_TEST(!wire::encode(wire::Data{}).has_value(), "nothing is told by not telling");
  BOOST_TEST(round_trip(wire::Final{{HeldOut{0.5, 1}, "text"}}).answer.sample == "text");
  BOOST_TEST((round_trip(wire::Failure{Error(ErrorName::DataTooSmall, "x")}).error == Error(ErrorName::DataTooSmall, "x")));
}

BOOST_AUTO_TEST_CASE(a_loss_that_is_not_finite_is_no_breach_of_the_protocol) {
  for (const double loss : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    BOOST_TEST(std::isnan(round_trip(wire::Inner{OuterStep{1}, 1, loss, 0, 0}).loss));
    BOOST_TEST(!round_trip(wire::Contribute{OuterStep{1}, 0, 0, loss, HeldOut{loss, 1}, 0}).held_out);
  }
}

BOOST_AUTO_TEST_CASE(long_or_broken_texts_are_cut_to_what_is_allowed) {
  const auto sample = round_trip(wire::Final{{{}, std::string(9000, '\xff')}}).answer.sample;
  BOOST_TEST(sample.size() <= wire::MAX_SAMPLE_BYTES);
  BOOST_TEST(sample.substr(0, 6) == "\xEF\xBF\xBD\xEF\xBF\xBD");
  BOOST_TEST(round_trip(wire::Failure{Error(ErrorName::TrainerFailed, std::string(100'000, 'x'))}).error.detail.size() ==
             wire::MAX_TEXT_BYTES);
}

BOOST_AUTO_TEST_CASE(what_the_other_side_would_refuse_is_not_sent) {
  BOOST_TEST(!wire::encode(wire::Welcome{"r", {}, "n", std::string(wire::MAX_MANIFEST_BYTES + 1, 'x'), "", true}));
  BOOST_TEST(!wire::encode(wire::Welcome{"r", {}, "n", "", "", true, 2, 2, "x"}));
  BOOST_TEST(!wire::encode(wire::Welcome{"r", {}, "n", "", "", true, 0, 65, "x"}));
  BOOST_TEST(!wire::encode(wire::Recorded{wire::RECORDS}));
  BOOST_TEST(!wire::encode(wire::Record{OuterStep{1}, {}}), "a record is made after an inner step");
  BOOST_TEST(!wire::encode(wire::Bind{{{{"a", {1}}, DataType::F16}}, true}), "what is averaged is of f32 or bf16");
  BOOST_TEST(!wire::encode(wire::Bind{{{{"a", {1}}, DataType::U64, Role::Private}}, true}));
  BOOST_TEST(!wire::encode(wire::Export{"../evil"}));
  BOOST_TEST(!wire::encode(wire::Contribute{OuterStep{1}, 0, 0, 0, {}, std::numeric_limits<double>::infinity()}));
  BOOST_TEST(!wire::encode(wire::Bind{std::vector<BoundTensor>(wire::MAX_BIND_TENSORS + 1, {{"a", {1}}}), true}));
}

BOOST_AUTO_TEST_CASE(packets_that_are_no_message_are_refused_by_name) {
  for (const auto* packet :
       {"",
        "x",
        "[]",
        "null",
        "{}",
        R"({"v":V})",
        R"({"v":99,"type":"leave"})",
        R"({"v":"1","type":"leave"})",
        R"({"v":V,"type":"welcome"})",
        R"({"v":V,"type":7})",
        R"({"v":V,"type":"bind"})",
        R"({"v":V,"type":"bind","tensors":{},"last":true})",
        R"({"v":V,"type":"bind","tensors":[{"name":"a","shape":[-1],"type":"f32","private":false}],"last":true})",
        R"({"v":V,"type":"bind","tensors":[{"name":"a","shape":[1.5],"type":"f32","private":false}],"last":true})",
        R"({"v":V,"type":"bind","tensors":[{"name":"a"}],"last":true})",
        R"({"v":V,"type":"bind","tensors":[{"name":"a","shape":[1],"private":false}],"last":true})",
        R"({"v":V,"type":"bind","tensors":[{"name":"a","shape":[1],"type":"f8","private":false}],"last":true})",
        R"({"v":V,"type":"bind","tensors":[{"name":"a","shape":[1],"type":"f32","private":0}],"last":true})",
        R"({"v":V,"type":"record","step":1,"totals":null})",
        R"({"v":V,"type":"bind","tensors":[7],"last":true})",
        R"({"v":V,"type":"bind","tensors":[{"name":"a","shape":[18446744073709551615],"type":"f32","private":false}],"last":true})",
        R"({"v":V,"type":"bind","tensors":[{"name":"a","shape":[1099511627776,1099511627776],"type":"f32","private":false}],"last":true})",
        R"({"v":V,"type":"bind","tensors":[],"last":1})",
        R"({"v":V,"type":"export","name":"a/b"})",
        R"({"v":V,"type":"export","name":".."})",
        R"({"v":V,"type":"inner","step":1,"inner_steps":1,"loss":1e999,"tokens":1,"samples":1})",
        R"({"v":V,"type":"inner","step":1,"inner_steps":4294967296,"loss":1,"tokens":1,"samples":1})",
        R"({"v":V,"type":"inner","step":1,"inner_steps":1,"loss":"1","tokens":1,"samples":1})",
        R"({"v":V,"type":"inner","step":-1,"inner_steps":1,"loss":1,"tokens":1,"samples":1})",
        R"({"v":V,"type":"error","name":"NoSuchError","detail":"","context":[]})",
        R"({"v":V,"type":"error","name":"RunFull","detail":"","context":[1]})",
        R"({"v":V,"type":"final","held_out":true,"sample":""})",
        R"({"v":V,"type":"final","held_out":{"loss":1,"tokens":0},"sample":""})"}) {
    BOOST_TEST(refused_by_agent(packet), packet);
  }
  BOOST_TEST(!refused_by_agent(R"({"v":V,"type":"leave"})"));
  BOOST_TEST(refused_by_agent(std::string(MAX_PACKET_BYTES, '[')));
  BOOST_TEST(refused_by_agent(R"({"v":V,"type":"leave","pad":")" + std::string(MAX_PACKET_BYTES, 'x') + "\"}"));
  BOOST_TEST(refused_by_agent("{\"v\":V,\"type\":\"export\",\"name\":\"a\xff\"}"));
}

BOOST_AUTO_TEST_SUITE_END()

// Owns the tests of what a run keeps in etcd: one leader, and decisions that only it can make. Against a real etcd.
#include "runtime/etcd/run_store.hpp"

#include "etcd_process.hpp"

BOOST_AUTO_TEST_SUITE(run_store, *boost::unit_test::precondition(prime::etcd::test::installed))

using namespace prime;
using namespace prime::etcd;
using etcd::test::EtcdProcess;
using etcd::test::LIMIT;

namespace {

/// One coordinator's view of the store.
struct Candidate {
  explicit Candidate(const EtcdProcess& server, std::string at) : store({server.url()}, "run-1", LIMIT), address(std::move(at)) {
    lease = store.enter(address, 60s).value();
  }
  bool campaign() {
    const auto outcome = store.campaign(address, lease).value();
    if (const auto* won = std::get_if<Lead>(&outcome)) lead = *won;
    else leader = std::get<Leader>(outcome).address;
    return std::holds_alternative<Lead>(outcome);
  }
  RunStore store;
  std::string address;
  LeaseId lease = 0;
  Lead lead;
  std::string leader;
};

ErrorName refusal(const Result<void>& outcome) { return outcome ? ErrorName::InternalError : outcome.error().name; }

}  // namespace

BOOST_AUTO_TEST_CASE(one_leads_and_the_others_are_told_who) {
  EtcdProcess server;
  Candidate first{server, "a:1"};
  Candidate second{server, "b:2"};
  BOOST_TEST(first.campaign());
  BOOST_TEST(!second.campaign());
  BOOST_TEST(second.leader == "a:1");
  BOOST_TEST(first.campaign(), "who leads, leads: the answer to its first try may have been lost");
  const auto known = second.store.coordinators().value().addresses;
  BOOST_CHECK(known == (std::vector<Endpoint>{{"a", 1}, {"b", 2}}));
  BOOST_REQUIRE(first.store.leave(first.lease));
  BOOST_TEST(second.campaign());
  BOOST_CHECK(second.store.coordinators().value().addresses == (std::vector<Endpoint>{{"b", 2}}));
}

BOOST_AUTO_TEST_CASE(who_was_deposed_decides_nothing_and_its_successor_goes_on_from_its_last_decision) {
  EtcdProcess server;
  Candidate first{server, "a:1"};
  Candidate second{server, "b:2"};
  BOOST_REQUIRE(first.campaign());
  BOOST_TEST(!first.store.decisions().value().has_value());
  BOOST_REQUIRE(first.store.keep(first.lead, "one"));
  BOOST_REQUIRE(first.store.keep(first.lead, "two"));
  BOOST_REQUIRE(first.store.leave(first.lease));  // as if it had run out while the first stood still
  BOOST_CHECK(refusal(first.store.keep(first.lead, "three")) == ErrorName::LeadershipLost);
  BOOST_REQUIRE(second.campaign());
  BOOST_CHECK(refusal(first.store.keep(first.lead, "three")) == ErrorName::LeadershipLost);
  BOOST_TEST(second.store.decisions().value().value() == "two");
  BOOST_REQUIRE(second.store.keep(second.lead, "four"));
  BOOST_CHECK(refusal(first.store.keep(first.lead, "three")) == ErrorName::LeadershipLost);
  BOOST_TEST(second.store.decisions().value().value() == "four");
}

BOOST_AUTO_TEST_CASE(a_decision_that_was_kept_though_nobody_heard_of_it_is_kept_once) {
  EtcdProcess server;
  Candidate leader{server, "a:1"};
  BOOST_REQUIRE(leader.campaign());
  BOOST_TEST(!leader.store.decisions().value().has_value());
  BOOST_REQUIRE(leader.store.keep(leader.lead, "one"));
  // Another connection of the same leader, as a request that was given up and carried out all the same.
  RunStore late{{server.url()}, "run-1", LIMIT};
  BOOST_TEST(late.decisions().value().value() == "one");
  BOOST_REQUIRE(late.keep(leader.lead, "two"));
  BOOST_TEST(leader.store.keep(leader.lead, "two").has_value(), "the repetition finds itself done");
  BOOST_REQUIRE(leader.store.keep(leader.lead, "three"));
  BOOST_CHECK(refusal(late.keep(leader.lead, "two again")) == ErrorName::LeadershipLost);
  BOOST_TEST(leader.store.decisions().value().value() == "three");
}

BOOST_AUTO_TEST_CASE(the_last_decisions_of_a_run_are_read_for_a_while_and_then_nothing_is_left_of_it) {
  EtcdProcess server;
  Candidate leader{server, "a:1"};
  BOOST_REQUIRE(leader.campaign());
  BOOST_REQUIRE(leader.store.keep_plan(leader.lead, "plan"));
  BOOST_TEST(!leader.store.decisions().value().has_value());
  BOOST_REQUIRE(leader.store.keep_last(leader.lead, "over", 60s));
  BOOST_REQUIRE(leader.store.leave(leader.lease));
  BOOST_TEST(leader.store.decisions().value().value() == "over");
  BOOST_TEST(leader.store.plan().value().value() == "plan");
  Client client{{server.url()}};
  const auto decisions = client.read("/prime/run-1/decisions", LIMIT).value().value();
  BOOST_TEST(decisions.lease != 0);
  BOOST_REQUIRE(client.revoke(decisions.lease, LIMIT));  // as its end would
  BOOST_TEST(client.read_all("/prime/", LIMIT).value().empty());
}

BOOST_AUTO_TEST_CASE(the_plan_is_the_first_leaders) {
  EtcdProcess server;
  Candidate first{server, "a:1"};
  BOOST_TEST(!first.store.plan().value().has_value());
  BOOST_CHECK(refusal(first.store.keep_plan(Lead{7}, "nobody's")) == ErrorName::LeadershipLost);
  BOOST_REQUIRE(first.campaign());
  BOOST_REQUIRE(first.store.keep_plan(first.lead, "the first"));
  BOOST_REQUIRE(first.store.keep_plan(first.lead, "the second"));
  BOOST_TEST(first.store.plan().value().value() == "the first");
  RunStore other{{server.url()}, "run-2", LIMIT};
  BOOST_TEST(!other.plan().value().has_value(), "runs share an etcd, and nothing else");
}

BOOST_AUTO_TEST_SUITE_END()

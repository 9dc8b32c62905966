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
  bool campaign() { return leads(store.campaign(address, lease)); }
  /// Leads a run that has just begun, and decides that.
  void begin(const std::string& decisions) {
    BOOST_REQUIRE(campaign());
    BOOST_TEST(!store.decisions().value().has_value());
    BOOST_REQUIRE(store.keep(lease, decisions));
  }
  bool depose(const Candidate& former) { return leads(store.depose(former.lease, address, lease)); }
  bool leads(const Result<std::optional<Leader>>& outcome) {
    leader = outcome.value() ? (*outcome)->address : address;
    return !*outcome;
  }
  RunStore store;
  std::string address;
  LeaseId lease = 0;
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
  BOOST_CHECK(known == (std::vector<Addresses>{Endpoint{"a", 1}, Endpoint{"b", 2}}));
  BOOST_REQUIRE(first.store.leave(first.lease));
  BOOST_TEST(second.campaign());
  BOOST_CHECK(second.store.coordinators().value().addresses == (std::vector<Addresses>{Endpoint{"b", 2}}));
}

BOOST_AUTO_TEST_CASE(who_was_deposed_decides_nothing_and_its_successor_goes_on_from_its_last_decision) {
  EtcdProcess server;
  Candidate first{server, "a:1"};
  Candidate second{server, "b:2"};
  first.begin("one");
  BOOST_REQUIRE(first.store.keep(first.lease, "two"));
  BOOST_REQUIRE(first.store.leave(first.lease));  // as if it had run out while the first stood still
  BOOST_CHECK(refusal(first.store.keep(first.lease, "three")) == ErrorName::LeadershipLost);
  BOOST_REQUIRE(second.campaign());
  BOOST_CHECK(refusal(first.store.keep(first.lease, "three")) == ErrorName::LeadershipLost);
  BOOST_TEST(second.store.decisions().value().value() == "two");
  BOOST_REQUIRE(second.store.keep(second.lease, "four"));
  BOOST_CHECK(refusal(first.store.keep(first.lease, "three")) == ErrorName::LeadershipLost);
  BOOST_TEST(second.store.decisions().value().value() == "four");
}

BOOST_AUTO_TEST_CASE(who_is_dead_is_deposed_by_its_successor_and_no_standby_comes_in_between) {
  EtcdProcess server;
  Candidate dead{server, "a:1"};
  Candidate standby{server, "b:2"};
  dead.begin("one");
  Client client{{server.url()}};
  const auto made = client.read("/prime/run-1/leader", LIMIT).value().value().created;
  Candidate successor{server, "a:1"};
  BOOST_TEST(successor.depose(dead));
  BOOST_TEST(client.read("/prime/run-1/leader", LIMIT).value().value().created == made, "the key was never away");
  BOOST_TEST(!standby.campaign());
  BOOST_TEST(standby.leader == "a:1");
  BOOST_CHECK(refusal(dead.store.keep(dead.lease, "late")) == ErrorName::LeadershipLost);
  BOOST_TEST(!dead.store.renew(dead.lease).value(), "were it alive after all, it would know");
  BOOST_TEST(successor.store.decisions().value().value() == "one");
  BOOST_REQUIRE(successor.store.keep(successor.lease, "two"));
  BOOST_CHECK(successor.store.coordinators().value().addresses == (std::vector<Addresses>{Endpoint{"a", 1}, Endpoint{"b", 2}}));
  BOOST_TEST(successor.depose(dead), "the answer to its first try may have been lost");
}

BOOST_AUTO_TEST_CASE(who_has_run_out_is_not_deposed_and_the_first_to_come_leads) {
  EtcdProcess server;
  Candidate dead{server, "a:1"};
  Candidate standby{server, "b:2"};
  BOOST_REQUIRE(dead.campaign());
  Candidate successor{server, "a:1"};
  BOOST_REQUIRE(dead.store.leave(dead.lease));
  BOOST_REQUIRE(standby.campaign());
  BOOST_TEST(!successor.depose(dead));
  BOOST_TEST(successor.leader == "b:2");
  BOOST_REQUIRE(standby.store.leave(standby.lease));
  BOOST_TEST(successor.depose(dead));
}

BOOST_AUTO_TEST_CASE(a_decision_that_was_kept_though_nobody_heard_of_it_is_kept_once) {
  EtcdProcess server;
  Candidate leader{server, "a:1"};
  leader.begin("one");
  // Another connection of the same leader, as a request that was given up and carried out all the same.
  RunStore late{{server.url()}, "run-1", LIMIT};
  BOOST_TEST(late.decisions().value().value() == "one");
  BOOST_REQUIRE(late.keep(leader.lease, "two"));
  BOOST_TEST(leader.store.keep(leader.lease, "two").has_value(), "the repetition finds itself done");
  BOOST_REQUIRE(leader.store.keep(leader.lease, "three"));
  BOOST_CHECK(refusal(late.keep(leader.lease, "two again")) == ErrorName::LeadershipLost);
  BOOST_TEST(leader.store.decisions().value().value() == "three");
}

BOOST_AUTO_TEST_CASE(the_last_decisions_of_a_run_are_read_for_a_while_and_then_nothing_is_left_of_it) {
  EtcdProcess server;
  Candidate leader{server, "a:1"};
  BOOST_REQUIRE(leader.campaign());
  BOOST_REQUIRE(leader.store.keep_plan(leader.lease, "plan"));
  BOOST_TEST(!leader.store.decisions().value().has_value());
  BOOST_REQUIRE(leader.store.keep_last(leader.lease, "over", 60s));
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
  BOOST_CHECK(refusal(first.store.keep_plan(LeaseId{7}, "nobody's")) == ErrorName::LeadershipLost);
  BOOST_REQUIRE(first.campaign());
  BOOST_REQUIRE(first.store.keep_plan(first.lease, "the first"));
  BOOST_REQUIRE(first.store.keep_plan(first.lease, "the second"));
  BOOST_TEST(first.store.plan().value().value() == "the first");
  RunStore other{{server.url()}, "run-2", LIMIT};
  BOOST_TEST(!other.plan().value().has_value(), "runs share an etcd, and nothing else");
}

BOOST_AUTO_TEST_SUITE_END()

// Owns the tests of the etcd client, against a real etcd.
#include "etcd_process.hpp"

BOOST_AUTO_TEST_SUITE(etcd_client, *boost::unit_test::precondition(prime::etcd::test::installed))

using namespace prime;
using namespace prime::etcd;
using etcd::test::EtcdProcess;
using etcd::test::LIMIT;

namespace {

Condition created(const std::string& key, std::int64_t equals) { return {key, Condition::Field::Created, equals}; }
Condition modified(const std::string& key, std::int64_t equals) { return {key, Condition::Field::Modified, equals}; }

Condition under(const std::string& key, LeaseId lease) { return {key, Condition::Field::Lease, lease}; }

/// A port at which nobody listens, nor will: it is kept until the tests end.
std::string nowhere() {
  static const auto port = test::bound_port();
  return "http://" + test::own_host() + ":" + std::to_string(port.number);
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_value_of_any_bytes_comes_back_and_so_does_an_empty_one) {
  EtcdProcess server;
  Client client{{server.url()}};
  std::string bytes;
  for (int i = 0; i < 1000; ++i) bytes += static_cast<char>(i);
  for (std::size_t length : {0U, 1U, 2U, 3U, 4U, 999U, 1000U}) {
    const auto value = bytes.substr(0, length);
    BOOST_REQUIRE(client.put({"/a", value}, LIMIT));
    const auto read = client.read("/a", LIMIT);
    BOOST_REQUIRE(read.has_value());
    BOOST_REQUIRE(read->has_value());
    BOOST_CHECK((*read)->value == value);
    BOOST_TEST((*read)->key == "/a");
  }
  BOOST_TEST(!client.read("/b", LIMIT).value().has_value());
}

BOOST_AUTO_TEST_CASE(all_keys_below_a_prefix_are_read_and_no_others) {
  EtcdProcess server;
  Client client{{server.url()}};
  for (const char* key : {"/p/b", "/p/a", "/p", "/p0", "/q/a"}) BOOST_REQUIRE(client.put({key, key}, LIMIT));
  const auto found = client.read_all("/p/", LIMIT).value();
  BOOST_REQUIRE(found.size() == 2U);
  BOOST_TEST(found[0].value == "/p/a");
  BOOST_TEST(found[1].value == "/p/b");
}

BOOST_AUTO_TEST_CASE(a_transaction_does_all_or_nothing_and_says_what_stood_against_it) {
  EtcdProcess server;
  Client client{{server.url()}};
  const auto made = client.commit({{created("/leader", 0)}, {{"/leader", "one"}}, {"/leader"}}, LIMIT).value();
  BOOST_TEST(made.succeeded);
  const auto refused = client.commit({{created("/leader", 0)}, {{"/leader", "two"}, {"/x", "two"}}, {"/leader", "/x"}}, LIMIT).value();
  BOOST_TEST(!refused.succeeded);
  BOOST_REQUIRE(refused.others.size() == 2U);
  BOOST_TEST(refused.others[0].value().value == "one");
  BOOST_TEST(refused.others[0]->created == made.revision);
  BOOST_TEST(!refused.others[1].has_value());
  // Two conditions, of which one fails.
  const auto guarded = [&](std::int64_t leader, std::int64_t kept) {
    return client.commit({{created("/leader", leader), modified("/kept", kept)}, {{"/kept", "x"}}, {}}, LIMIT).value();
  };
  BOOST_TEST(!guarded(made.revision + 1, 0).succeeded);
  BOOST_TEST(!guarded(made.revision, 7).succeeded);
  const auto kept = guarded(made.revision, 0);
  BOOST_TEST(kept.succeeded);
  BOOST_TEST(!guarded(made.revision, 0).succeeded, "a repeated request finds what it did");
  BOOST_TEST(guarded(made.revision, kept.revision).succeeded);
}

BOOST_AUTO_TEST_CASE(what_is_under_a_lease_goes_with_it) {
  EtcdProcess server;
  Client client{{server.url()}};
  const auto lease = client.grant(60s, LIMIT).value();
  BOOST_REQUIRE(client.put({"/a", "x", lease}, LIMIT));
  BOOST_TEST(client.read("/a", LIMIT).value().value().lease == lease);
  BOOST_TEST(client.renew(lease, LIMIT).value());
  const auto other = client.grant(60s, LIMIT).value();
  BOOST_TEST(!client.commit({{under("/a", other)}, {{"/a", "z", other}}, {}}, LIMIT).value().succeeded);
  BOOST_TEST(client.commit({{under("/a", lease)}, {{"/b", "z", lease}}, {}}, LIMIT).value().succeeded);
  BOOST_TEST(client.commit({{under("/c", 0)}, {}, {}}, LIMIT).value().succeeded, "what is not there is under none");
  BOOST_TEST(!client.commit({{under("/c", lease)}, {}, {}}, LIMIT).value().succeeded);
  BOOST_REQUIRE(client.revoke(lease, LIMIT));
  BOOST_TEST(!client.read("/a", LIMIT).value().has_value());
  BOOST_TEST(!client.renew(lease, LIMIT).value());
  BOOST_TEST(client.revoke(lease, LIMIT).has_value(), "one that is gone is no error");
  const auto unrenewed = client.grant(5s, LIMIT).value();
  BOOST_REQUIRE(client.put({"/a", "x", unrenewed}, LIMIT));
  test::wait_until("the end of a lease that nobody renews", [&] { return !client.read("/a", LIMIT).value().has_value(); });
}

BOOST_AUTO_TEST_CASE(an_endpoint_that_is_dead_or_mute_is_passed_over) {
  EtcdProcess mute;
  mute.freeze();
  EtcdProcess server;
  Client client{{nowhere(), mute.url(), server.url()}};
  BOOST_REQUIRE(client.put({"/a", "x"}, 9s));
  mute.thaw();
  BOOST_TEST(Client{{server.url()}}.read("/a", LIMIT).value()->value == "x");
}

BOOST_AUTO_TEST_CASE(where_nobody_answers_a_call_ends_by_name_at_its_limit) {
  EtcdProcess mute;
  mute.freeze();
  Client client{{nowhere(), mute.url()}};
  const auto begun = monotonic_now();
  const auto outcome = client.put({"/a", "x"}, 300ms);
  BOOST_TEST((monotonic_now() - begun < 30s));
  BOOST_REQUIRE(!outcome);
  BOOST_CHECK(outcome.error().name == ErrorName::StandbyStoreFailed);
  BOOST_TEST(outcome.error().detail.starts_with(mute.url()), outcome.error().detail);
  mute.thaw();
}

BOOST_AUTO_TEST_CASE(a_value_that_is_too_large_is_refused_before_it_is_sent) {
  Client client{{nowhere()}};
  const auto outcome = client.put({"/a", std::string(VALUE_BYTES_MAX + 1, 'x')}, LIMIT);
  BOOST_REQUIRE(!outcome);
  BOOST_TEST(outcome.error().detail == "/a would hold 1048577 bytes");
  EtcdProcess server;
  BOOST_TEST(Client{{server.url()}}.put({"/a", std::string(VALUE_BYTES_MAX, 'x')}, LIMIT).has_value(), "etcd takes the largest one");
}

BOOST_AUTO_TEST_SUITE_END()

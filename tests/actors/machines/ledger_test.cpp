// Owns the tests of the coordinator's ledger: nothing is told before it is written, and nothing waits for more than that.
#include "actors/coordinator/ledger.hpp"

#include <boost/test/unit_test.hpp>
#include <string>

BOOST_AUTO_TEST_SUITE(ledger)

using namespace prime;
using namespace prime::coordinator;

namespace {

Instant at(Duration time) { return Instant{} + time; }
Snapshot decision(std::uint64_t revision) {
  Snapshot snapshot;
  snapshot.revision = Revision{revision};
  return snapshot;
}
Send told(std::uint64_t peer) { return Send{PeerId{peer}, Abort{}}; }
Send beat(std::uint64_t peer) { return Send{PeerId{peer}, HeartbeatSeen{}}; }

/// "w3" writes revision 3 ("w" journal lines alone), "t1" tells peer 1 something, "b1" answers its heartbeat.
std::string text(const std::vector<Action>& actions) {
  std::string all;
  for (const auto& action : actions) {
    if (const auto* write = std::get_if<WriteEntry>(&action))
      all += "w" + (write->entry.decided ? std::to_string(write->entry.decided->revision.value) : "") +
             std::string(write->entry.events.size(), '.');
    if (const auto* send = std::get_if<Send>(&action))
      all += (std::holds_alternative<HeartbeatSeen>(send->message) ? "b" : "t") + std::to_string(send->to.value);
    if (std::holds_alternative<Fence>(action)) all += "f";
    if (std::holds_alternative<LookFor>(action)) all += "l";
    if (std::holds_alternative<Finish>(action)) all += "e";
    all += " ";
  }
  return all;
}

struct Book {
  Book() {
    Options options;
    options.coordinator_grace = 10s;
    ledger = open_ledger(options);
  }
  std::string on(Effects effects, Duration now = {}) { return text(record(ledger, std::nullopt, std::move(effects), at(now))); }
  std::string on(const Snapshot& decided, Effects effects, Duration now = {}) {
    return text(record(ledger, decided, std::move(effects), at(now)));
  }
  std::string done(Duration now = {}) { return text(written(ledger, at(now))); }
  Ledger ledger;
};

}  // namespace

BOOST_AUTO_TEST_CASE(what_was_for_a_connection_that_broke_is_not_told_over_the_next_one) {
  Book book;
  BOOST_TEST(book.on(decision(1), {told(1), told(3)}) == "w1 ");
  BOOST_TEST(book.on(decision(2), {told(1), Fence{PeerId{1}}, told(3)}) == "");
  forget(book.ledger, PeerId{1});  // it greets anew
  BOOST_TEST(book.on({told(1)}) == "", "what answers the greeting waits as ever");
  BOOST_TEST(book.done() == "t3 w2 ");
  BOOST_TEST(book.done() == "f t3 t1 ");
}

BOOST_AUTO_TEST_CASE(what_follows_from_a_decision_is_told_once_it_is_written) {
  Book book;
  BOOST_TEST(book.on(decision(1), {told(1), Fence{PeerId{2}}, told(3)}) == "w1 ");
  BOOST_TEST(book.done() == "t1 f t3 ");
}

BOOST_AUTO_TEST_CASE(what_tells_nothing_that_was_decided_waits_for_nothing) {
  Book book;
  BOOST_TEST(book.on({told(1)}) == "t1 ");  // nothing is being written
  BOOST_TEST(book.on(decision(1), {told(1), beat(2), LookFor{PeerId{3}, {}}}) == "b2 l w1 ");
  BOOST_TEST(book.on({beat(1)}) == "b1 ");
  BOOST_TEST(book.done() == "t1 ");
}

BOOST_AUTO_TEST_CASE(one_entry_takes_all_that_was_decided_while_the_one_before_it_was_written) {
  Book book;
  BOOST_TEST(book.on(decision(1), {told(1)}) == "w1 ");
  BOOST_TEST(book.on({told(2)}) == "");  // follows from the first alone
  BOOST_TEST(book.on(decision(2), {events::RunStopped{}, told(3)}) == "");
  BOOST_TEST(book.on(decision(3), {events::RunStopped{}, told(4), Finish{}}) == "");
  BOOST_TEST(book.on({told(5)}) == "");
  BOOST_TEST(book.done() == "t1 t2 w3.. ");
  BOOST_TEST(book.done() == "t3 t4 e t5 ");
  BOOST_TEST(book.done() == "");
}

BOOST_AUTO_TEST_CASE(lines_of_the_journal_alone_are_an_entry_too) {
  Book book;
  BOOST_TEST(book.on({events::RunStopped{}, told(1)}) == "w. ");
  BOOST_TEST(book.done() == "t1 ");
}

BOOST_AUTO_TEST_CASE(it_tells_for_how_long_nobody_has_heard_what_is_decided) {
  Book book;
  BOOST_CHECK(tick(book.ledger, at(5s)).untold == 0s);
  book.on(decision(1), {}, 1s);
  BOOST_CHECK(tick(book.ledger, at(3s)).untold == 2s);
  book.on(decision(2), {}, 2s);
  book.done(4s);
  BOOST_CHECK(tick(book.ledger, at(5s)).untold == 3s);  // since it was decided, not since it is being written
  book.done(6s);
  BOOST_CHECK(tick(book.ledger, at(7s)).untold == 0s);
}

BOOST_AUTO_TEST_CASE(an_entry_that_takes_longer_than_peers_wait_for_a_coordinator_ends_it) {
  Book book;
  BOOST_CHECK(!overdue(book.ledger, at(100s)));
  book.on(decision(1), {}, 1s);
  book.on(decision(2), {}, 2s);
  BOOST_CHECK(!overdue(book.ledger, at(11s)));
  const auto cause = overdue(book.ledger, at(11s + 1ms));
  BOOST_REQUIRE(cause);
  BOOST_CHECK(cause->name == ErrorName::StorageFailed);
  book.done(12s);
  BOOST_CHECK(!overdue(book.ledger, at(13s)));
}

BOOST_AUTO_TEST_SUITE_END()

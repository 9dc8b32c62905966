// Owns the tests of what a coordinator keeps: it comes back as it was, or is refused.
#include "runtime/agent/decision_file.hpp"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <filesystem>
#include <random>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>

#include "runtime/store/atomic_file.hpp"

using namespace prime;
using namespace prime::coordinator;

namespace {

Snapshot full() {
  Snapshot s;
  s.epoch = Epoch{7};
  s.members = {{Member{PeerId{~0ULL}, "a \"name\"", Addresses({{"::1", 65535}, {"other", 1}}), 3},
                1,
                2,
                {{0, 2}, OuterStep{4}, Revision{9}, 640},
                {{1}, OuterStep{3}, Revision{8}, 320}},
               {Member{PeerId{2}, "b", Endpoint{"host", 1}, 4}, 3, 4, {}, {}, {}, 1, "north"}};
  s.next_ordinal = 5;
  s.phase = Phase::Over;
  s.paused_for = 6;
  s.paused_by_owner = true;
  s.checkpoint = Origin{Revision{10}, OuterStep{5}, Digest{5, 6}, 7, 8, {}, {3}, {Digest{8, 1}, Digest{8, 2}}};
  s.given_back = {4, 40};
  s.unused = {4};
  s.restoring = true;
  s.end_cause = Error{ErrorName::TooFewPeers, "one"}.with_context("somewhere");
  s.finalist = PeerId{2};
  s.data = {Digest{9, 8}, "12 files, \"quoted\"", "1 2 00000003 a\n"};
  s.digest = Digest{3, 4};
  s.revision = Revision{11};
  s.versions = {OuterStep{6}, OuterStep{6}, OuterStep{5}};
  s.shards = {{Digest{1, 2}, 1ULL << 40, Digest{6, 6}, {Digest{1, 1}, Digest{2, 2}, Digest{3, 3}}}, {Digest{1, 3}, 7, std::nullopt, {}}};
  s.cursor = 12;
  s.step_begun = true;
  s.step_span = 13;
  s.closed_span = 26;
  s.tokens = 14;
  s.sequence = Sequence{15};
  s.operation = OperationId{Epoch{7}, Sequence{15}, Tag{1}};
  s.commits = {
      {Commit{OperationId{Epoch{7}, Sequence{13}, Tag{1}}, OuterStep{11}, Revision{10}, Digest{3, 3}, 1, Digest{4, 4}, true, {4}}, {}},
      {Commit{OperationId{Epoch{7}, Sequence{14}}, OuterStep{11}, Revision{11}, Digest{3, 4}, 2, Digest{5, 5}, false},
       {events::RoundCommitted{.fragment = 2, .contributors = {PeerId{2}}, .weights = {7}, .base_versions = {Revision{9}}},
        events::OuterStepCommitted{.revision = Revision{11},
                                   .contributors = {PeerId{~0ULL}, PeerId{2}},
                                   .loss = 0.1,
                                   .tokens_per_s = std::nan(""),
                                   .reduce_s = Duration{12'345'678}}},
       {{Digest{6, 1}, Digest{6, 2}}, {Digest{7, 1}, Digest{7, 2}}}}};
  return s;
}

struct Place {
  Place() : directory(std::filesystem::temp_directory_path() / ("prime-decisions-" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(directory);
  }
  ~Place() { std::filesystem::remove_all(directory); }
  std::filesystem::path directory;
};

}  // namespace

BOOST_AUTO_TEST_CASE(decisions_of_before_there_were_pauses_and_rollbacks_are_read) {
  auto old = full();
  old.checkpoint.reset();  // as one line
  auto text = format_snapshot(old);
  for (const auto* key : {"\"paused_for\"", "\"paused_by_owner\"", "\"checkpoint\"", "\"restoring\""}) {
    const auto at = text.find(key);
    BOOST_REQUIRE(at != std::string::npos);
    text.erase(at, text.find(',', at) + 1 - at);
  }
  const auto back = parse_snapshot(text);
  BOOST_REQUIRE(back.has_value());
  BOOST_TEST(!back->paused_for.has_value());
  BOOST_TEST(!back->paused_by_owner);
  BOOST_TEST(!back->restoring);
  BOOST_TEST(back->revision.value == full().revision.value);
}

BOOST_AUTO_TEST_CASE(what_was_kept_last_comes_back_as_it_was) {
  const Place place;
  DecisionFile file{place.directory / "decisions.json"};
  BOOST_TEST(!file.read().value().has_value());
  file.keep(Snapshot{});
  file.keep(full());
  auto back = file.read().value();
  BOOST_REQUIRE(back.has_value());
  BOOST_TEST(format_snapshot(*back) == format_snapshot(full()));
  BOOST_TEST((back->members[0].member == full().members[0].member));
  BOOST_TEST(back->members[0].owed.begun.value == 4U);
  BOOST_TEST(back->members[0].owed.first_sample == 640U);
  BOOST_TEST((back->paused_for == full().paused_for));
  BOOST_TEST(back->paused_by_owner);
  BOOST_TEST(back->checkpoint->revision.value == 10U);
  BOOST_TEST(back->restoring);
  BOOST_TEST((back->end_cause == full().end_cause));
  BOOST_TEST((back->operation == full().operation));
  BOOST_TEST(back->members[0].owed.fragments == (std::vector<std::uint32_t>{0, 2}), boost::test_tools::per_element());
  BOOST_TEST(back->members[0].owed.base.value == 9U);
  BOOST_TEST(back->checkpoint->step.value == 5U);
  BOOST_CHECK((back->checkpoint->given_back == std::set<std::uint64_t>{3} && back->given_back == full().given_back));
  BOOST_CHECK((back->unused == full().unused && back->commits[0].commit.given_back == full().unused));
  BOOST_TEST(back->step_begun);
  BOOST_TEST((back->versions == full().versions));
  BOOST_REQUIRE(back->shards.size() == 2U);
  BOOST_CHECK((back->shards[0].state == Digest{6, 6} && back->shards[0].parts == full().shards[0].parts));
  BOOST_CHECK((back->shards[1].layout == Digest{1, 3} && back->shards[1].elements == 7U && !back->shards[1].state));
  BOOST_CHECK((back->checkpoint->shards == full().checkpoint->shards));
  BOOST_CHECK((back->members[1].shard == 1U && back->members[1].replica == "north"));
  BOOST_REQUIRE(back->commits.size() == 2U);
  BOOST_CHECK((back->commits[0].commit.op == full().commits[0].commit.op));
  BOOST_TEST(back->commits[0].commit.completes);
  BOOST_TEST(back->commits[1].commit.fragment == 2U);
  BOOST_TEST(!back->commits[1].commit.completes);
  BOOST_TEST(back->commits[0].shards.empty());
  BOOST_REQUIRE(back->commits[1].shards.size() == 2U);
  BOOST_CHECK((back->commits[1].shards[1].state == Digest{7, 1} && back->commits[1].shards[1].part == Digest{7, 2}));
  auto lines = full().commits[1].lines;
  auto& told = back->commits[1].lines;
  BOOST_REQUIRE(told.size() == lines.size());
  BOOST_CHECK(told[0] == lines[0]);
  auto& step = std::get<events::OuterStepCommitted>(told[1]);
  BOOST_TEST(std::isnan(step.tokens_per_s));
  step.tokens_per_s = std::get<events::OuterStepCommitted>(lines[1]).tokens_per_s = 0;
  BOOST_CHECK(told == lines);
  file.keep(Snapshot{});
  BOOST_TEST(format_snapshot(*file.read().value()) == format_snapshot(Snapshot{}));
}

BOOST_AUTO_TEST_CASE(who_can_open_no_file_waits_for_one_and_says_so) {
  const Place place;
  DecisionFile file{place.directory / "decisions.json", 10min};
  BOOST_TEST(file.place().starts_with("the disk of "), file.place());
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  auto none = before;
  none.rlim_cur = 0;
  ::setrlimit(RLIMIT_NOFILE, &none);
  std::jthread writer{[&] { file.keep(full()); }};
  while (file.place().starts_with("the disk of ")) std::this_thread::sleep_for(1ms);
  const auto waits = file.place();
  ::setrlimit(RLIMIT_NOFILE, &before);
  writer.join();
  BOOST_TEST(waits.find("a file descriptor for the coordinator's ledger: create ") == 0U, waits);
  BOOST_TEST(waits.find("descriptors that `ulimit -n` allows are open (`prlimit --pid ") != std::string::npos, waits);
  BOOST_TEST(file.place().starts_with("the disk of "), file.place());
  BOOST_TEST(format_snapshot(*file.read().value()) == format_snapshot(full()));
}

BOOST_AUTO_TEST_CASE(a_damaged_file_is_refused_and_not_guessed_at) {
  const Place place;
  const auto path = place.directory / "decisions.json";
  const auto text = format_snapshot(full());
  std::mt19937_64 random(1);
  for (int tries = 0; tries < 2000; ++tries) {
    BOOST_TEST(!parse_snapshot(text.substr(0, random() % (text.size() - 2))).has_value());
    auto damaged = text;
    damaged[random() % text.size()] = static_cast<char>(random());
    (void)parse_snapshot(damaged);  // another digit is another number; whatever else it is, nothing crashes
  }
  for (const auto* wrong : {"", "{}", "[]", "{\"schema\": \"prime.decisions/8\"}"}) {
    BOOST_REQUIRE(store::write_file_atomically(path, wrong).has_value());
    BOOST_TEST((DecisionFile{path}.read().error().name == ErrorName::StorageFailed));
    BOOST_TEST(DecisionFile{path}.read().error().detail == path.string() + " is damaged: another copy of it is needed");
  }
  BOOST_REQUIRE(store::write_file_atomically(path, "{\"schema\": \"prime.decisions/9\"}").has_value());
  BOOST_TEST(DecisionFile{path}.read().error().detail == path.string() +
                                                             " is of format prime.decisions/9, and this program reads "
                                                             "prime.decisions/8: let the release that wrote it serve this run");
}

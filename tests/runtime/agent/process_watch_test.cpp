// Proves what a process says of itself when it has no descriptors left, or stood still.
#include "runtime/agent/process_watch.hpp"

#include <boost/test/unit_test.hpp>
#include <cerrno>
#include <sys/resource.h>
#include <unistd.h>
#include <vector>

namespace prime {
namespace {

struct Journal final : JournalPort {
  std::vector<JournalEvent> lines;
  void append(const JournalEvent& event) override { lines.push_back(event); }
};

constexpr Instant START{};

}  // namespace

BOOST_AUTO_TEST_SUITE(process_watch)

BOOST_AUTO_TEST_CASE(that_no_descriptor_is_to_be_had_is_said_once_and_that_it_is_over_too) {
  Journal journal;
  int error = 0;
  DescriptorWatch watch{journal, [&] { return error; }};
  watch.look(START);
  error = ENOMEM;  // another trouble, which has a name of its own where it is met
  watch.look(START);
  BOOST_TEST(journal.lines.empty());
  error = EMFILE;
  watch.look(START + 1s);
  watch.look(START + 2s);
  BOOST_REQUIRE(journal.lines.size() == 1U);
  const auto& reason = std::get<events::DescriptorsUsedUp>(journal.lines[0]).reason;
  BOOST_TEST(reason.find("that `ulimit -n` allows are open (`prlimit --pid " + std::to_string(::getpid()) + " --nofile=MORE`") !=
                 std::string::npos,
             reason);
  error = 0;
  watch.look(START + 5s);
  watch.look(START + 14s);
  BOOST_REQUIRE(journal.lines.size() == 1U);
  watch.look(START + 15s);
  BOOST_REQUIRE(journal.lines.size() == 2U);
  BOOST_TEST((std::get<events::DescriptorsFree>(journal.lines[1]).after_s == 4s));
  error = ENFILE;
  watch.look(START + 17s);
  BOOST_REQUIRE(journal.lines.size() == 3U);
  BOOST_TEST(std::get<events::DescriptorsUsedUp>(journal.lines[2]).reason.find("fs.file-max") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_process_at_its_limit_that_has_one_to_spare_now_and_then_says_so_once) {
  Journal journal;
  int error = 0;
  DescriptorWatch watch{journal, [&] { return error; }};
  for (auto now = START; now < START + 60s; now += 250ms) {
    error = (now - START) / 2s % 2 == 0 ? EMFILE : 0;
    watch.look(now);
  }
  BOOST_TEST(journal.lines.size() == 1U);
}

BOOST_AUTO_TEST_CASE(the_limit_of_this_process_is_what_is_looked_at) {
  Journal journal;
  DescriptorWatch watch{journal};
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  rlimit none = before;
  none.rlim_cur = 0;
  ::setrlimit(RLIMIT_NOFILE, &none);
  watch.look(START);
  ::setrlimit(RLIMIT_NOFILE, &before);
  watch.look(START + 1s);
  watch.look(START + 11s);
  BOOST_TEST(journal.lines.size() == 2U);
}

BOOST_AUTO_TEST_CASE(a_process_that_stood_still_knows_for_how_long) {
  StandstillWatch watch{START};
  BOOST_TEST(!watch.look(START + 250ms).has_value());
  BOOST_TEST(!watch.look(START + 2200ms).has_value(), "a busy machine");
  const auto stood = watch.look(START + 6s);
  BOOST_REQUIRE(stood.has_value());
  BOOST_TEST((*stood == 3800ms));
  BOOST_TEST(!watch.look(START + 6250ms).has_value());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace prime

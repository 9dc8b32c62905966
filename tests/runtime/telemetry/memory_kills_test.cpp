// Owns the tests of who was killed for want of memory, on counters written by hand and virtual time.
#include "runtime/telemetry/memory_kills.hpp"

#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace prime::telemetry {
namespace {

class Counter {
 public:
  Counter() {
    auto name = (std::filesystem::temp_directory_path() / "prime-kills-XXXXXX").string();
    BOOST_REQUIRE(::mkdtemp(name.data()) != nullptr);
    directory_ = name;
    set(0);
  }
  Counter(const Counter&) = delete;
  Counter& operator=(const Counter&) = delete;
  ~Counter() {
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }
  void set(int kills) const { std::ofstream(path()) << "low 0\nhigh 0\nmax 17\noom 5\noom_kill " << kills << "\n"; }
  /// The machine's own counter must not decide: others run here.
  [[nodiscard]] MemoryKills now(std::uint64_t kills) const { return {path(), kills, std::uint64_t{1} << 60U}; }

 private:
  [[nodiscard]] std::string path() const { return (directory_ / "memory.events").string(); }
  std::filesystem::path directory_;
};

constexpr Instant START{1000s};

}  // namespace

BOOST_AUTO_TEST_SUITE(memory_kills)

BOOST_AUTO_TEST_CASE(a_kill_that_was_counted_just_before_the_end_is_its_cause) {
  const Counter counter;
  MemoryKillWatch watch{START, counter.now(0)};
  BOOST_TEST(watch.want_of_memory().empty());
  for (int s = 0; s <= 60; s += 2) watch.look(START + Duration{std::chrono::seconds{s}});
  counter.set(1);
  BOOST_TEST(watch.want_of_memory() == "for want of memory: its cgroup is at its limit");
  watch.look(START + 62s);
  watch.look(START + 64s);
  BOOST_TEST(!watch.want_of_memory().empty(), "a large process is slow to go");
}

BOOST_AUTO_TEST_CASE(a_kill_of_somebody_else_long_before_the_end_is_not_its_cause) {
  const Counter counter;
  MemoryKillWatch watch{START, counter.now(0)};
  watch.look(START + 6s);
  counter.set(1);
  for (int s = 8; s <= 20; s += 2) watch.look(START + Duration{std::chrono::seconds{s}});
  BOOST_TEST(watch.want_of_memory().empty());
}

BOOST_AUTO_TEST_CASE(of_a_process_that_nobody_waited_for_it_is_known_only_that_somebody_was_killed) {
  const Counter counter;
  BOOST_TEST(kills_since_it_began(counter.now(0)).empty());
  counter.set(1);
  BOOST_TEST(kills_since_it_began(counter.now(0)) == "the kernel has killed processes of its cgroup for want of memory since it began");
  BOOST_TEST(kills_since_it_began(MemoryKills{}).empty());
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace prime::telemetry

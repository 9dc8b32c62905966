// Owns the tests of how much memory can be had, on files as kernels write them.
#include "runtime/doctor/memory_room.hpp"

#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <fstream>

namespace prime::doctor {
namespace {

namespace fs = std::filesystem;
constexpr std::uint64_t MIB_BYTES = 1 << 20;

struct Root {
  Root() {
    auto name = (fs::temp_directory_path() / "prime-memory-XXXXXX").string();
    BOOST_REQUIRE(::mkdtemp(name.data()) != nullptr);
    path = name;
    write("proc/meminfo", "MemTotal:       4194304 kB\nMemFree:          10240 kB\nMemAvailable:   2097152 kB\n");
  }
  Root(const Root&) = delete;
  Root& operator=(const Root&) = delete;
  ~Root() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  void write(const fs::path& file, const std::string& text) const {
    fs::create_directories((path / file).parent_path());
    std::ofstream{path / file} << text;
  }
  void limit(const fs::path& folder, const std::string& most, const std::string& used, const std::string& cache, bool first = false) const {
    write(folder / (first ? "memory.limit_in_bytes" : "memory.max"), most);
    write(folder / (first ? "memory.usage_in_bytes" : "memory.current"), used);
    write(folder / "memory.stat", "anon 1\n" + std::string{first ? "total_" : ""} + "inactive_file " + cache + "\n");
  }
  fs::path path;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(memory_room_of)

BOOST_AUTO_TEST_CASE(a_machine_without_limits_has_what_is_available) {
  const Root root;
  const auto room = memory_room(root.path);
  BOOST_REQUIRE(room.has_value());
  BOOST_TEST(room->machine_bytes == 4096 * MIB_BYTES);
  BOOST_TEST(room->can_be_had() == 2048 * MIB_BYTES);
  BOOST_TEST(!room->group.has_value());
}

BOOST_AUTO_TEST_CASE(the_narrowest_group_on_the_way_up_counts_and_cache_that_is_given_up_does_not) {
  const Root root;
  root.write("proc/self/cgroup", "0::/a/b\n");
  root.limit("sys/fs/cgroup/a/b", "max\n", "5\n", "0");
  root.limit("sys/fs/cgroup/a", "1073741824\n", "838860800\n", "104857600");
  const auto room = memory_room(root.path);
  BOOST_REQUIRE((room && room->group));
  BOOST_TEST(room->group->limit_file == (root.path / "sys/fs/cgroup/a/memory.max").string());
  BOOST_TEST(room->group->limit_bytes == 1024 * MIB_BYTES);
  BOOST_TEST(room->can_be_had() == 324 * MIB_BYTES);
}

BOOST_AUTO_TEST_CASE(the_first_version_and_a_container_that_sees_itself_as_the_root) {
  const Root root;
  root.write("proc/self/cgroup", "9:name=systemd:/\n4:memory:/docker/0123\n0::/\n");
  root.limit("sys/fs/cgroup/memory", "314572800\n", "104857600\n", "0", true);
  BOOST_TEST(memory_room(root.path)->can_be_had() == 200 * MIB_BYTES);
  root.limit("sys/fs/cgroup/memory", "9223372036854771712\n", "104857600\n", "0", true);
  BOOST_TEST(!memory_room(root.path)->group.has_value(), "no limit");
  root.limit("sys/fs/cgroup/memory", "104857600\n", "209715200\n", "0", true);
  BOOST_TEST(memory_room(root.path)->can_be_had() == 0U);
}

BOOST_AUTO_TEST_CASE(what_the_kernel_does_not_tell_is_not_guessed) {
  const Root root;
  root.write("proc/meminfo", "MemTotal: 5 kB\n");
  BOOST_TEST(!memory_room(root.path).has_value());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace prime::doctor

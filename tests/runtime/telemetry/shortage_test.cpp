// Owns the tests of how a process ends that gets no more threads or memory, in processes of their own.
#include "runtime/shortage.hpp"

#include <array>
#include <boost/test/unit_test.hpp>
#include <csignal>
#include <stdexcept>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace prime {
namespace {

struct End {
  int status = 0;
  std::string said;
};

/// What becomes of a process in which `act` is done by a thread that catches nothing.
End end_of(void (*act)(), rlim_t address_space = RLIM_INFINITY) {
  std::array<int, 2> pipe{};
  BOOST_REQUIRE(::pipe(pipe.data()) == 0);
  const auto child = ::fork();
  BOOST_REQUIRE(child >= 0);
  if (child == 0) {
    ::dup2(pipe[1], STDERR_FILENO);
    std::signal(SIGABRT, SIG_DFL);  // the test framework has put one of its own there
    const rlimit none{0, 0};
    ::setrlimit(RLIMIT_CORE, &none);
    end_by_name_when_short();
    std::thread thread{[&] {
      const rlimit limit{address_space, RLIM_INFINITY};
      ::setrlimit(RLIMIT_AS, &limit);
      act();
    }};
    thread.join();
    ::_exit(0);
  }
  ::close(pipe[1]);
  End end;
  std::array<char, 512> bytes{};
  for (ssize_t count = 0; (count = ::read(pipe[0], bytes.data(), bytes.size())) > 0;)
    end.said.append(bytes.data(), static_cast<std::size_t>(count));
  ::close(pipe[0]);
  ::waitpid(child, &end.status, 0);
  return end;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(shortages)

BOOST_AUTO_TEST_CASE(a_thread_that_is_refused_ends_the_process_by_name_with_the_limit) {
  const auto end =
      end_of([] { throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again)); }, rlim_t{1} << 46U);
  BOOST_TEST(WIFEXITED(end.status));
  BOOST_TEST(WEXITSTATUS(end.status) == 1);
  BOOST_TEST(
      end.said.starts_with("error: memory, descriptors or threads are used up: a thread was refused: `ulimit -v` allows 68719476736 KiB"),
      end.said);
  BOOST_TEST(end.said.find("[PR0708]") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(so_does_memory_that_is_refused) {
  const auto end = end_of([] { throw std::bad_alloc{}; });
  BOOST_TEST(WIFEXITED(end.status));
  BOOST_TEST(end.said.find("an allocation was refused: ") != std::string::npos, end.said);
  BOOST_TEST(end.said.find("threads of this user") == std::string::npos, "what limits threads limits no memory");
}

BOOST_AUTO_TEST_CASE(a_thread_that_no_limit_of_memory_refuses_names_those_of_threads) {
  const auto end = end_of([] { throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again)); });
  BOOST_TEST(end.said.find("the control group (`pids.max`) may allow fewer") != std::string::npos, end.said);
}

BOOST_AUTO_TEST_CASE(any_other_exception_ends_it_as_before) {
  const auto end = end_of([] { throw std::logic_error{"a fault of ours"}; });
  BOOST_TEST(WIFSIGNALED(end.status));
  BOOST_TEST(end.said.find("a fault of ours") != std::string::npos, end.said);
  BOOST_TEST(!shortage(std::system_error{std::make_error_code(std::errc::no_such_process)}).has_value());
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace prime

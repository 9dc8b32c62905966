// Owns what a process says when it gets no more memory, threads or descriptors: an error by name, with the limit that is in the way.
#pragma once

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <optional>
#include <string>
#include <sys/resource.h>
#include <system_error>

#include "messages/result.hpp"

namespace prime {

enum class Lack : std::uint8_t { Memory, Threads };

/// The limits that a lack of memory or threads comes from, where any is set: "`ulimit -v` allows 399360 KiB of addresses".
inline std::string limits_in_the_way(Lack lack = Lack::Memory) {
  std::string text;
  const auto name = [&](int resource, const char* option, std::uint64_t unit, const char* what) {
    rlimit limit{};
    if (::getrlimit(static_cast<__rlimit_resource>(resource), &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
    text += (text.empty() ? "" : ", ") + std::string{"`ulimit "} + option + "` allows " + std::to_string(limit.rlim_cur / unit) + what;
  };
  name(RLIMIT_AS, "-v", 1024, " KiB of addresses");
  name(RLIMIT_DATA, "-d", 1024, " KiB of data");
  if (lack == Lack::Threads && text.empty()) {  // both are nearly always set, and far away
    name(RLIMIT_NPROC, "-u", 1, " processes and threads of this user");
    text += (text.empty() ? "" : ", ") + std::string{"the control group (`pids.max`) may allow fewer"};
  }
  return text.empty() ? "no `ulimit` is in the way" : text;
}

/// The one kind of exception that somebody can do something about; empty for any other. A thread that is refused is an EAGAIN for want of
/// addresses, too.
inline std::optional<Error> shortage(const std::exception& thrown) {
  const bool no_memory = dynamic_cast<const std::bad_alloc*>(&thrown) != nullptr;
  const auto* const system = dynamic_cast<const std::system_error*>(&thrown);
  const bool no_thread =
      system != nullptr && (system->code() == std::errc::resource_unavailable_try_again || system->code() == std::errc::not_enough_memory);
  if (!no_memory && !no_thread) return std::nullopt;
  return Error{ErrorName::MemoryUnavailable, no_memory ? "an allocation was refused: " + limits_in_the_way()
                                                       : "a thread was refused: " + limits_in_the_way(Lack::Threads)};
}

/// To be called first in `main`: whichever thread gets no memory or no further thread, the process ends by that error on its standard
/// error, and not by a signal.
inline void end_by_name_when_short() {
  static const std::terminate_handler otherwise = std::get_terminate();
  std::set_terminate([] {
    try {
      if (const auto thrown = std::current_exception()) std::rethrow_exception(thrown);
    } catch (const std::exception& thrown) {
      if (const auto error = shortage(thrown)) {
        std::fputs(render(*error).c_str(), stderr);
        std::_Exit(info(error->name).exit_code);
      }
    } catch (...) {  // what it is, the other handler says
    }
    otherwise();
  });
}

/// What this process or its machine has no more of, where that is why a call was refused; empty: it was refused for something else.
inline std::string used_up(int error_number) {
  switch (error_number) {
    case EMFILE: {
      rlimit limit{};
      const bool known = ::getrlimit(RLIMIT_NOFILE, &limit) == 0;
      return "all " + (known ? std::to_string(limit.rlim_cur) + " " : std::string{}) + "descriptors that `ulimit -n` allows are open";
    }
    case ENFILE: return "all files that this machine allows are open (`sysctl fs.file-max`)";
    case ENOMEM: return "no memory: " + limits_in_the_way();
    case EAGAIN: return "no further process or thread: " + limits_in_the_way(Lack::Threads);
    default: return {};
  }
}

/// Of a call that makes something: MemoryUnavailable where there is no more of what that takes, which may be there later; else `otherwise`.
inline Error refused(ErrorName otherwise, const std::string& what, int error_number) {
  if (const auto lack = used_up(error_number); !lack.empty()) return Error{ErrorName::MemoryUnavailable, what + ": " + lack};
  return Error{otherwise, what + ": " + std::generic_category().message(error_number)};
}

/// How many descriptors one process of a run of so many peers has open at once, at most: files, trainer, listeners and memory that is
/// shared; each peer's control connection and lane of `streams` connections.
inline std::uint64_t descriptors_needed(std::uint64_t peers, std::uint64_t streams) { return 64 + peers * (1 + streams); }

inline std::uint64_t descriptors_allowed() {
  rlimit limit{};
  return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : RLIM_INFINITY;
}

/// MemoryUnavailable, before anything begins that would stand still for want of one.
inline Result<void> check_descriptors(std::uint64_t peers, std::uint64_t streams) {
  const auto needed = descriptors_needed(peers, streams);
  const auto allowed = descriptors_allowed();
  if (allowed >= needed) return {};
  return fail(ErrorName::MemoryUnavailable, "a process in a run of " + std::to_string(peers) + (peers == 1 ? " peer" : " peers") +
                                                " needs " + std::to_string(needed) + " open descriptors, and `ulimit -n` allows " +
                                                std::to_string(allowed));
}

}  // namespace prime

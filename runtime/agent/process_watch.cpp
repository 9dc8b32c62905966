#include "runtime/agent/process_watch.hpp"

#include <cerrno>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utility>

#include "runtime/shortage.hpp"

namespace prime {
namespace {

int try_a_descriptor() {
  const int fd = ::eventfd(0, EFD_CLOEXEC);
  if (fd < 0) return errno;
  ::close(fd);
  return 0;
}

std::string reason_of(int error) {
  const std::string what = "it can open no file and no connection: ";
  if (error == ENFILE) return what + "all files that this machine allows are open (`sysctl fs.file-max`)";
  return what + "all " + std::to_string(descriptors_allowed()) + " that `ulimit -n` allows are open (`prlimit --pid " +
         std::to_string(::getpid()) + " --nofile=MORE` allows more at once)";
}

}  // namespace

DescriptorWatch::DescriptorWatch(JournalPort& journal, std::function<int()> try_one) : journal_(journal), try_one_(std::move(try_one)) {}
DescriptorWatch::DescriptorWatch(JournalPort& journal) : DescriptorWatch(journal, try_a_descriptor) {}

void DescriptorWatch::look(Instant now) {
  const int error = try_one_();
  const bool used_up = error == EMFILE || error == ENFILE;
  if (used_up) free_.reset();
  if (used_up && !since_) {
    since_ = now;
    journal_.append(events::DescriptorsUsedUp{reason_of(error)});
  } else if (error == 0 && since_) {
    if (!free_) free_ = now;
    if (now - *free_ >= FREE_FOR) journal_.append(events::DescriptorsFree{*free_ - *std::exchange(since_, std::nullopt)});
  }
}

std::optional<Duration> StandstillWatch::look(Instant now) {
  const auto passed = now - std::exchange(last_, now);
  return passed >= NOTICED ? std::optional{passed} : std::nullopt;
}

}  // namespace prime

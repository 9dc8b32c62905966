// Owns a trainer for tests of sharded runs: each shard binds tensors of its own shapes, and the trainers of one replica meet before each
// inner step as ranks of FSDP do. Who is left alone there gives up, as they would. With the words INVITE STATE_DIR REPLICA SHARD it joins a
// run by itself, else its agent has started it.
//
// PRIME_GRID_MEET: directory in which the trainers of a replica meet. PRIME_GRID_MOMENTUM: when it is set, they descend with momentum,
// which they bind as private. PRIME_QUADRATIC_…: as quadratic_trainer reads them; it stays in the held step when it has met the others
// there once; with PRIME_GRID_HELD_LAST, when it has met them there for the last time, unless it has shard 0, which contributes. Either way
// it says so by an empty file beside the hold file, HOLD.REPLICA.SHARD. The tensors of shard I have I · 7 elements more than those of shard
// 0.
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <poll.h>
#include <prime/session.hpp>
#include <span>
#include <string>
#include <sys/socket.h>
#include <sys/un.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

using prime::ErrorName;
using prime::Result;

std::string text_of(const char* name) {
  const char* const text = std::getenv(name);
  return text != nullptr ? text : "";
}

std::uint64_t number_of(const char* name, std::uint64_t otherwise) {
  const auto text = text_of(name);
  return text.empty() ? otherwise : std::strtoull(text.c_str(), nullptr, 10);
}

/// The trainers of one replica: shard 0 listens, the others connect to it. One byte from each, one back to each: all are there.
/// A place for each outer step, so that trainers that begin it anew find each other again, and never one of another step.
class Meeting {
 public:
  static Result<Meeting> at(const prime::Session& session, prime::OuterStep step) {
    Meeting meeting;
    const auto place = std::filesystem::path{text_of("PRIME_GRID_MEET")} / (session.replica() + "-" + std::to_string(step.value));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (place.string().size() >= sizeof(address.sun_path)) return prime::fail(ErrorName::Usage, "PRIME_GRID_MEET is too long");
    std::strcpy(address.sun_path, place.c_str());
    const auto* const where = reinterpret_cast<const sockaddr*>(&address);  // as the interface wants it
    const int end = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (session.shard() > 0) {
      meeting.others_.push_back(end);
      // The agent of this trainer ends it when the wait is in vain.
      while (::connect(end, where, sizeof(address)) != 0) std::this_thread::sleep_for(std::chrono::milliseconds{2});
      return meeting;
    }
    std::filesystem::remove(place);
    const bool listens = ::bind(end, where, sizeof(address)) == 0 && ::listen(end, 64) == 0;
    for (std::uint32_t i = 1; listens && i < session.shards(); ++i) meeting.others_.push_back(::accept(end, nullptr, nullptr));
    ::close(end);
    std::filesystem::remove(place);
    if (!listens) return prime::fail(ErrorName::InternalError, std::strerror(errno));
    return meeting;
  }
  ~Meeting() {
    for (const int other : others_) ::close(other);
  }
  Meeting(Meeting&& other) noexcept : others_(std::exchange(other.others_, {})) {}
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;
  Meeting& operator=(Meeting&&) = delete;

  /// Waits for all. What is exchanged must be the same everywhere: that they do the same step of the same samples.
  Result<void> all(std::uint64_t same) {
    for (const int other : others_)
      if (::send(other, &same, sizeof(same), MSG_NOSIGNAL) != sizeof(same)) return lost();
    for (const int other : others_) {
      std::uint64_t said = 0;
      if (::recv(other, &said, sizeof(said), MSG_WAITALL) != sizeof(said)) return lost();
      if (said != same) return prime::fail(ErrorName::InternalError, "the trainers of a replica were given different steps");
    }
    return {};
  }

 private:
  Meeting() = default;
  static Result<void> lost() { return prime::fail(ErrorName::TrainerFailed, "another trainer of its replica is gone"); }
  std::vector<int> others_;
};

bool is_held(std::uint64_t outer_step) {
  return outer_step == number_of("PRIME_QUADRATIC_HELD_AT", 0) && std::filesystem::exists(text_of("PRIME_QUADRATIC_HELD_BY"));
}

void say_so(const prime::Session& session) {
  std::ofstream{text_of("PRIME_QUADRATIC_HELD_BY") + "." + session.replica() + "." + std::to_string(session.shard())};
}

void stay_while_held(const prime::Session& session, std::uint64_t outer_step) {
  if (is_held(outer_step)) say_so(session);
  while (is_held(outer_step)) std::this_thread::sleep_for(std::chrono::milliseconds{5});
}

Result<void> train(prime::Session& session) {
  const std::chrono::milliseconds delay{number_of("PRIME_QUADRATIC_DELAY_MS", 0)};
  const bool last = !text_of("PRIME_GRID_HELD_LAST").empty();
  const auto elements = number_of("PRIME_QUADRATIC_ELEMENTS", 1000) + session.shard() * 7;
  std::vector<float> x(elements, 4.0F + static_cast<float>(session.shard()));
  const auto tensors = number_of("PRIME_QUADRATIC_TENSORS", 1);
  for (std::uint64_t tensor = 0, from = 0; tensor < tensors; ++tensor) {
    const auto to = elements * (tensor + 1) / tensors;
    const std::span values = std::span{x}.subspan(from, to - from);
    const auto name = "x." + std::to_string(session.shard()) + (tensors > 1 ? "." + std::to_string(tensor) : std::string{});
    PRIME_CHECK(session.bind({name, {static_cast<std::int64_t>(values.size())}, values}));
    from = to;
  }
  std::vector<float> velocity(text_of("PRIME_GRID_MOMENTUM").empty() ? 0 : elements);
  if (!velocity.empty()) PRIME_CHECK(session.bind({"velocity", {static_cast<std::int64_t>(elements)}, velocity}, prime::Role::Private));
  std::optional<Meeting> meeting;
  for (;;) {
    PRIME_TRY(const auto step, session.next());
    if (!step) break;
    const auto target = static_cast<float>(step->rank);
    const auto outer_step = step->outer_step.value;
    const bool closes = step->index + 1 == step->inner_steps;
    if (step->index == 0) {
      meeting.reset();
      PRIME_TRY(auto met, Meeting::at(session, step->outer_step));
      meeting.emplace(std::move(met));
    }
    PRIME_CHECK(meeting->all(outer_step << 40 | step->rank << 20 | step->samples.first));
    if ((last ? closes : step->index == 0) && !(last && session.shard() == 0)) stay_while_held(session, outer_step);
    std::this_thread::sleep_for(delay);
    for (std::size_t i = 0; i < x.size(); ++i) {
      auto step_by = 0.1F * (x[i] - target);
      if (!velocity.empty()) step_by = velocity[i] = 0.8F * velocity[i] + step_by;
      x[i] -= step_by;
    }
    if (closes && last && session.shard() == 0 && is_held(outer_step)) say_so(session);
    if (closes) meeting.reset();  // what it was for is done: who dies from here on ends nobody
    PRIME_CHECK(session.report({.loss = 0.5 * static_cast<double>(x.front()), .tokens = 10 + session.shard(), .samples = 4}));
  }
  return session.finish([](const prime::FinalPlan&) { return prime::FinalAnswer{}; });
}

}  // namespace

int main(int count, char** words) {
  const bool joins = count == 5;
  auto session = joins ? prime::Session::join({.invite = words[1],
                                               .state_dir = words[2],
                                               .replica = words[3],
                                               .shard = static_cast<std::uint32_t>(std::strtoul(words[4], nullptr, 10))})
                       : prime::Session::attach();
  const auto outcome = session ? train(*session) : Result<void>{prime::fail(session.error())};
  if (outcome) return 0;
  std::fputs(prime::render(outcome.error()).c_str(), stderr);
  return prime::info(outcome.error().name).exit_code;
}

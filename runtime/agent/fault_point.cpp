#include "runtime/agent/fault_point.hpp"

#include <charconv>
#include <cstdlib>
#include <signal.h>
#include <unistd.h>
#include <vector>

namespace prime {
namespace {

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == separator) parts.emplace_back();
    else parts.back() += c;
  }
  return parts;
}

Result<std::uint64_t> number(const std::string& text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size())
    return fail(ErrorName::Usage, "PRIME_FAULT: `" + text + "` is not a number");
  return value;
}

}  // namespace

Result<FaultPoint> FaultPoint::from_environment() {
  const char* text = std::getenv("PRIME_FAULT");
  return parse(text == nullptr ? std::string{} : std::string{text});
}

Result<FaultPoint> FaultPoint::parse(const std::string& text) {
  FaultPoint point;
  if (text.empty()) return point;
  const auto halves = split(text, '@');
  const auto parts = split(halves.back(), ':');
  if (halves.size() != 2 || (halves[0] != "agent" && halves[0] != "trainer") || parts.size() < 2 || parts.size() > 3)
    return fail(ErrorName::Usage, "PRIME_FAULT: `" + text + "` is not VICTIM@PHASE[:PERCENT]:STEP[.FRAGMENT]");
  point.at_trainer_ = halves[0] == "trainer";
  if (parts[0] == "training") point.phase_ = Phase::Training;
  else if (parts[0] == "reducing") point.phase_ = Phase::Reducing;
  else if (parts[0] == "voting") point.phase_ = Phase::Voting;
  else if (parts[0] == "fetching") point.phase_ = Phase::Fetching;
  else if (parts[0] == "saving") point.phase_ = Phase::Saving;
  else return fail(ErrorName::Usage, "PRIME_FAULT: `" + parts[0] + "` is no phase");
  if (parts.back() != "any") {
    const auto place = split(parts.back(), '.');
    point.place_.emplace();
    PRIME_TRY(point.place_->step, number(place.front()));
    if (place.size() > 2) return fail(ErrorName::Usage, "PRIME_FAULT: `" + parts.back() + "` is not STEP[.FRAGMENT]");
    if (place.size() == 2) {
      PRIME_TRY(point.place_->fragment, number(place.back()));
    }
  }
  if (parts.size() == 3) {
    PRIME_TRY(point.percent_, number(parts[1]));
  }
  point.armed_ = true;
  return point;
}

void FaultPoint::reached(Phase phase, const Place& at, std::uint64_t done, std::uint64_t total,
                         const std::function<std::uint32_t()>& trainer_pid) {
  if (!armed_ || phase != phase_ || (place_ && (at.step != place_->step || at.fragment != place_->fragment)) ||
      done * 100 < percent_ * total)
    return;
  armed_ = false;
  const auto victim = at_trainer_ ? static_cast<pid_t>(trainer_pid()) : ::getpid();
  if (victim > 0) ::kill(victim, SIGKILL);
}

Result<void> AgentFaults::arm() {
  PRIME_TRY(point_, FaultPoint::from_environment());
  set_ = std::getenv("PRIME_FAULT") != nullptr;
  return {};
}

void AgentFaults::append(const JournalEvent& event) {
  if (const auto* reduce = std::get_if<events::ReduceEntered>(&event); reduce != nullptr && set_) {
    const std::scoped_lock lock(mutex_);
    operations_[reduce->operation] = {reduce->outer_step.value, reduce->operation.tag.value};
  }
  journal_.append(event);
}

void AgentFaults::reached(FaultPoint::Phase phase, const FaultPoint::Place& at, std::uint64_t done, std::uint64_t total) {
  if (!set_) return;
  const std::scoped_lock lock(mutex_);
  point_.reached(phase, at, done, total, trainer_pid_);
}

void AgentFaults::reached(FaultPoint::Phase phase, const OperationId& op, std::uint64_t done, std::uint64_t total) {
  if (!set_) return;
  const std::scoped_lock lock(mutex_);
  if (const auto found = operations_.find(op); found != operations_.end()) point_.reached(phase, found->second, done, total, trainer_pid_);
}

}  // namespace prime

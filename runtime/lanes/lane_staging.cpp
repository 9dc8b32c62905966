// Owns what the lane thread does for devices: it hears of their copies, and waits for those whose reduce has ended.
#include <poll.h>
#include <utility>

#include "runtime/lanes/lane_thread.hpp"

namespace prime::lanes {

void LaneThread::obey(const CopyEnd& end) {
  busy_ = true;
  if (Operation* const operation = find(end.op)) return operation->copied(end);
  const auto at = copying_.find(end.op);
  (void)at->second.staging->ended(end);  // it has failed already
  if (at->second.staging->copying()) return;
  auto ended = std::move(at->second);
  copying_.erase(at);
  ended.staging.reset();
  ended.done(std::move(ended.outcome));
}

/// Its tensors are their owner's again once nobody copies them.
void LaneThread::end_when_copied(std::unique_ptr<Staging> staging, std::function<void(ReduceOutcome)> done, ReduceOutcome outcome) {
  const auto op = outcome.op;
  copying_.emplace(op, Copying{std::move(staging), std::move(done), std::move(outcome)});
}

void LaneThread::await_copies() {
  while (!copying_.empty()) {
    pollfd woken{wake_.fd(), POLLIN, 0};
    (void)::poll(&woken, 1, -1);
    wake_.drain();
    obey_commands();
  }
}

}  // namespace prime::lanes

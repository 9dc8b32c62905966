// Owns the hand-over between the two threads.
#include "runtime/trainer/data/read_ahead.hpp"

namespace prime::data {

ReadAhead::ReadAhead(const Corpus& corpus, std::size_t samples, Instant (*now)())
    : corpus_(corpus), samples_(samples), now_(now), current_(samples * corpus.window_tokens()), next_(current_.size()), thread_([this] {
        work();
      }) {}

ReadAhead::~ReadAhead() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void ReadAhead::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return over_ || (asked_ && !outcome_); });
    if (over_) return;
    const auto first = *asked_;
    lock.unlock();
    auto outcome = corpus_.read(first, next_);
    lock.lock();
    outcome_ = std::move(outcome);
    changed_.notify_all();
  }
}

Result<std::span<const Token>> ReadAhead::batch(std::uint64_t first) {
  const auto began = now_();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !asked_ || outcome_; });
  if (asked_ != first || !outcome_) {
    PRIME_CHECK(corpus_.read(first, current_));
  } else {
    PRIME_CHECK(*outcome_);
    current_.swap(next_);
  }
  asked_ = first + samples_;
  outcome_.reset();
  lock.unlock();
  changed_.notify_all();
  waited_ = now_() - began;
  return std::span<const Token>(current_);
}

}  // namespace prime::data

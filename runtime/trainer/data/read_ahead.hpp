// Owns the thread that reads a trainer's next batch while it computes, so that it does not wait for a disk.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "runtime/clock.hpp"
#include "runtime/trainer/data/corpus.hpp"

namespace prime::data {

class ReadAhead {
 public:
  /// `corpus` stays where it is. Each batch has so many samples.
  ReadAhead(const Corpus& corpus, std::size_t samples, Instant (*now)() = monotonic_now);
  ~ReadAhead();
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  /// The batch that begins with sample `first`; valid until the next call. What follows it is read meanwhile, since leases are mostly used
  /// in order; another one is read now.
  Result<std::span<const Token>> batch(std::uint64_t first);
  /// How long the last one was waited for.
  [[nodiscard]] Duration waited() const { return waited_; }

 private:
  void work();

  const Corpus& corpus_;
  std::size_t samples_;
  Instant (*now_)();
  Duration waited_{};
  std::vector<Token> current_, next_;
  std::mutex mutex_;  // of what follows, and of next_ while a read is asked for
  std::condition_variable changed_;
  std::optional<std::uint64_t> asked_;   ///< sample with which the batch in the making begins
  std::optional<Result<void>> outcome_;  ///< of it, when it is there
  bool over_ = false;
  std::thread thread_;
};

}  // namespace prime::data

#include "runtime/agent/ledger_writer.hpp"

#include "messages/assert.hpp"
#include "runtime/clock.hpp"

namespace prime {

LedgerWriter::LedgerWriter(DecisionStore& decisions, JournalPort& journal, std::string journal_place)
    : decisions_(decisions),
      journal_(journal),
      journal_place_(std::move(journal_place)),
      thread_([this](const std::stop_token& ended) { serve(ended); }) {}

LedgerWriter::~LedgerWriter() {
  thread_.request_stop();
  thread_.join();
}

void LedgerWriter::write(coordinator::Entry entry, std::function<void()> done) {
  const std::lock_guard lock{mutex_};
  PRIME_ASSERT(!order_, "law 8: the ledger writes one entry at a time");
  order_.emplace(std::move(entry), std::move(done));
  given_.notify_one();
}

std::optional<LedgerWriter::Unwritten> LedgerWriter::unwritten() const {
  const std::lock_guard lock{mutex_};
  auto unwritten = unwritten_;
  if (unwritten && keeping_) unwritten->where = decisions_.place();  // which may change while it waits
  return unwritten;
}

void LedgerWriter::begin(std::optional<Unwritten> unwritten, bool decisions) {
  const std::lock_guard lock{mutex_};
  keeping_ = decisions;
  unwritten_ = std::move(unwritten);
}

void LedgerWriter::serve(const std::stop_token& ended) {
  for (;;) {
    std::unique_lock lock{mutex_};
    if (!given_.wait(lock, ended, [this] { return order_.has_value(); })) return;
    const auto [entry, done] = *std::exchange(order_, std::nullopt);
    lock.unlock();
    const Unwritten journal{journal_place_, monotonic_now(), std::chrono::system_clock::now()};
    begin(journal, entry.decided.has_value());
    if (entry.decided) decisions_.keep(*entry.decided);
    begin(journal);
    for (const auto& event : entry.events) journal_.append(event);
    begin(std::nullopt);
    done();
  }
}

}  // namespace prime

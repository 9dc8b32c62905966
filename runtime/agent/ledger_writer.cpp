#include "runtime/agent/ledger_writer.hpp"

#include "messages/assert.hpp"

namespace prime {

LedgerWriter::LedgerWriter(DecisionStore& decisions, JournalPort& journal)
    : decisions_(decisions), journal_(journal), thread_([this](const std::stop_token& ended) { serve(ended); }) {}

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

void LedgerWriter::serve(const std::stop_token& ended) {
  for (;;) {
    std::unique_lock lock{mutex_};
    if (!given_.wait(lock, ended, [this] { return order_.has_value(); })) return;
    const auto [entry, done] = *std::exchange(order_, std::nullopt);
    lock.unlock();
    if (entry.decided) decisions_.keep(*entry.decided);
    for (const auto& event : entry.events) journal_.append(event);
    done();
  }
}

}  // namespace prime

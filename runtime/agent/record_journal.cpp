#include "runtime/agent/record_journal.hpp"

#include <cstdio>
#include <cstdlib>
#include <deque>
#include <mutex>

#include "runtime/telemetry/event_json.hpp"

namespace prime {
namespace {

/// Hours of a peer's life; the oldest go first.
constexpr std::size_t KEPT_LINES_MAX = 4096;

}  // namespace

struct RecordJournal::Kept {
  store::Journal journal;
  NoRoom no_room;
  std::mutex mutex;  ///< keeps the order of lines; held over one write, or those that waited
  std::deque<JournalEvent> waiting;
  std::uint64_t dropped = 0;

  Result<void> write(const JournalEvent& event) {
    const auto& row = info(event);
    PRIME_CHECK(journal.append(row.name, telemetry::fields_of(event), row.durability == Durability::Durable));
    return {};
  }
  Result<void> write_all() {
    if (dropped > 0) PRIME_CHECK(write(events::JournalLinesDropped{dropped}));
    for (dropped = 0; !waiting.empty(); waiting.pop_front()) PRIME_CHECK(write(waiting.front()));
    return {};
  }
};

RecordJournal::RecordJournal(store::Journal journal, NoRoom no_room) : kept_(new Kept{std::move(journal), no_room, {}, {}, 0}) {}
RecordJournal::RecordJournal(RecordJournal&&) noexcept = default;
RecordJournal& RecordJournal::operator=(RecordJournal&&) noexcept = default;
RecordJournal::~RecordJournal() = default;

Result<RecordJournal> RecordJournal::open(const std::filesystem::path& path, NoRoom no_room) {
  PRIME_TRY(auto journal, store::Journal::open(path));
  return RecordJournal{std::move(journal), no_room};
}

void RecordJournal::append(const JournalEvent& event) {
  const std::scoped_lock lock{kept_->mutex};
  kept_->waiting.push_back(event);
  const auto written = kept_->write_all();
  if (written) return;
  // Whoever removed the journal wants no more of this process; whoever moved it may move it back, and a peer holds the state.
  if (kept_->no_room == NoRoom::EndsProcess || kept_->journal.removed()) {
    std::fputs(render(written.error()).c_str(), stderr);
    std::_Exit(info(written.error().name).exit_code);
  }
  if (kept_->waiting.size() == 1) std::fputs(render(written.error()).c_str(), stderr);  // once for each time that the disk is full
  if (kept_->waiting.size() <= KEPT_LINES_MAX) return;
  kept_->waiting.pop_front();
  ++kept_->dropped;
}

events::ProcessEnded process_ended(const Result<void>& outcome) {
  if (outcome) return {};
  return {static_cast<std::uint32_t>(info(outcome.error().name).exit_code), outcome.error()};
}

}  // namespace prime

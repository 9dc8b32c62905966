#include "runtime/agent/record_journal.hpp"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <mutex>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "runtime/telemetry/process_identity.hpp"

namespace prime {
namespace {

/// Hours of a peer's life; the oldest go first.
constexpr std::size_t KEPT_LINES_MAX = 4096;

nlohmann::json to_json(const Record::Value& value) {
  return std::visit(overloaded{
                        [](std::uint64_t x) { return nlohmann::json(x); },
                        [](double x) { return std::isfinite(x) ? nlohmann::json(x) : nlohmann::json(nullptr); },
                        [](bool x) { return nlohmann::json(x); },
                        [](const std::string& x) { return nlohmann::json(x); },
                        [](const std::vector<std::string>& x) { return nlohmann::json(x); },
                    },
                    value);
}

}  // namespace

struct RecordJournal::Kept {
  struct Line {
    std::string event;
    nlohmann::json fields;
    bool durable = false;
  };
  store::Journal journal;
  std::filesystem::path path;
  NoRoom no_room;
  std::mutex mutex;  ///< keeps the order of lines; held over one write, or those that waited
  std::deque<Line> lines;
  std::uint64_t dropped = 0;

  Result<void> write(const Line& line) {
    PRIME_CHECK(journal.append(line.event, line.fields, line.durable));
    return {};
  }
  Result<void> write_all() {
    if (dropped > 0) PRIME_CHECK(write({"journal_lines_dropped", {{"lines", dropped}}}));
    for (dropped = 0; !lines.empty(); lines.pop_front()) PRIME_CHECK(write(lines.front()));
    return {};
  }
};

RecordJournal::RecordJournal(store::Journal journal, std::filesystem::path path, NoRoom no_room)
    : kept_(new Kept{std::move(journal), std::move(path), no_room, {}, {}, 0}) {}
RecordJournal::RecordJournal(RecordJournal&&) noexcept = default;
RecordJournal& RecordJournal::operator=(RecordJournal&&) noexcept = default;
RecordJournal::~RecordJournal() = default;

Result<RecordJournal> RecordJournal::open(const std::filesystem::path& path, NoRoom no_room) {
  PRIME_TRY(auto journal, store::Journal::open(path));
  return RecordJournal{std::move(journal), path, no_room};
}

void RecordJournal::append(const Record& record) {
  nlohmann::json fields = nlohmann::json::object();
  for (const auto& [key, value] : record.fields) fields[key] = to_json(value);
  const std::scoped_lock lock{kept_->mutex};
  kept_->lines.push_back({record.event, std::move(fields), record.durable});
  const auto written = kept_->write_all();
  if (written) return;
  // Whoever removed the journal wants no more of this process.
  std::error_code ignored;
  const bool is_there = std::filesystem::exists(kept_->path, ignored);
  if (kept_->no_room == NoRoom::EndsProcess || !is_there) {
    std::fputs(render(written.error()).c_str(), stderr);
    std::_Exit(info(written.error().name).exit_code);
  }
  if (kept_->lines.size() == 1) std::fputs(render(written.error()).c_str(), stderr);  // once for each time that the disk is full
  if (kept_->lines.size() <= KEPT_LINES_MAX) return;
  kept_->lines.pop_front();
  ++kept_->dropped;
}

Record process_started(const std::string& role, const std::string& run) {
  const auto self = telemetry::identify(::getpid());
  return Record{"process_started"}
      .with("pid", static_cast<std::uint64_t>(self.pid))
      .with("start_ticks", self.start_ticks)
      .with("boot_id", self.place.boot)
      .with("pid_namespace", self.place.pid_namespace)
      .with("host", self.place.host)
      .with("role", role)
      .with("run", run)
      .with("protocol", std::uint64_t{PROTOCOL_VERSION});
}

Record process_ended(const Result<void>& outcome) {
  auto record = Record{"process_ended"}.with("exit_code", static_cast<std::uint64_t>(outcome ? 0 : info(outcome.error().name).exit_code));
  if (!outcome) record = std::move(record).with("reason", to_string(outcome.error()));
  return record;
}

}  // namespace prime

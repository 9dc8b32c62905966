#include "runtime/replay/kept_rounds.hpp"

#include <algorithm>
#include <system_error>

#include "runtime/store/checkpoint.hpp"
#include "runtime/store/contribution.hpp"
#include "runtime/store/journal.hpp"
#include "runtime/telemetry/event_json.hpp"

namespace prime::replay {
namespace fs = std::filesystem;

Result<std::vector<events::RoundCommitted>> committed_rounds(const fs::path& journal) {
  std::vector<events::RoundCommitted> rounds;
  bool went_back = false;
  PRIME_CHECK(store::JournalReader{journal}.read_to_end([&](const store::JournalLine& line) {
    const auto event = telemetry::read_event(JournalWriter::Coordinator, line);
    if (!event || !*event) return;
    went_back = went_back || std::holds_alternative<events::RolledBack>(**event);
    // A coordinator that was started again writes what it had decided and not told.
    if (const auto* round = std::get_if<events::RoundCommitted>(&**event);
        round != nullptr && (rounds.empty() || rounds.back().revision < round->revision))
      rounds.push_back(*round);
  }));
  if (went_back) return fail(ErrorName::ReplayImpossible, "it went back to a checkpoint, and what came after that is void");
  for (std::size_t i = 1; i < rounds.size(); ++i)
    if (rounds[i].revision != rounds[i - 1].revision.next())
      return fail(ErrorName::ReplayImpossible, journal.string() + " has no line of revision " +
                                                   std::to_string(rounds[i - 1].revision.value + 1) + ", and one of revision " +
                                                   std::to_string(rounds[i].revision.value));
  if (rounds.empty()) return fail(ErrorName::ReplayImpossible, "it has committed no round");
  return rounds;
}

Result<KeptFiles> KeptFiles::find(std::span<const fs::path> directories) {
  KeptFiles found;
  for (const auto& directory : directories) {
    PRIME_CHECK(found.look_below(directory));
    found.where_ += (found.where_.empty() ? "" : ", ") + directory.string();
  }
  std::ranges::sort(found.starts_);
  return found;
}

Result<void> KeptFiles::look_below(const fs::path& directory) {
  std::error_code error;
  fs::recursive_directory_iterator entry{directory, error};
  for (; !error && entry != fs::recursive_directory_iterator{}; entry.increment(error)) {
    if (!entry->is_directory(error)) continue;
    const auto& path = entry->path();
    if (path.filename() == "start" && path.parent_path().filename() == "contributions") {
      for (const auto& start : store::list_checkpoints(path)) starts_.push_back(start.path);
      entry.disable_recursion_pending();
    } else if (const auto kept = store::peek_contribution(path)) {
      contributions_.emplace(Key{kept->round.fragment, kept->round.version.value, kept->peer.value}, path);
      entry.disable_recursion_pending();
    }
  }
  if (error) return fail(ErrorName::StorageFailed, "reading " + directory.string() + ": " + error.message());
  return {};
}

Result<fs::path> KeptFiles::contribution(std::uint32_t fragment, OuterStep version, PeerId peer) const {
  const auto found = contributions_.find({fragment, version.value, peer.value});
  if (found != contributions_.end()) return found->second;
  return fail(ErrorName::ReplayImpossible, "what peer " + to_string(peer) + " brought to version " + std::to_string(version.value) +
                                               " of fragment " + std::to_string(fragment) + " is not below " + where_);
}

}  // namespace prime::replay

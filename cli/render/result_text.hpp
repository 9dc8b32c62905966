// Owns the end of a run in the foreground: the last object of `up -o json`, and the summary for people.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "cli/render/style.hpp"
#include "runtime/telemetry/run_observer.hpp"

namespace prime::cli {

/// Which of this machine's peers hold the run's last digest, by their own journals. Peers that went before the end are not asked.
struct DigestComparison {
  std::size_t equal = 0;
  std::vector<std::string> differing;  ///< names
};
DigestComparison compare_digests(const telemetry::RunStatus& status, const std::vector<telemetry::PeerJournal>& peers);

/// Of each peer here that could not save what it holds, why, and what is saved of it; then the committed outer steps that nobody here
/// saved.
std::vector<std::string> what_is_not_saved(const telemetry::RunStatus& status, std::span<const telemetry::PeerJournal> peers);

/// Schema primectl.result/1; `state` is the run's, or "interrupted".
nlohmann::ordered_json result_json(const telemetry::RunStatus& status, std::string_view state);
std::string result_text(const telemetry::RunStatus& status, const DigestComparison& digests, double elapsed_s, const Style& style,
                        std::span<const telemetry::PeerJournal> peers = {});

}  // namespace prime::cli

#include "cli/render/result_text.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "cli/render/figures.hpp"
#include "cli/render/status_text.hpp"

namespace prime::cli {
namespace {

using Json = nlohmann::ordered_json;

Json or_null(const std::optional<double>& value) { return value && std::isfinite(*value) ? Json(*value) : Json(nullptr); }
Json or_null(const std::optional<std::string>& value) { return value ? Json(*value) : Json(nullptr); }

/// Generated text may hold any byte; a terminal is given only what it can show.
std::string printable(const std::string& text) {
  std::string shown;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    shown += c == '\n' || c == '\t' || (byte >= 0x20 && byte < 0x7f) ? c : '.';
  }
  while (!shown.empty() && shown.back() == '\n') shown.pop_back();
  return shown;
}

std::string digest_line(const telemetry::RunStatus& status, const DigestComparison& digests) {
  auto text = status.digest.value_or(UNKNOWN);
  if (!digests.differing.empty()) {
    text += ", DIFFERENT on";
    for (const auto& name : digests.differing) text += " " + name;
  } else if (is_sharded(status)) {
    text += ", of all shards; each is equal on its peers here";
  } else if (digests.equal == 1) {
    text += ", of the one peer here";
  } else if (digests.equal > 1) {
    text += ", equal on all " + plural(digests.equal, "peer") + " here";
  }
  return text;
}

}  // namespace

std::vector<std::string> what_is_not_saved(const telemetry::RunStatus& status, std::span<const telemetry::PeerJournal> peers) {
  std::vector<std::string> lines;
  std::uint64_t saved = 0;
  for (const auto& peer : peers) {
    const auto step = peer.checkpoint ? std::optional{telemetry::step_of_checkpoint(*peer.checkpoint)} : std::nullopt;
    if (step) saved = std::max(saved, *step);
    // Nobody is here any more: who has not written its last line was ended by force.
    if (!peer.problem && telemetry::holds_only_copy(peer, peers))
      lines.push_back(peer.status.name + " was ended by force, with outer step " + std::to_string(*peer.status.outer_step));
    if (!peer.problem) continue;
    auto line = peer.status.name + ": " + *peer.problem;
    if (peer.status.outer_step) line += "; it held outer step " + std::to_string(*peer.status.outer_step);
    if (peer.status.outer_step) line += step ? ", and its checkpoint is of " + std::to_string(*step) : ", and has no checkpoint";
    lines.push_back(std::move(line));
  }
  if (lines.empty() && !status.checkpoint_problem.empty()) lines.push_back(status.checkpoint_problem);
  if (lines.empty() || saved >= status.outer_step) return lines;
  const auto first = std::to_string(saved + 1);
  const auto last = std::to_string(status.outer_step);
  lines.push_back(first == last ? "outer step " + last + " was committed, and no peer here has saved it"
                                : "outer steps " + first + " to " + last + " were committed, and no peer here has saved them");
  return lines;
}

DigestComparison compare_digests(const telemetry::RunStatus& status, const std::vector<telemetry::PeerJournal>& peers) {
  DigestComparison result;
  std::map<std::uint64_t, std::string> of_shard;
  for (const auto& peer : peers) {
    if (peer.status.outer_step != status.outer_step || !peer.status.digest) continue;
    // The run's digest is of all shards; peers that hold the same one have to agree among each other.
    const auto& expected =
        peer.status.replica.empty() ? status.digest : of_shard.try_emplace(peer.status.shard, *peer.status.digest).first->second;
    if (peer.status.digest == expected) ++result.equal;
    else result.differing.push_back(peer.status.name);
  }
  return result;
}

Json result_json(const telemetry::RunStatus& status, std::string_view state) {
  return Json{{"schema", "primectl.result/1"},
              {"run_id", status.id},
              {"state", state},
              {"outer_step", status.outer_step},
              {"digest", or_null(status.digest)},
              {"loss", or_null(status.loss)},
              {"held_out_loss", or_null(status.held_out_loss)},
              {"held_out_tokens", status.held_out_tokens},
              {"evaluation_problem", status.evaluation_problem.empty() ? Json(nullptr) : Json(status.evaluation_problem)},
              {"tokens", status.tokens},
              {"checkpoint", or_null(status.checkpoint)}};
}

std::string result_text(const telemetry::RunStatus& status, const DigestComparison& digests, double elapsed_s, const Style& style,
                        std::span<const telemetry::PeerJournal> peers) {
  // Of a run that went on from another one's checkpoint this one made the rest.
  const auto made = status.outer_step - std::min(status.outer_step, status.began_at);
  auto text = verb(style, Role::Good, "Done") + plural(status.outer_step, "outer step") +
              (status.began_at > 0 ? ", the last " + std::to_string(made) + " of them" : std::string{}) + " in " +
              elapsed_figure(elapsed_s) + ", loss " + loss_figure(status.loss);
  if (status.held_out_loss) text += ", held-out loss " + loss_figure(status.held_out_loss) + " nats per token";
  text += "\n" + verb(style, Role::Good, "Digest") + digest_line(status, digests) + "\n";
  if (status.checkpoint) text += verb(style, Role::Good, "Checkpoint") + checkpoint_text(status, peers) + "\n";
  if (!status.evaluation_problem.empty())
    text += verb(style, Role::Degraded, "Evaluation") + "not complete: " + harmless(status.evaluation_problem) +
            (status.held_out_loss ? "; the held-out loss is over " + plural(status.held_out_tokens, "token") : "") + "\n";
  if (!status.sample.empty()) text += verb(style, Role::Good, "Sample") + "what the model writes:\n" + printable(status.sample) + "\n";
  return text;
}

}  // namespace prime::cli

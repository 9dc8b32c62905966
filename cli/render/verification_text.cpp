#include "cli/render/verification_text.hpp"

#include <algorithm>
#include <fmt/format.h>

#include "cli/render/figures.hpp"
#include "cli/render/proof_text.hpp"

namespace prime::cli {
namespace {

bool holds(const VerifiedSequence& sequence) {
  return sequence.reason.empty() && sequence.other_choices == 0 &&
         std::ranges::all_of(sequence.segments, [](const ProofVerdict& verdict) { return verdict.accepted; });
}

std::uint64_t tokens_of(const proofs::GenerationFile& file) {
  std::uint64_t tokens = 0;
  for (const auto& sequence : file.sequences) tokens += sequence.tokens.size();
  return tokens;
}

/// The prover's own choice: whoever verifies has to see it.
std::string sampling_text(const proofs::Sampling& sampling) {
  return sampling.temperature == 0 ? "greedy" : fmt::format("temperature {}, seed {}", sampling.temperature, sampling.seed);
}

/// A stranger's prompt as one short line: whoever verifies has to see that it is the one that was given.
std::string prompt_text(const proofs::GenerationFile& file, const std::vector<std::uint32_t>& prompt) {
  constexpr std::size_t SHOWN = 60;
  std::string text;
  for (const auto token : prompt) {
    if (text.size() >= SHOWN) return text + "…";
    if (file.tokenizer != "bytes") text += (text.empty() ? "" : " ") + std::to_string(token);
    else if (token == '\n') text += "\\n";
    else if (token == '\\' || token == '"') text += {'\\', static_cast<char>(token)};
    else if (token >= ' ' && token <= '~') text += static_cast<char>(token);
    else text += fmt::format("\\x{:02x}", token);
  }
  return text;
}

std::string prompts_text(const proofs::GenerationFile& file) {
  constexpr std::size_t SHOWN = 10;
  std::string text;
  for (std::size_t i = 0; i < std::min(SHOWN, file.sequences.size()); ++i) {
    const auto& prompt = file.sequences[i].prompt;
    const auto shown = prompt_text(file, prompt);
    text += fmt::format("prompt {}, {}: {}\n", i, plural(prompt.size(), "token"), file.tokenizer == "bytes" ? '"' + shown + '"' : shown);
  }
  if (file.sequences.size() > SHOWN) text += fmt::format("and {} more prompts\n", file.sequences.size() - SHOWN);
  return text;
}

/// What is wrong with sequences beside their segments.
std::vector<std::string> complaints(const Verification& verification) {
  auto lines = verification.reasons;
  for (std::size_t i = 0; i < verification.sequences.size(); ++i) {
    const auto& sequence = verification.sequences[i];
    if (!sequence.reason.empty()) lines.push_back(fmt::format("sequence {}: {}", i, sequence.reason));
    if (sequence.other_choices > 0)
      lines.push_back(fmt::format("sequence {}: {} of {} tokens are not what the promised sampling chooses, the first at {}", i,
                                  sequence.other_choices, verification.file.sequences[i].tokens.size(), sequence.first_other));
  }
  return lines;
}

}  // namespace

bool Verification::accepted() const {
  return reasons.empty() && !sequences.empty() && sequences.size() == file.sequences.size() && std::ranges::all_of(sequences, holds);
}

nlohmann::ordered_json verification_json(const Verification& verification) {
  const auto& file = verification.file;
  auto segments = nlohmann::ordered_json::array(), verdicts = nlohmann::ordered_json::array();
  std::uint64_t other_choices = 0;
  for (std::size_t i = 0; i < verification.sequences.size(); ++i) {
    const auto& sequence = verification.sequences[i];
    other_choices += sequence.other_choices;
    verdicts.push_back({{"sequence", i},
                        {"accepted", holds(sequence)},
                        {"reason", sequence.reason.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(sequence.reason)},
                        {"other_choices", sequence.other_choices}});
    for (std::size_t j = 0; j < sequence.segments.size(); ++j) {
      nlohmann::ordered_json segment{{"sequence", i}, {"segment", j}};
      segment.update(verdict_json(sequence.segments[j]));
      segments.push_back(std::move(segment));
    }
  }
  return {{"schema", "primectl.verify/1"},
          {"accepted", verification.accepted()},
          {"reasons", complaints(verification)},
          {"model", file.model},
          {"tokenizer", file.tokenizer},
          {"dtype", file.dtype},
          {"sampling", {{"temperature", file.sampling.temperature}, {"seed", file.sampling.seed}}},
          {"k", file.k},
          {"segment_tokens", file.segment_tokens},
          {"thresholds", to_string(verification.thresholds)},
          {"sequences", file.sequences.size()},
          {"tokens", tokens_of(file)},
          {"other_choices", other_choices},
          {"seconds", verification.seconds},
          {"verdicts", std::move(verdicts)},
          {"segments", std::move(segments)}};
}

std::string verification_text(const Verification& verification) {
  auto text = prompts_text(verification.file);
  std::vector<CheckedSegment> segments;
  for (std::size_t i = 0; i < verification.sequences.size(); ++i)
    for (std::size_t j = 0; j < verification.sequences[i].segments.size(); ++j)
      segments.push_back({fmt::format("{}.{}", i, j), verification.sequences[i].segments[j]});
  if (!segments.empty()) text += verdicts_text(segments, verification.thresholds);
  for (const auto& line : complaints(verification)) text += line + "\n";
  text += fmt::format("{}: {} of {}, {}, {}\n", verification.accepted() ? "accepted" : "not accepted",
                      plural(tokens_of(verification.file), "token"), plural(verification.file.sequences.size(), "sequence"),
                      verification.file.dtype, sampling_text(verification.file.sampling));
  return text;
}

}  // namespace prime::cli

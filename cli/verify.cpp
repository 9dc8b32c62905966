// Owns `primectl verify`: whether one's own model writes what a file says, and what is in the way of it.
#include <algorithm>

#include "cli/commands.hpp"
#include "cli/inference.hpp"
#include "cli/render/verification_text.hpp"
#include "cli/terminal.hpp"
#include "runtime/telemetry/status_json.hpp"

namespace prime::cli {
namespace {

using nlohmann::json;

bool is_coarse(const std::string& dtype) { return dtype == "bf16" || dtype == "f16"; }

/// What a prover may not choose for whoever verifies.
std::vector<std::string> refused_terms(const VerifyArguments& arguments, const proofs::GenerationFile& file) {
  auto reasons = broken_terms(CommitmentOptions{arguments.k, arguments.segment, 0}, {file.k, file.segment_tokens, 0}, "--segment");
  // Thresholds and tolerance follow from it: whoever could choose it would choose how much may differ.
  if (arguments.dtype != file.dtype)
    reasons.push_back("it says that it was computed in " + file.dtype + "; " + arguments.dtype + " is asked for (--dtype)");
  return reasons;
}

json job_of(const VerifyArguments& arguments, const Verification& verification) {
  const auto& file = verification.file;
  auto sequences = json::array();
  for (const auto& sequence : file.sequences)
    sequences.push_back({{"prompt", sequence.prompt}, {"tokens", sequence.tokens}, {"text", sequence.text}, {"proofs", sequence.proofs}});
  return {{"command", "verify"},
          {"model", arguments.model},
          {"dtype", arguments.dtype},
          {"threads", arguments.threads},
          {"device", arguments.device},
          {"batch", arguments.batch},
          {"temperature", file.sampling.temperature},
          {"seed", file.sampling.seed},
          {"k", file.k},
          {"segment_tokens", file.segment_tokens},
          {"thresholds", to_string(verification.thresholds)},
          {"digest", file.model},
          {"tokenizer", file.tokenizer},
          {"sequences", std::move(sequences)}};
}

ProofVerdict verdict_of(const json& segment) {
  return {segment["accepted"].get<bool>(),
          segment["compared"].get<bool>(),
          {segment["values"].get<std::size_t>(), segment["exponent_mismatches"].get<std::size_t>(),
           segment["sign_mismatches"].get<std::size_t>(), segment["mantissa_mean"].get<double>(), segment["mantissa_median"].get<double>()},
          segment["reason"].get<std::string>()};
}

void hear_verdict(const json& event, Verification& verification) {
  const auto index = event["index"].get<std::size_t>();
  if (index >= verification.sequences.size()) return;
  auto& sequence = verification.sequences[index];
  sequence = {
      {}, event["other_choices"].get<std::uint64_t>(), event["first_other"].get<std::uint64_t>(), event["reason"].get<std::string>()};
  for (const auto& segment : event["segments"]) sequence.segments.push_back(verdict_of(segment));
}

/// The model that this machine has, beside the one that the file names.
void hear_model(const json& event, Verification& verification) {
  const auto compare = [&](const char* what, const std::string& named, const std::string& own) {
    if (named != own) verification.reasons.push_back(std::string{"another "} + what + ": the file names " + named + ", and here is " + own);
  };
  compare("model", verification.file.model, event["digest"].get<std::string>());
  compare("tokenizer", verification.file.tokenizer, event["tokenizer"].get<std::string>());
}

Result<Verification> verified(const VerifyArguments& arguments, Terminal& terminal) {
  Verification verification;
  PRIME_TRY(const auto text, proofs::read_text(arguments.file));
  auto file = proofs::parse_generation(text);
  if (!file) return fail(file.error().name, arguments.file + ": " + file.error().detail);
  verification.file = *std::move(file);
  verification.thresholds = is_coarse(arguments.dtype) ? toploc_bf16() : exact_f32();
  if (!arguments.thresholds.empty()) {
    PRIME_TRY(verification.thresholds, parse_thresholds(arguments.thresholds));
  }
  verification.reasons = refused_terms(arguments, verification.file);
  if (!verification.reasons.empty()) return verification;
  // Until a sequence has been heard of, it is not proved.
  verification.sequences.assign(verification.file.sequences.size(), VerifiedSequence{{}, 0, 0, "it was not computed"});
  PRIME_CHECK(run_inference(job_of(arguments, verification), terminal, "Verifying", [&](const json& event) {
    if (event["event"] == "model") hear_model(event, verification);
    if (event["event"] == "verdict") hear_verdict(event, verification);
    if (event["event"] == "done") verification.seconds = event["seconds"].get<double>();
    return verification.reasons.empty();
  }));
  if (!verification.reasons.empty()) verification.sequences.clear();
  return verification;
}

}  // namespace

int run_command(const VerifyArguments& arguments, Terminal& terminal) {
  const auto verification = verified(arguments, terminal);
  if (!verification) return terminal.complain(verification.error());
  terminal.print(terminal.json() ? telemetry::dump(verification_json(*verification)) + "\n" : verification_text(*verification));
  return verification->accepted() ? 0 : info(ErrorName::ProofRefused).exit_code;
}

}  // namespace prime::cli

// Owns `primectl commitment`: proofs of activations that lie in a file, whichever engine computed them.
#include <fmt/format.h>

#include "cli/commands.hpp"
#include "cli/render/figures.hpp"
#include "cli/render/proof_text.hpp"
#include "cli/terminal.hpp"
#include "runtime/commitment/activation_file.hpp"
#include "runtime/commitment/proof_file.hpp"
#include "runtime/telemetry/status_json.hpp"

namespace prime::cli {
namespace {

CommitmentOptions options_of(const CommitmentArguments& arguments) { return {arguments.k, arguments.tokens, arguments.prefill}; }

/// What belongs to another of the three.
Result<void> check_usage(const CommitmentArguments& arguments) {
  const bool checks = arguments.what == "check";
  const std::size_t files = arguments.what == "calibrate" ? 2 : 1;
  if (arguments.files.size() != files)
    return fail(ErrorName::Usage, "`commitment " + arguments.what + "` takes " + (files == 2 ? "two files, one of each run" : "one file"));
  if (checks && arguments.proofs.empty()) return fail(ErrorName::Usage, "`commitment check` needs --proofs FILE");
  if (!checks && !arguments.proofs.empty()) return fail(ErrorName::Usage, "--proofs is for `commitment check`");
  if (!checks && !arguments.thresholds.empty()) return fail(ErrorName::Usage, "--thresholds is for `commitment check`");
  return {};
}

int build(const CommitmentArguments& arguments, Terminal& terminal) {
  const auto activations = proofs::read_activations(arguments.files.front(), arguments.tensor);
  if (!activations) return terminal.complain(activations.error());
  proofs::CommitmentFile file{options_of(arguments), {}};
  const auto built = build_proofs(activations->view(), file.options);
  if (!built) return terminal.complain(built.error());
  for (const auto& proof : *built) file.proofs.push_back(to_base64(proof));
  terminal.print(proofs::format(file));
  return 0;
}

/// What a prover may not choose for whoever checks.
std::vector<std::string> refused_terms(const CommitmentOptions& asked, const CommitmentOptions& found) {
  auto reasons = broken_terms(asked, found, "--tokens");
  if (found.prefill != asked.prefill)
    reasons.push_back(fmt::format("its first segment is a prompt of {}; one of {} is asked for (--prefill=N)",
                                  plural(found.prefill, "token"), plural(asked.prefill, "token")));
  return reasons;
}

Result<CommitmentThresholds> thresholds_of(const CommitmentArguments& arguments, DataType type) {
  if (!arguments.thresholds.empty()) return parse_thresholds(arguments.thresholds);
  return type == DataType::BF16 ? toploc_bf16() : exact_f32();
}

struct Checked {
  CommitmentThresholds thresholds;
  std::vector<ProofVerdict> verdicts;
};
Result<Checked> checked(const CommitmentArguments& arguments) {
  // Before anything is read of the tensor, which may be large.
  PRIME_TRY(const auto text, proofs::read_text(arguments.proofs));
  auto file = proofs::parse_commitment(text);
  if (!file) return fail(ErrorName::ProofMalformed, arguments.proofs + ": " + file.error().detail);
  if (const auto reasons = refused_terms(options_of(arguments), file->options); !reasons.empty())
    return fail(ErrorName::ProofRefused, arguments.proofs + ": " + reasons.front());
  PRIME_TRY(const auto activations, proofs::read_activations(arguments.files.front(), arguments.tensor));
  PRIME_TRY(const auto thresholds, thresholds_of(arguments, activations.type));
  const auto& options = file->options;
  // What does not fit the tensor is a lie of the proofs, and no wrong usage; nobody is told of a million proofs one by one.
  const auto tokens = activations.view().tokens();
  if (options.prefill > tokens)
    return fail(ErrorName::ProofMalformed, arguments.proofs + ": its prefill has " + std::to_string(options.prefill) +
                                               " tokens, and the tensor " + std::to_string(tokens));
  if (file->proofs.size() > tokens)
    return fail(ErrorName::ProofMalformed, arguments.proofs + ": it holds " + std::to_string(file->proofs.size()) +
                                               " proofs, and the tensor " + std::to_string(tokens) + " tokens");
  PRIME_TRY(auto verdicts, proofs::check_texts(activations.view(), file->proofs, options, thresholds));
  return Checked{thresholds, std::move(verdicts)};
}

int check(const CommitmentArguments& arguments, Terminal& terminal) {
  const auto result = checked(arguments);
  if (!result) return terminal.complain(result.error());
  bool all = true;
  std::vector<CheckedSegment> rows;
  for (std::size_t i = 0; i < result->verdicts.size(); ++i) {
    all = all && result->verdicts[i].accepted;
    if (terminal.json()) terminal.print(telemetry::dump(check_json(i, result->verdicts[i])) + "\n");
    else rows.push_back({std::to_string(i), result->verdicts[i]});
  }
  if (!terminal.json()) terminal.print(verdicts_text(rows, result->thresholds));
  return all ? 0 : info(ErrorName::ProofRefused).exit_code;
}

int measure(const CommitmentArguments& arguments, Terminal& terminal) {
  std::vector<proofs::ActivationFile> runs;
  for (const auto& path : arguments.files) {
    auto run = proofs::read_activations(path, arguments.tensor);
    if (!run) return terminal.complain(run.error());
    runs.push_back(*std::move(run));
  }
  const auto first = runs[0].view();
  const auto second = runs[1].view();
  const auto thresholds = calibrate(std::span{&first, 1}, std::span{&second, 1}, options_of(arguments));
  if (!thresholds) return terminal.complain(thresholds.error());
  if (terminal.json())
    terminal.print(telemetry::dump({{"schema", "primectl.commitment.calibrate/1"},
                                    {"thresholds", to_string(*thresholds)},
                                    {"mismatches", thresholds->mismatches},
                                    {"mantissa_mean", thresholds->mantissa_mean},
                                    {"mantissa_median", thresholds->mantissa_median}}) +
                   "\n");
  else terminal.print(to_string(*thresholds) + "\n");
  return 0;
}

}  // namespace

int run_command(const CommitmentArguments& arguments, Terminal& terminal) {
  if (const auto usable = check_usage(arguments); !usable) return terminal.complain(usable.error());
  if (arguments.what == "build") return build(arguments, terminal);
  return arguments.what == "check" ? check(arguments, terminal) : measure(arguments, terminal);
}

}  // namespace prime::cli

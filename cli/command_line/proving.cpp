// Owns the command lines of proofs: `generate`, `verify`, `replay`, `commitment`.
#include "cli/command_line/table.hpp"
#include "kernels/commitment/commitment.hpp"

namespace prime::cli {
namespace {

constexpr const char* THRESHOLDS_HELP =
    "toploc-bf16, exact-f32, or MISMATCHES/MEAN/MEDIAN such as 6/0.5/0 [bf16, f16: toploc-bf16; f32, f64: exact-f32]";
const std::vector<std::string> DTYPES{"f32", "bf16", "f16", "f64"};
constexpr unsigned K_MAXIMUM = kernels::COMMITTED_MAXIMUM;

void add_committed(CLI::App& command, unsigned& k, const char* k_help, unsigned& segment, const char* segment_help) {
  command.add_option("--k", k, std::string{"values "} + k_help)->type_name("K")->transform(whole(1, K_MAXIMUM));
  command.add_option("--segment", segment, std::string{"tokens "} + segment_help)->type_name("N")->transform(whole(1, 1 << 20));
}
void add_computing(CLI::App& command, unsigned& batch, const char* batch_help, unsigned& threads) {
  command.add_option("--batch", batch, batch_help)->type_name("N")->transform(whole(1, 1024));
  command.add_option("--threads", threads, "of all tensor operations [as many as cores]")->type_name("N")->transform(whole(1, 1024));
}

void add_generate(Table& table) {
  auto [generate, typed] = table.add<GenerateArguments>("generate", "let a model write, and prove that it did", "Prove");
  generate.add_option("MODEL", typed.model, "a checkpoint, or a Hugging Face directory of a Llama or a GPT-2")->required()->check(named());
  generate.add_option("--prompt", typed.prompts, "a text to go on from; may be given several times")
      ->type_name("TEXT")
      ->allow_extra_args(false);
  generate.add_option("--prompts", typed.prompts_file, "a file with a prompt on each line")->type_name("FILE")->check(named());
  generate.add_option("--prompt-tokens", typed.prompt_tokens_file, "a file with a prompt on each line, as token ids: [1, 15043, 3186]")
      ->type_name("FILE")
      ->check(named());
  generate.add_option("--tokens", typed.tokens, "tokens to write after each prompt [128, or what the context leaves]")
      ->type_name("N")
      ->transform(whole(1, 1'000'000));
  generate.add_option("--prove", typed.prove, "write the tokens and their proofs to this file, for `primectl verify`")
      ->type_name("FILE")
      ->check(named());
  add_committed(generate, typed.k, "of each segment that are committed to [128]", typed.segment, "of a segment [32]");
  generate.add_option("--dtype", typed.dtype, "to compute in: f32, bf16, f16, f64 [f32]")
      ->type_name("TYPE")
      ->check(CLI::IsMember(DTYPES).description(""));
  generate.add_option("--temperature", typed.temperature, "0 takes the likeliest token, 1 draws as the model says [0]")
      ->type_name("T")
      ->check(real(0, 100));
  generate.add_option("--seed", typed.seed, "what is drawn is drawn from it [1]")->type_name("S")->transform(whole(0, UINT64_MAX));
  add_computing(generate, typed.batch, "prompts at a time [16]", typed.threads);
  add_device(generate, typed.device);
  generate.footer("It writes as many tokens as are asked for: one that ends a text ends nothing.");
}

void add_verify(Table& table) {
  auto [verify, typed] =
      table.add<VerifyArguments>("verify", "check by one's own model that it wrote what a file of `generate --prove` says", "Prove");
  verify.add_option("FILE", typed.file, "what `generate --prove` wrote")->required()->check(named());
  verify.add_option("--model", typed.model, "one's own copy of the model")->type_name("MODEL")->required()->check(named());
  verify.add_option("--thresholds", typed.thresholds, THRESHOLDS_HELP)->type_name("T")->check(named());
  add_committed(verify, typed.k, "of each segment that must be committed to, at least [128]", typed.segment, "of a segment, at most [32]");
  verify.add_option("--dtype", typed.dtype, "to compute in, which the file must name, too: f32, bf16, f16, f64 [f32]")
      ->type_name("TYPE")
      ->check(CLI::IsMember(DTYPES).description(""));
  add_computing(verify, typed.batch, "sequences at a time [16]", typed.threads);
  add_device(verify, typed.device);
  verify.footer("Exits with 5 when anything does not hold. docs/VERIFYING.md says what holds then, and what is not proved.");
}

void add_commitment(Table& table) {
  auto [commitment, typed] =
      table.add<CommitmentArguments>("commitment", "build and check proofs of activations that another engine computed", "Prove");
  commitment
      .add_option("WHAT", typed.what,
                  "build (print the proofs), check (proofs against one's own activations), calibrate (thresholds between\ntwo honest runs)")
      ->required()
      ->type_name("build|check|calibrate")
      ->check(CLI::IsMember({"build", "check", "calibrate"}).description(""));
  commitment.add_option("FILE", typed.files, "safetensors with activations [tokens, width] of bf16 or f32; for calibrate two of them")
      ->required()
      ->check(named());
  commitment.add_option("--tensor", typed.tensor, "name of the tensor")->type_name("NAME")->required()->check(named());
  commitment.add_option("--k", typed.k, "values of each segment that are committed to; check: at least [128]")
      ->type_name("K")
      ->transform(whole(1, K_MAXIMUM));
  commitment.add_option("--tokens", typed.tokens, "of a segment; check: at most [32]")->type_name("N")->transform(whole(1, UINT32_MAX));
  const auto prefill = std::make_shared<std::string>();  // a flag with a number is a text to CLI11
  commitment
      .add_flag("--prefill{1}", *prefill,
                "the first token is a segment of its own, as the package `toploc` has it; --prefill=N: the first N, a prompt [none]")
      ->transform(whole(0, UINT32_MAX))
      ->each([prefill, &typed = typed](const std::string& tokens) { typed.prefill = std::stoull(tokens); });
  commitment.add_option("--proofs", typed.proofs, "what `commitment build` printed; for check")->type_name("FILE")->check(named());
  commitment.add_option("--thresholds", typed.thresholds, THRESHOLDS_HELP)->type_name("T")->check(named());
  commitment.footer("`check` exits with 5 when a proof is not accepted.");
}

void add_replay(Table& table) {
  auto [replay, typed] = table.add<ReplayArguments>("replay", "make every version of a run again, from what its peers have kept", "Prove");
  replay.add_option("RUN", typed.run, "run id or a unique prefix of it")->required()->check(named());
  replay
      .add_option("--contributions", typed.contributions,
                  "a directory with what peers of other machines have kept; may be given several times")
      ->type_name("DIR")
      ->allow_extra_args(false)
      ->check(named());
  replay.footer(
      "For a run with `checkpoint.keep_contributions: true`, on the machine of its coordinator. Each round is reduced once more, by the\n"
      "journal of the coordinator and from the contributions that peers kept in their directories before they voted; what it leads to "
      "must\n"
      "have the digest that was committed. Exits with 5 when a version differs.");
}

}  // namespace

void add_proving(Table& table) {
  add_generate(table);
  add_verify(table);
  add_replay(table);
  add_commitment(table);
}

}  // namespace prime::cli

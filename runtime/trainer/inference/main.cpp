// Owns prime-inference: the program that runs models for `primectl generate`, `verify` and `bench`. It takes one job as JSON on its
// standard input and answers in lines of JSON; what is in them is in cli/inference.hpp. It ends with who started it.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <ctime>
#include <exception>
#include <iostream>
#include <iterator>
#include <sys/prctl.h>
#include <thread>

#include "runtime/shortage.hpp"
#include "runtime/store/strict_json.hpp"
#include "runtime/trainer/device.hpp"
#include "runtime/trainer/inference/assessment.hpp"
#include "runtime/trainer/inference/generation.hpp"
#include "runtime/trainer/learner.hpp"
#include "runtime/trainer/memory_fault.hpp"

namespace prime::trainer {
namespace {

using nlohmann::json;

void tell(const json& line) { std::cout << line.dump(-1, ' ', false, json::error_handler_t::replace) << "\n" << std::flush; }

/// Of progress not more lines than a person can see.
class Reporter {
 public:
  void operator()(std::uint64_t done, std::uint64_t of) {
    const std::uint64_t percent = of == 0 ? 100 : done * 100 / of;
    if (percent == last_) return;
    last_ = percent;
    tell({{"event", "progress"}, {"done", done}, {"of", of}});
  }

 private:
  std::uint64_t last_ = UINT64_MAX;
};

/// The device was chosen before anything was computed.
struct Job {
  json text;
  at::Device device;

  [[nodiscard]] const json& at(const char* key) const { return text.at(key); }
};

at::ScalarType type_named(const std::string& name) {
  if (name == "f64") return at::kDouble;
  if (name == "bf16") return at::kBFloat16;
  return name == "f16" ? at::kHalf : at::kFloat;
}

at::TensorOptions where_of(const Job& job) { return at::device(job.device).dtype(type_named(job.at("dtype").get<std::string>())); }

bool is_coarse(const std::string& type) { return type == "bf16" || type == "f16"; }

proofs::Sampling sampling_of(const Job& job) { return {job.at("temperature").get<double>(), job.at("seed").get<std::uint64_t>()}; }

std::string text_of(std::span<const std::uint32_t> tokens) {
  std::string text;
  for (const auto token : tokens) text.push_back(token < 256 ? static_cast<char>(token) : '?');
  return text;
}

/// As a file has it: JSON knows UTF-8 alone.
std::string as_written(const std::string& text) {
  return json::parse(json(text).dump(-1, ' ', false, json::error_handler_t::replace)).get<std::string>();
}

struct Model {
  ModelDirectory directory;
  Decoder decoder;
};
Result<ModelDirectory> open_model(const Job& job) { return ModelDirectory::open(job.at("model").get<std::string>()); }
/// `positions`: of the longest sequence.
Result<Model> load(const Job& job, ModelDirectory directory, std::uint64_t positions) {
  PRIME_TRY(auto decoder, Decoder::load(directory, where_of(job), positions));
  tell({{"event", "model"}, {"digest", directory.digest()}, {"tokenizer", directory.tokenizer()}});
  return Model{std::move(directory), std::move(decoder)};
}

/// Of prompts that came as texts, whose bytes are there: their tokens.
Result<void> tokenize(std::vector<std::vector<std::uint32_t>>& prompts, const data::Tokenizer& tokenizer) {
  data::Encoder encoder(tokenizer);
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const std::string text(prompts[i].begin(), prompts[i].end());
    prompts[i].clear();
    if (const auto encoded = encoder.encode(text, prompts[i]); !encoded) {
      const bool of_text = encoded.error().name == ErrorName::DataUnreadable;
      return of_text ? fail(ErrorName::Usage, "prompt " + std::to_string(i + 1) + ": " + encoded.error().detail) : fail(encoded.error());
    }
    if (prompts[i].empty()) return fail(ErrorName::Usage, "prompt " + std::to_string(i + 1) + " is no token of the model's tokenizer");
    sum += prompts[i].size();
  }
  if (sum > proofs::PROMPT_TOKENS_MAX)
    return fail(ErrorName::Usage, "the prompts have " + std::to_string(sum) + " tokens; " + std::to_string(proofs::PROMPT_TOKENS_MAX) +
                                      " at most are taken at a time");
  tell({{"event", "prompts"}, {"prompts", prompts}});
  return {};
}

Result<void> run_generate(const Job& job) {
  auto prompts = job.at("prompts").get<std::vector<std::vector<std::uint32_t>>>();
  PRIME_TRY(auto directory, open_model(job));
  const bool texts = job.at("texts").get<bool>();
  if (texts && !directory.has_known_tokens())
    return fail(
        ErrorName::ModelUnsupported,
        "its tokenizer is not `bytes`, and no SentencePiece model beside a tokenizer_config.json with `add_bos_token: false`, which are "
        "the only ones that are known here: give the prompts as token ids, --prompt-tokens FILE, made with the model's own tokenizer");
  std::optional<data::Tokenizer> tokenizer;
  if (directory.has_known_tokens()) {
    auto opened = directory.open_tokenizer();
    if (!opened && texts) return fail(std::move(opened).error());
    if (opened) tokenizer = *std::move(opened);
  }
  if (texts && !tokenizer->is_bytes()) PRIME_CHECK(tokenize(prompts, *tokenizer));
  std::uint64_t longest = 0;
  for (const auto& prompt : prompts) longest = std::max<std::uint64_t>(longest, prompt.size());
  const auto asked = job.at("tokens").get<std::uint32_t>();  // 0: as many as fit
  PRIME_TRY(auto model, load(job, std::move(directory), longest + (asked > 0 ? asked : proofs::TOKENS_BY_DEFAULT)));
  const std::uint64_t context = model.decoder.config().context;
  const std::uint64_t room = context > longest ? context - longest : 1;
  const GenerationOptions options{asked > 0 ? asked : static_cast<std::uint32_t>(std::min<std::uint64_t>(proofs::TOKENS_BY_DEFAULT, room)),
                                  job.at("batch").get<std::uint32_t>(),
                                  sampling_of(job),
                                  job.at("prove").get<bool>(),
                                  job.at("k").get<std::uint32_t>(),
                                  job.at("segment_tokens").get<std::uint32_t>()};
  const auto done = [&](std::size_t index, const Result<proofs::Sequence>& sequence) {
    if (!sequence) {
      tell({{"event", "failed"}, {"index", index}, {"name", info(sequence.error().name).name}, {"detail", sequence.error().detail}});
      return;
    }
    json line{
        {"event", "sequence"}, {"index", index}, {"prompt", sequence->prompt}, {"tokens", sequence->tokens}, {"proofs", sequence->proofs}};
    if (tokenizer && tokenizer->is_bytes()) line["text"] = text_of(sequence->prompt) + text_of(sequence->tokens);
    else if (tokenizer) {
      auto all = sequence->prompt;
      all.insert(all.end(), sequence->tokens.begin(), sequence->tokens.end());
      line["text"] = tokenizer->decode(all);
    }
    tell(line);
  };
  PRIME_TRY(const auto spent, generate(model.decoder, prompts, options, done, Reporter{}));
  tell({{"event", "done"}, {"seconds", spent.total}, {"proving_seconds", spent.proving}});
  return {};
}

json segment_json(const ProofVerdict& verdict) {
  const auto& comparison = verdict.comparison;
  return {{"accepted", verdict.accepted},
          {"compared", verdict.compared},
          {"values", comparison.values},
          {"exponent_mismatches", comparison.exponent_mismatches},
          {"sign_mismatches", comparison.sign_mismatches},
          {"mantissa_mean", comparison.mantissa_mean},
          {"mantissa_median", comparison.mantissa_median},
          {"reason", verdict.reason}};
}

Result<void> run_verify(const Job& job) {
  std::vector<proofs::Sequence> sequences;
  std::uint64_t longest = 0;
  for (const auto& entry : job.at("sequences")) {
    sequences.push_back({entry.at("prompt").get<std::vector<std::uint32_t>>(), entry.at("tokens").get<std::vector<std::uint32_t>>(),
                         entry.at("text").get<std::string>(), entry.at("proofs").get<std::vector<std::string>>()});
    longest = std::max<std::uint64_t>(longest, sequences.back().prompt.size() + sequences.back().tokens.size());
  }
  PRIME_TRY(auto directory, open_model(job));
  PRIME_TRY(auto model, load(job, std::move(directory), longest));
  // Of another model there is nothing to compare.
  if (model.directory.digest() != job.at("digest") || model.directory.tokenizer() != job.at("tokenizer")) {
    tell({{"event", "done"}, {"seconds", 0}, {"proving_seconds", 0}});
    return {};
  }
  PRIME_TRY(const auto thresholds, parse_thresholds(job.at("thresholds").get<std::string>()));
  const VerificationOptions options{job.at("batch").get<std::uint32_t>(),
                                    sampling_of(job),
                                    job.at("k").get<std::uint32_t>(),
                                    job.at("segment_tokens").get<std::uint32_t>(),
                                    thresholds,
                                    is_coarse(job.at("dtype").get<std::string>()) ? COARSE_CHOICES : EXACT_CHOICES};
  const auto done = [&](std::size_t index, const SequenceVerdict& verdict) {
    auto segments = json::array();
    for (const auto& segment : verdict.segments) segments.push_back(segment_json(segment));
    // What is proved are the tokens; whoever reads the text reads what nobody has computed, if that is another one.
    const auto& [prompt, tokens, text, proofs] = sequences[index];
    const bool other_text = model.directory.has_byte_tokens() && text != as_written(text_of(prompt) + text_of(tokens));
    tell({{"event", "verdict"},
          {"index", index},
          {"segments", segments},
          {"other_choices", verdict.other_choices},
          {"first_other", verdict.first_other},
          {"reason", verdict.reason.empty() && other_text ? "its `text` is not what its tokens say" : verdict.reason}});
  };
  PRIME_TRY(const auto spent, verify(model.decoder, sequences, options, done, Reporter{}));
  tell({{"event", "done"}, {"seconds", spent.total}, {"proving_seconds", spent.proving}});
  return {};
}

Result<void> run_assess(const Job& job) {
  const auto sequences = job.at("sequences").get<std::vector<std::vector<std::uint32_t>>>();
  std::uint64_t longest = 1;
  for (const auto& sequence : sequences) longest = std::max<std::uint64_t>(longest, sequence.size());
  PRIME_TRY(auto directory, open_model(job));
  PRIME_TRY(const auto model, load(job, std::move(directory), longest));
  bool all_finite = true;
  const auto tell_of = [&](std::size_t index, const Assessed& assessed) {
    const bool finite =
        std::isfinite(assessed.nats) && std::ranges::all_of(assessed.state, [](double value) { return std::isfinite(value); });
    all_finite = all_finite && finite;
    if (!finite) return;
    tell({{"event", "assessed"}, {"index", index}, {"nats", assessed.nats}, {"tokens", assessed.tokens}, {"state", assessed.state}});
  };
  PRIME_CHECK(assess(model.decoder, sequences, job.at("batch").get<std::uint32_t>(), tell_of, Reporter{}));
  if (!all_finite)
    return fail(ErrorName::NonFiniteValue,
                "the loss or the hidden states of reads: this model diverged, or its files are damaged; take an earlier checkpoint");
  tell({{"event", "done"}});
  return {};
}

/// Of a model of this size that nobody trained.
ModelConfig bench_config(const Job& job) {
  ModelConfig config;
  config.layers = job.at("layers").get<std::uint32_t>();
  config.dim = job.at("dim").get<std::uint32_t>();
  config.heads = config.kv_heads = job.at("heads").get<std::uint32_t>();
  config.ffn = job.at("ffn").get<std::uint32_t>();
  config.vocab = job.at("vocab").get<std::uint32_t>();
  config.context = job.at("prompt").get<std::uint32_t>() + job.at("tokens").get<std::uint32_t>();
  config.norm_epsilon = 1e-5;
  return config;
}

/// Seconds of the processor: others may be at work here, and of what waits for it nobody is to blame. Of a GPU, which nobody else uses
/// where anything is measured, those of the clock.
template <class Work>
double seconds_of(const Decoder& decoder, const Job& job, Work work) {
  decoder.wait();
  const auto began = std::chrono::steady_clock::now();
  const auto since = std::clock();
  work();
  decoder.wait();
  if (!job.device.is_cpu()) return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  return static_cast<double>(std::clock() - since) / CLOCKS_PER_SEC;
}

/// Generation with proofs, and its verification; and of both what cannot be saved, the products with the weights.
Result<void> run_bench(const Job& job) {
  const auto prompt = job.at("prompt").get<std::uint32_t>(), tokens = job.at("tokens").get<std::uint32_t>(),
             batch = job.at("batch").get<std::uint32_t>();
  const auto type = job.at("dtype").get<std::string>();
  const auto decoder = Decoder::untrained(bench_config(job), where_of(job));
  std::vector<std::vector<std::uint32_t>> prompts(batch);
  for (std::uint32_t i = 0; i < batch; ++i)
    for (std::uint32_t j = 0; j < prompt; ++j) prompts[i].push_back((i * 31 + j * 7) % decoder.config().vocab);
  const GenerationOptions writing{tokens, batch, {1, 1}, true, 128, 32};
  const VerificationOptions checking{
      batch, writing.sampling, 128, 32, is_coarse(type) ? toploc_bf16() : exact_f32(), is_coarse(type) ? COARSE_CHOICES : EXACT_CHOICES};
  for (int round = 0; round < job.at("repeat").get<int>(); ++round) {
    std::vector<proofs::Sequence> sequences(batch);
    std::uint64_t refused = 0;
    const auto keep = [&](std::size_t index, Result<proofs::Sequence> sequence) {
      if (sequence) sequences[index] = *std::move(sequence);
      else ++refused;
    };
    const auto judge = [&](std::size_t, const SequenceVerdict& verdict) {
      refused += verdict.other_choices + static_cast<std::uint64_t>(std::ranges::count_if(
                                             verdict.segments, [](const ProofVerdict& segment) { return !segment.accepted; }));
    };
    const auto silent = [](auto, auto) {};
    Result<Spent> wrote, checked;
    const double generate_seconds = seconds_of(decoder, job, [&] { wrote = generate(decoder, prompts, writing, keep, silent); });
    PRIME_CHECK(wrote);
    const double verify_seconds = seconds_of(decoder, job, [&] { checked = verify(decoder, sequences, checking, judge, silent); });
    PRIME_CHECK(checked);
    const at::InferenceMode no_graph;
    const double decode_products = seconds_of(decoder, job, [&] {
      for (std::uint32_t step = 0; step < tokens; ++step) decoder.multiply_only(batch);
    });
    const double prefill_products = seconds_of(decoder, job, [&] { decoder.multiply_only(std::int64_t{batch} * (prompt + tokens)); });
    tell({{"event", "round"},
          {"generate_seconds", generate_seconds},
          {"proving_seconds", wrote->proving / wrote->total * generate_seconds},
          {"verify_seconds", verify_seconds},
          {"comparing_seconds", checked->proving / checked->total * verify_seconds},
          {"decode_products_seconds", decode_products},
          {"prefill_products_seconds", prefill_products},
          {"refused", refused}});
  }
  tell({{"event", "done"}});
  return {};
}

Result<void> run() {
  const std::string text{std::istreambuf_iterator<char>{std::cin}, {}};
  const auto job = store::parse_strictly(text, {16, proofs::JOB_VALUES_MAX});
  if (!job || !job->is_object() || !job->contains("command"))
    return fail(ErrorName::Usage, "prime-inference is started by primectl, with a job on its standard input");
  PRIME_TRY(const auto chosen, choose_device(job->at("device").get<std::string>()));
  // cuDNN's attention makes a plan for each shape that it meets, and a decoder's keys are of another length at each token: 20 ms a token.
  at::globalContext().setSDPUseCuDNN(false);
  tell({{"event", "device"}, {"device", to_string(chosen)}});
  const auto threads = job->at("threads").get<std::uint32_t>();
  set_compute_threads(threads > 0 ? threads : std::max(1U, std::thread::hardware_concurrency()));
  const Job accepted{*job, at::Device(chosen.name)};
  const auto& command = job->at("command");
  if (command == "generate") return run_generate(accepted);
  if (command == "assess") return run_assess(accepted);
  return command == "verify" ? run_verify(accepted) : run_bench(accepted);
}

Result<void> run_in_memory() try { return run(); } catch (const json::exception& thrown) {
  return fail(ErrorName::Usage, std::string{"the job of prime-inference: "} + thrown.what());
} catch (const std::exception& thrown) {
  if (auto error = want_of_memory(thrown)) return fail(*std::move(error));
  const std::string text = thrown.what();  // libtorch's has a trace behind the first line
  return fail(ErrorName::InternalError, text.substr(0, text.find('\n')));
}

}  // namespace
}  // namespace prime::trainer

int main() {
  prime::end_by_name_when_short();
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  const auto outcome = prime::trainer::run_in_memory();
  if (outcome) return 0;
  prime::trainer::tell({{"event", "error"}, {"name", prime::info(outcome.error().name).name}, {"detail", outcome.error().detail}});
  return prime::info(outcome.error().name).exit_code;
}

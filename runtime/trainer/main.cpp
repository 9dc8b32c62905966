// Owns prime-trainer: the built-in client of a session. It loads, trains, reports and answers; who takes part, when a step ends and
// what the shared parameters are is the agent's business.
#include <cstdio>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "messages/limits.hpp"
#include "prime/session.hpp"
#include "runtime/manifest/load.hpp"
#include "runtime/shortage.hpp"
#include "runtime/trainer/data/corpus.hpp"
#include "runtime/trainer/data/read_ahead.hpp"
#include "runtime/trainer/device.hpp"
#include "runtime/trainer/evaluation.hpp"
#include "runtime/trainer/hugging_face.hpp"
#include "runtime/trainer/learner.hpp"
#include "runtime/trainer/memory_fault.hpp"
#include "runtime/trainer/schedule.hpp"

namespace prime::trainer {
namespace {

/// What a terminal should not get is replaced.
std::string printable(std::string text) {
  for (char& c : text)
    if (c != '\n' && c != '\t' && (c < ' ' || c > '~')) c = '?';
  return text;
}

/// Tells of compiling what may take long, so that nobody takes it for standing still.
Result<data::Corpus> open_corpus(const manifest::Manifest& manifest, Session& session) {
  std::uint64_t told = 0;
  return data::Corpus::open(manifest, [&](const data::Progress& progress) -> Result<void> {
    const auto percent = progress.of_bytes == 0 ? 0 : 100 * progress.bytes / progress.of_bytes;
    if (percent >= told + 10) std::fprintf(stderr, "compiles its data: %llu %%\n", static_cast<unsigned long long>(told = percent));
    return session.alive();
  });
}

Computing computing_of(const manifest::Manifest& manifest, const std::string& device, const data::Tokenizer& tokenizer) {
  Computing computing{device, manifest.local.micro_batch, manifest.local.activation_checkpointing, {}};
  if (manifest.shared.data.document_mask) computing.document_end = tokenizer.end_of_document();
  return computing;
}

class Program {
 public:
  Program(Session& session, manifest::Manifest manifest, const data::Corpus& corpus, const std::string& device)
      : session_(session),
        manifest_(std::move(manifest)),
        corpus_(corpus),
        learner_(manifest_.shared.model, manifest_.shared.train, computing_of(manifest_, device, corpus.tokenizer())),
        ahead_(corpus, manifest_.shared.train.batch) {}

  Result<void> run() {
    const auto data = corpus_.identity(manifest_.shared);
    std::fprintf(stderr, "data: %s\n", data.summary.c_str());
    PRIME_CHECK(session_.describe_data(data));
    for (const TensorView& tensor : learner_.parameters()) PRIME_CHECK(session_.bind(tensor));
    // Nothing else makes a step differ: samples go by their number, and nothing is drawn while it learns.
    for (const TensorView& tensor : learner_.optimizer_state()) PRIME_CHECK(session_.bind(tensor, Role::Private));
    for (const auto& [name, content] : files_beside_weights(manifest_.shared, corpus_.tokenizer())) {
      if (content.size() <= EXPORT_BYTES_MAX) session_.export_file(name, content);
      else std::fprintf(stderr, "%s is larger than 16 MiB: checkpoints are without it\n", name.c_str());
    }
    for (;;) {
      PRIME_TRY(const auto step, session_.next());
      if (!step) break;
      if (step->restored) learner_.load_optimizer();
      if (step->loaded) learner_.load();
      PRIME_TRY(const auto report, train(*step));
      if (step->stored) learner_.store();
      PRIME_TRY(const auto applied, session_.report(report));
      for (const Committed& committed : applied)
        std::fprintf(stderr, "step %llu: mean loss %.4f, averaged over %u\n", static_cast<unsigned long long>(committed.step.value),
                     loss_sum_ / step->inner_steps, committed.peers);
    }
    return finish();
  }

 private:
  Result<InnerReport> train(const InnerStep& step) {
    const manifest::Train& settings = manifest_.shared.train;
    InnerReport report;
    PRIME_TRY(report.held_out, evaluate(settings.evaluate.limit_bytes, step.evaluate));
    PRIME_TRY(const auto batch, ahead_.batch(step.samples.first));
    report.data_wait_s = std::chrono::duration<double>(ahead_.waited()).count();
    report.loss = learner_.train(batch, learning_rate(settings, step.clock, step.total));
    report.tokens = step.samples.count * manifest_.shared.model.context;
    loss_sum_ = step.index == 0 ? report.loss : loss_sum_ + report.loss;
    return report;
  }

  Result<std::optional<HeldOut>> evaluate(std::uint64_t limit_bytes, const EvaluationShare& share) {
    return held_out_loss(learner_, corpus_, limit_bytes, share, [this] { return session_.alive(); });
  }

  Result<void> finish() {
    Result<void> outcome;
    PRIME_CHECK(session_.finish([&](const FinalPlan& plan) {
      FinalAnswer answer;
      learner_.load();
      auto held_out = evaluate(manifest_.shared.data.held_out_limit_bytes, plan.evaluate);
      if (held_out) answer.held_out = *held_out;
      else outcome = fail(std::move(held_out).error());
      if (plan.sample) answer.sample = sample();
      return answer;
    }));
    return outcome;
  }

  /// How the model goes on with what it was never trained on.
  std::string sample() {
    const auto& tokenizer = corpus_.tokenizer();
    std::vector<Token> prompt;
    const auto encoded = data::Encoder(tokenizer).encode(corpus_.beginning(), prompt);
    if (!encoded || prompt.empty()) prompt.assign(1, tokenizer.end_of_document().value_or('\n'));
    return printable(
        tokenizer.decode(learner_.write({.prompt = prompt, .choices = tokenizer.text_ids(), .seed = manifest_.shared.train.seed})));
  }

  Session& session_;
  manifest::Manifest manifest_;
  const data::Corpus& corpus_;
  Learner learner_;
  data::ReadAhead ahead_;
  double loss_sum_ = 0;  ///< of the outer step in progress
};

Result<void> take_part(Session& session) {
  PRIME_TRY(auto manifest, manifest::parse_halves(session.manifest(), session.local_manifest()));
  PRIME_TRY(const auto device, choose_device(manifest.local.device));
  if (manifest.local.device != "cpu") {
    std::fprintf(stderr, "device: %s\n", to_string(device).c_str());
    PRIME_CHECK(session.describe_device(to_string(device)));
  }
  PRIME_TRY(const auto corpus, open_corpus(manifest, session));
  set_compute_threads(manifest.local.threads);
  return Program(session, std::move(manifest), corpus, device.name).run();
}

/// To be started again changes nothing where memory is short; anything else may pass, and ends the process.
Result<void> take_part_in_memory(Session& session) try { return take_part(session); } catch (const std::exception& thrown) {
  auto error = want_of_memory(thrown);
  if (!error) throw;
  return fail(*std::move(error));
}

int report(const Error& error) {
  std::fprintf(stderr, "%s\n", to_string(error).c_str());
  return info(error.name).exit_code;
}

}  // namespace
}  // namespace prime::trainer

int main() {
  prime::end_by_name_when_short();
  auto session = prime::Session::attach();
  if (!session) return prime::trainer::report(session.error());
  const auto outcome = prime::trainer::take_part_in_memory(*session);
  if (outcome) return 0;
  // Telling an agent that is gone, or that ended the session itself, changes nothing there.
  session->fail(outcome.error());
  return prime::trainer::report(outcome.error());
}

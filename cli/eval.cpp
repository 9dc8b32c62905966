// Owns `primectl eval`: reads are gathered and tokenized here, the model makes of them what it makes in prime-inference.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <set>

#include "cli/commands.hpp"
#include "cli/inference.hpp"
#include "cli/render/eval_text.hpp"
#include "cli/render/figures.hpp"
#include "cli/terminal.hpp"
#include "runtime/manifest/load.hpp"
#include "runtime/telemetry/status_json.hpp"
#include "runtime/trainer/data/corpus.hpp"

namespace prime::cli {
namespace {

using nlohmann::json;

struct Gathered {
  assay::ReadSets sets;
  assay::Markov markov;
  std::uint64_t reads = 0, bases = 0;
};

/// By its name: a file of reads is FASTQ unless it says FASTA.
data::DataFormat format_of(std::string name) {
  std::ranges::transform(name, name.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  for (const std::string_view packed : {".gz", ".zst"})
    if (name.ends_with(packed)) name.resize(name.size() - packed.size());
  const auto is = [&](std::string_view ending) { return name.ends_with(ending); };
  return is(".fa") || is(".fna") || is(".ffn") || is(".fasta") ? data::DataFormat::Fasta : data::DataFormat::Fastq;
}

/// Whether there are reads of `positive` and others, in what is learned from and in what is judged.
Result<void> check_positive(const std::vector<std::string>& positive, const assay::ReadSets& sets) {
  if (positive.empty()) return {};
  std::set<std::string> sources;
  for (const auto* set : {&sets.trained, &sets.held_out})
    for (const auto& read : set->reads) sources.insert(read.source);
  std::string known;
  for (const auto& source : sources)
    if (!source.empty() && known.size() < 500) known += (known.empty() ? "" : ", ") + source;
  const auto refuse = [&](const std::string& why) {
    return fail(ErrorName::Usage,
                "`--positive` " + why + "; the reads looked at name " + (known.empty() ? "no source" : "the sources " + known));
  };
  for (const auto& name : positive)
    if (sources.count(name) == 0) return refuse("names `" + name + "`, of which none of the reads looked at is");
  const auto is_positive = [&](const assay::NamedRead& read) { return std::ranges::find(positive, read.source) != positive.end(); };
  for (const auto* set : {&sets.trained, &sets.held_out}) {
    const auto count = std::ranges::count_if(set->reads, is_positive);
    if (count == 0 || count == std::ssize(set->reads))
      return refuse(std::string{"leaves nothing to tell apart: "} + (count == 0 ? "none" : "each") + " of the reads " +
                    (set == &sets.trained ? "trained on" : "held out") + " is of it");
  }
  return {};
}

Result<Gathered> gather(const EvalArguments& arguments, const manifest::Manifest& manifest, Terminal& terminal) {
  Gathered gathered;
  assay::Sample trained(arguments.reads), held_out(arguments.reads);
  terminal.say("Counting", "what follows each of " + plural(assay::Markov::HIGHEST_ORDER, "base"));
  const auto here = data::data_here(manifest);
  for (const auto& source : data::sources_of(here))
    PRIME_CHECK(assay::each_read(source, here.include, [&](std::string_view name, std::string_view bases) -> Result<void> {
      gathered.markov.learn(bases);
      trained.show(name, bases);
      ++gathered.reads;
      gathered.bases += bases.size();
      return {};
    }));
  for (const auto& path : arguments.held_out) {
    data::Source source;
    source.paths = {path};
    source.format = format_of(path);
    PRIME_CHECK(assay::each_read(source, "*", [&](std::string_view name, std::string_view bases) -> Result<void> {
      held_out.show(name, bases);
      return {};
    }));
  }
  constexpr std::uint64_t LEAST = 20;
  if (trained.shown() < LEAST || held_out.shown() < LEAST)
    return fail(ErrorName::DataTooSmall, "there are " + plural(trained.shown(), "read") + " to learn from and " +
                                             plural(held_out.shown(), "read") + " held out; " + std::to_string(LEAST) +
                                             " of each are needed at least");
  gathered.sets.trained.reads = std::move(trained).take();
  gathered.sets.held_out.reads = std::move(held_out).take();
  PRIME_CHECK(check_positive(arguments.positive, gathered.sets));
  gathered.sets.random.reads = assay::random_like(gathered.sets.held_out.reads);
  return gathered;
}

/// The file that our checkpoints have; a tokenizer.json, where there is none.
manifest::TokenizerChoice tokenizer_beside(const std::string& model) {
  std::error_code ignored;
  manifest::TokenizerChoice choice;
  const auto json = model + "/tokenizer.json", pieces = model + "/tokenizer.model";
  const bool sentencepiece = !std::filesystem::exists(json, ignored) && std::filesystem::exists(pieces, ignored);
  (sentencepiece ? choice.sentencepiece : choice.file) = sentencepiece ? pieces : json;
  return choice;
}

Result<data::Tokenizer> tokenizer_of(const std::string& model) {
  const auto choice = tokenizer_beside(model);
  auto tokenizer = data::Tokenizer::open(choice, 0);
  if (!tokenizer)
    return fail(ErrorName::ModelUnsupported, tokenizer.error().detail + ": reads are tokenized by what stands beside the model");
  if (!tokenizer->end_of_document())
    return fail(ErrorName::ModelUnsupported, choice.sentencepiece.value_or(model + "/tokenizer.json") +
                                                 ": has no token that ends documents, which each read follows on");
  return tokenizer;
}

/// Each read behind the end of another, as they are packed in training.
class Asking {
 public:
  Asking(const data::Tokenizer& tokenizer, assay::ReadSets& sets) : tokenizer_(tokenizer) {
    for (auto* set : {&sets.trained, &sets.held_out, &sets.random}) {
      set->readings.resize(set->reads.size());
      for (std::size_t i = 0; i < set->reads.size(); ++i) places_.push_back({set, i});
    }
  }

  Result<json> sequences() {
    data::Encoder encoder(tokenizer_);
    for (const auto& [set, index] : places_) {
      auto& tokens = tokens_.emplace_back(1, *tokenizer_.end_of_document());
      if (const auto encoded = encoder.encode(set->reads[index].bases, tokens); !encoded) {
        const bool of_read = encoded.error().name == ErrorName::DataUnreadable;
        return of_read ? fail(ErrorName::DataUnreadable, "a read: " + encoded.error().detail) : fail(encoded.error());
      }
    }
    return json(tokens_);
  }

  void hear(const json& event) {
    const auto number = event["index"].get<std::size_t>();
    if (number >= places_.size()) return;
    const auto& [set, index] = places_[number];
    auto& reading = set->readings[index];
    reading.nats = event["nats"].get<double>();
    reading.tokens = event["tokens"].get<std::uint64_t>();
    reading.state = event["state"].get<std::vector<double>>();
    reading.bases = tokenizer_.decode(std::span(tokens_[number]).subspan(1, reading.tokens)).size();
  }

 private:
  struct Place {
    assay::ReadSet* set;
    std::size_t index;
  };
  const data::Tokenizer& tokenizer_;
  std::vector<Place> places_;
  std::vector<std::vector<data::Token>> tokens_;
};

Result<Evaluated> evaluate(const EvalArguments& arguments, const manifest::Manifest& manifest, Terminal& terminal) {
  const auto began = std::chrono::steady_clock::now();
  PRIME_TRY(const auto tokenizer, tokenizer_of(arguments.model));
  PRIME_TRY(auto gathered, gather(arguments, manifest, terminal));
  Asking asking(tokenizer, gathered.sets);
  PRIME_TRY(auto sequences, asking.sequences());
  const json job{{"command", "assess"},
                 {"model", arguments.model},
                 {"dtype", "f32"},
                 {"threads", arguments.threads},
                 {"device", arguments.device},
                 {"batch", arguments.batch},
                 {"sequences", std::move(sequences)}};
  PRIME_CHECK(run_inference(job, terminal, "Reading", [&](const json& event) {
    if (event["event"] == "assessed") asking.hear(event);
    return true;
  }));
  terminal.say("Judging", "what the model made of them");
  return Evaluated{arguments.model,
                   manifest.shared.run,
                   gathered.reads,
                   gathered.bases,
                   arguments.positive,
                   assay::make_report(gathered.sets, gathered.markov, arguments.positive),
                   std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count()};
}

}  // namespace

int run_command(const EvalArguments& arguments, Terminal& terminal) {
  const auto loaded = manifest::load_manifest(arguments.manifest, arguments.overrides);
  if (!loaded) {
    terminal.complain(manifest::render(loaded));
    return info(manifest::first_error(loaded).name).exit_code;
  }
  const auto evaluated = evaluate(arguments, *loaded.manifest, terminal);
  if (!evaluated) return terminal.complain(evaluated.error());
  terminal.print(terminal.json() ? telemetry::dump(eval_json(*evaluated)) + "\n" : eval_text(*evaluated));
  return 0;
}

}  // namespace prime::cli

// Owns `primectl data`: what a manifest trains on, compiled and shown, and tokenizers of one's own.
#include "cli/commands.hpp"
#include "cli/data_progress.hpp"
#include "cli/interrupts.hpp"
#include "cli/render/data_text.hpp"
#include "cli/render/figures.hpp"
#include "cli/terminal.hpp"
#include "runtime/manifest/load.hpp"
#include "runtime/store/atomic_file.hpp"
#include "runtime/telemetry/status_json.hpp"
#include "runtime/trainer/data/pair_training.hpp"
#include "runtime/trainer/data/sequencer.hpp"

namespace prime::cli {
namespace {

Result<void> check_reads(const DataArguments& arguments) {
  const auto refuse = [](const std::string& why) { return fail(ErrorName::Usage, "`data reads` " + why); };
  if (arguments.out.empty()) return refuse("needs --out FILE");
  if (arguments.from >= arguments.to) return refuse("takes reads from `--from` up to `--to`, which must be the larger one");
  if (arguments.adapter.find_first_not_of("ACGT") != std::string::npos) return refuse("takes an --adapter of A, C, G and T");
  const auto& shares = arguments.shares;
  if (!shares.empty() && (shares.size() != arguments.files.size() || std::ranges::count(shares, 0.0) == std::ssize(shares)))
    return refuse("takes one of --shares for each genome file, and one at least above 0");
  return store::check_writable(arguments.out);
}

Result<void> check_usage(const DataArguments& arguments) {
  if (arguments.what == "reads") return check_reads(arguments);
  if (arguments.what != "tokenizer") {
    if (arguments.files.size() == 1) return {};
    return fail(ErrorName::Usage, "`data " + arguments.what + "` takes one manifest");
  }
  if (arguments.files.front() != "train" || arguments.files.size() < 2)
    return fail(ErrorName::Usage, "`data tokenizer train` needs files to learn from");
  if (arguments.out.empty()) return fail(ErrorName::Usage, "`data tokenizer train` needs --out FILE");
  return store::check_writable(arguments.out);
}

int train_tokenizer(const DataArguments& arguments, Terminal& terminal) {
  constexpr std::array FORMATS{std::pair{"text", data::DataFormat::Text}, std::pair{"jsonl", data::DataFormat::Jsonl},
                               std::pair{"fasta", data::DataFormat::Fasta}, std::pair{"fastq", data::DataFormat::Fastq},
                               std::pair{"parquet", data::DataFormat::Parquet}};
  data::PairTraining training;
  training.vocab = arguments.vocab;
  training.field = arguments.field;
  for (const auto& [name, format] : FORMATS)
    if (arguments.format == name) training.format = format;
  const Interrupts interrupts;
  training.on_progress = tells_of_compiling(terminal, interrupts.descriptor());
  const auto trained = data::train_pairs({arguments.files.begin() + 1, arguments.files.end()}, training);
  if (!trained) return terminal.complain(trained.error());
  if (const auto written = store::write_file_atomically(arguments.out, trained->json); !written) return terminal.complain(written.error());
  if (terminal.json())
    terminal.print(telemetry::dump({{"schema", "primectl.data.tokenizer/1"},
                                    {"file", arguments.out},
                                    {"vocab", trained->vocab},
                                    {"documents", trained->documents},
                                    {"bytes", trained->bytes}}) +
                   "\n");
  else
    terminal.print(arguments.out + ": " + plural(trained->vocab, "id") + ", learned from " + plural(trained->documents, "document") + ", " +
                   bytes_figure(trained->bytes) + "\n");
  return 0;
}

data::Sequencing sequencing_of(const DataArguments& arguments) {
  return {arguments.count, arguments.seed, arguments.length,  arguments.spread, arguments.errors,
          arguments.from,  arguments.to,   arguments.adapter, arguments.cycles, arguments.shares};
}

Result<std::vector<std::uint64_t>> write_reads(const DataArguments& arguments, std::uint64_t& bases) {
  PRIME_TRY(const auto genomes, data::Genomes::open(arguments.files));
  PRIME_TRY(const auto sequencer, data::Sequencer::make(genomes, sequencing_of(arguments)));
  std::vector<std::string> names;
  for (const auto& file : arguments.files) names.push_back(data::source_name(file));
  std::vector<std::uint64_t> counts(names.size());
  std::string text;
  for (std::uint64_t i = 0; i < arguments.count; ++i) {
    const auto read = sequencer.read(i);
    ++counts[read.file];
    bases += read.bases.size();
    text += data::fastq_record(read, i + 1, names[read.file]);
  }
  PRIME_CHECK(store::write_file_atomically(arguments.out, text));
  return counts;
}

int simulate_reads(const DataArguments& arguments, Terminal& terminal) {
  std::uint64_t bases = 0;
  const auto counts = write_reads(arguments, bases);
  if (!counts) return terminal.complain(counts.error());
  auto sources = nlohmann::ordered_json::array();
  std::string lines;
  for (std::size_t i = 0; i < counts->size(); ++i) {
    const auto name = data::source_name(arguments.files[i]);
    sources.push_back({{"source", name}, {"path", arguments.files[i]}, {"reads", (*counts)[i]}});
    lines += "  " + name + ": " + std::to_string((*counts)[i]) + "\n";
  }
  if (terminal.json())
    terminal.print(telemetry::dump({{"schema", "primectl.data.reads/1"},
                                    {"file", arguments.out},
                                    {"reads", arguments.count},
                                    {"bases", bases},
                                    {"seed", arguments.seed},
                                    {"sources", sources}}) +
                   "\n");
  else terminal.print(arguments.out + ": " + plural(arguments.count, "read") + ", " + plural(bases, "base") + "\n" + lines);
  return 0;
}

}  // namespace

int run_command(const DataArguments& arguments, Terminal& terminal) {
  if (const auto usage = check_usage(arguments); !usage) return terminal.complain(usage.error());
  if (arguments.what == "tokenizer") return train_tokenizer(arguments, terminal);
  if (arguments.what == "reads") return simulate_reads(arguments, terminal);
  const auto loaded = manifest::load_manifest(arguments.files.front(), arguments.overrides);
  if (!loaded) {
    terminal.complain(manifest::render(loaded));
    return info(manifest::first_error(loaded).name).exit_code;
  }
  const Interrupts interrupts;
  const auto corpus = data::Corpus::open(*loaded.manifest, tells_of_compiling(terminal, interrupts.descriptor()));
  if (!corpus) return terminal.complain(corpus.error());
  if (arguments.what == "inspect") {
    InspectedSample sample{*corpus, arguments.sample, std::vector<data::Token>(corpus->window_tokens())};
    if (const auto read = corpus->read(sample.number, sample.tokens); !read) return terminal.complain(read.error());
    terminal.print(terminal.json() ? telemetry::dump(sample_json(sample)) + "\n" : sample_text(sample));
    return 0;
  }
  const auto cache = data::cache_root(loaded.manifest->local.data_cache);
  const CompiledData compiled{*corpus, loaded.manifest->shared.run, cache ? cache->string() : std::string{}};
  terminal.print(terminal.json() ? telemetry::dump(data_json(compiled)) + "\n" : data_text(compiled));
  return 0;
}

}  // namespace prime::cli

// Owns `primectl data`: what a manifest trains on, compiled and shown, and tokenizers of one's own.
#include <filesystem>
#include <set>

#include "cli/commands.hpp"
#include "cli/data_progress.hpp"
#include "cli/interrupts.hpp"
#include "cli/output_file.hpp"
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

Result<void> check_reads(const DataArguments& arguments, bool json) {
  const auto refuse = [](const std::string& why) { return fail(ErrorName::Usage, "`data reads` " + why); };
  if (arguments.out.empty()) return refuse("needs --out FILE");
  if (arguments.from >= arguments.to) return refuse("takes reads from `--from` up to `--to`, which must be the larger one");
  if (arguments.adapter.find_first_not_of("ACGT") != std::string::npos) return refuse("takes an --adapter of A, C, G and T");
  const auto& shares = arguments.shares;
  if (!shares.empty() && (shares.size() != arguments.files.size() || std::ranges::count(shares, 0.0) == std::ssize(shares)))
    return refuse("takes one of --shares for each genome file, and one at least above 0");
  std::set<std::string> names;
  for (const auto& file : arguments.files)
    if (const auto name = data::source_name(file); !names.insert(name).second)
      return refuse("names reads by their file, and two are called `" + name + "`: give one of them another name");
  return check_output("--out", arguments.out, arguments.files, json);
}

Result<void> check_usage(const DataArguments& arguments, bool json) {
  if (arguments.what == "reads") return check_reads(arguments, json);
  if (arguments.what != "tokenizer") {
    if (arguments.files.size() == 1) return {};
    return fail(ErrorName::Usage, "`data " + arguments.what + "` takes one manifest");
  }
  if (arguments.files.front() != "train" || arguments.files.size() < 2)
    return fail(ErrorName::Usage, "`data tokenizer train` needs files to learn from");
  if (arguments.out.empty()) return fail(ErrorName::Usage, "`data tokenizer train` needs --out FILE");
  if (arguments.field != data::PairTraining{}.field && arguments.format != "jsonl" && arguments.format != "parquet")
    return fail(ErrorName::Usage, "`data tokenizer train` takes a --field of the formats jsonl and parquet");
  return check_output("--out", arguments.out, std::span{arguments.files}.subspan(1), json);
}

/// Beside the file, which may be what comes out of this command.
void tell_of_file(const DataArguments& arguments, const std::string& what, const std::string& more, Terminal& terminal) {
  if (is_standard_output(arguments.out)) terminal.say("Wrote", what);
  else terminal.print(arguments.out + ": " + what + "\n" + more);
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
  const auto trained = [&] {
    const Interrupts interrupts;
    training.on_progress = tells_of_data(terminal, "Learning", interrupts.descriptor());
    return data::train_pairs({arguments.files.begin() + 1, arguments.files.end()}, training);
  }();
  if (!trained) return terminal.complain(trained.error());
  Interrupts::let_them_end_it();  // who reads what is written may never come
  if (const auto written = store::write_file_atomically(arguments.out, trained->json); !written) return terminal.complain(written.error());
  if (terminal.json())
    terminal.print(telemetry::dump({{"schema", "primectl.data.tokenizer/1"},
                                    {"file", arguments.out},
                                    {"vocab", trained->vocab},
                                    {"documents", trained->documents},
                                    {"bytes", trained->bytes}}) +
                   "\n");
  else
    tell_of_file(
        arguments,
        plural(trained->vocab, "id") + ", learned from " + plural(trained->documents, "document") + ", " + bytes_figure(trained->bytes), {},
        terminal);
  return 0;
}

data::Sequencing sequencing_of(const DataArguments& arguments) {
  return {arguments.count, arguments.seed, arguments.length,  arguments.spread, arguments.errors,
          arguments.from,  arguments.to,   arguments.adapter, arguments.cycles, arguments.shares};
}

Result<std::vector<std::uint64_t>> write_reads(const DataArguments& arguments, std::uint64_t& bases, const data::OnProgress& on_progress) {
  constexpr std::size_t WRITTEN_AT_ONCE = 1 * MIB;
  PRIME_TRY(const auto genomes, data::Genomes::open(arguments.files, on_progress));
  PRIME_TRY(const auto sequencer, data::Sequencer::make(genomes, sequencing_of(arguments)));
  std::vector<std::string> names;
  for (const auto& file : arguments.files) names.push_back(data::source_name(file));
  std::vector<std::uint64_t> counts(names.size());
  PRIME_TRY(auto file, store::FileTransaction::begin(arguments.out));
  std::string text;
  std::uint64_t written = 0;
  for (std::uint64_t i = 0; i < arguments.count; ++i) {
    const auto read = sequencer.read(i);
    ++counts[read.file];
    bases += read.bases.size();
    text += data::fastq_record(read, i + 1, names[read.file]);
    if (text.size() < WRITTEN_AT_ONCE) continue;
    PRIME_CHECK(file.write(text));
    written += text.size();
    text.clear();
    PRIME_CHECK(on_progress({written, written / (i + 1) * arguments.count}));
  }
  PRIME_CHECK(file.write(text));
  PRIME_CHECK(file.commit());
  return counts;
}

int simulate_reads(const DataArguments& arguments, Terminal& terminal) {
  std::uint64_t bases = 0;
  // A file is not left half written; where a pipe takes it, who reads that may never come.
  std::optional<Interrupts> interrupts;
  std::error_code ignored;
  const auto type = std::filesystem::status(arguments.out, ignored).type();
  if (type == std::filesystem::file_type::not_found || type == std::filesystem::file_type::regular) interrupts.emplace();
  const auto counts = write_reads(arguments, bases, tells_of_data(terminal, "Sequencing", interrupts ? interrupts->descriptor() : -1));
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
  else tell_of_file(arguments, plural(arguments.count, "read") + ", " + plural(bases, "base"), lines, terminal);
  return 0;
}

}  // namespace

int run_command(const DataArguments& arguments, Terminal& terminal) {
  if (const auto usage = check_usage(arguments, terminal.json()); !usage) return terminal.complain(usage.error());
  if (arguments.what == "tokenizer") return train_tokenizer(arguments, terminal);
  if (arguments.what == "reads") return simulate_reads(arguments, terminal);
  const auto loaded = manifest::load_manifest(arguments.files.front(), arguments.overrides);
  if (!loaded) {
    terminal.complain(manifest::render(loaded));
    return info(manifest::first_error(loaded).name).exit_code;
  }
  const Interrupts interrupts;
  const auto corpus = data::Corpus::open(*loaded.manifest, tells_of_data(terminal, "Compiling", interrupts.descriptor()));
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

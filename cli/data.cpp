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

namespace prime::cli {
namespace {

Result<void> check_usage(const DataArguments& arguments) {
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
                               std::pair{"fasta", data::DataFormat::Fasta}, std::pair{"fastq", data::DataFormat::Fastq}};
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

}  // namespace

int run_command(const DataArguments& arguments, Terminal& terminal) {
  if (const auto usage = check_usage(arguments); !usage) return terminal.complain(usage.error());
  if (arguments.what == "tokenizer") return train_tokenizer(arguments, terminal);
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

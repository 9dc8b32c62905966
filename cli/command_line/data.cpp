// Owns the command line of `data`.
#include "cli/command_line/table.hpp"

namespace prime::cli {

void add_data(Table& table) {
  auto [data, typed] = table.add<DataArguments>("data", "compile what a manifest trains on, look at it, or train a tokenizer", "Data");
  data.add_option("WHAT", typed.what,
                  "build (compile into the cache), stats (what there is, source by source), inspect (one sample, as a model sees it),\n"
                  "tokenizer (`tokenizer train FILE…`: a byte-pair encoding of one's own)")
      ->required()
      ->type_name("build|stats|inspect|tokenizer")
      ->check(CLI::IsMember({"build", "stats", "inspect", "tokenizer"}).description(""));
  data.add_option("FILE", typed.files, "run manifest; of `tokenizer`, the word `train` and files to learn from")
      ->required()
      ->check(named());
  data.add_option("--set", typed.overrides, SET_HELP)->type_name("KEY=VALUE")->allow_extra_args(false);
  data.add_option("--sample", typed.sample, "of inspect: the number of the sample in the run's order [0]")
      ->type_name("N")
      ->transform(whole(0, 1ULL << 62));
  data.add_option("--vocab", typed.vocab, "of tokenizer: ids in all, the special ones included [1024]")
      ->type_name("N")
      ->transform(whole(16, 1U << 20));
  data.add_option("--out", typed.out, "of tokenizer: the tokenizer.json to write")->type_name("FILE")->check(named());
  data.add_option("--format", typed.format,
                  "of tokenizer: what the files hold: text, jsonl, fasta, fastq [text]; of nucleotides, ids are METAGENE-1's")
      ->type_name("FORMAT")
      ->check(CLI::IsMember({"text", "jsonl", "fasta", "fastq"}).description(""));
  data.add_option("--field", typed.field, "of tokenizer: the key of a JSON line whose text is learned from [text]")
      ->type_name("KEY")
      ->check(named());
  data.footer(
      "Runs of this machine share what is compiled: `local.data_cache` says where it is kept. `up` and `join` compile by themselves.");
}

}  // namespace prime::cli

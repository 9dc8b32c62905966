// Owns the command line of `data`.
#include "cli/command_line/table.hpp"

namespace prime::cli {
namespace {

void add_reads(CLI::App& data, DataArguments& typed) {
  data.add_option("--count", typed.count, "of reads: how many [100000]")->type_name("N")->transform(whole(1, 10'000'000'000));
  data.add_option("--seed", typed.seed, "of reads: all is drawn from it [1]")->type_name("S")->transform(whole(0, UINT64_MAX));
  data.add_option("--length", typed.length, "of reads: mean length of a fragment [150]")->type_name("N")->transform(whole(40, 10'000));
  data.add_option("--spread", typed.spread, "of reads: its standard deviation [40]")->type_name("N")->transform(whole(0, 10'000));
  data.add_option("--errors", typed.errors, "of reads: percent of wrong bases, in the mean; more towards the end [0.4]")
      ->type_name("PERCENT")
      ->check(real(0, 20));
  data.add_option("--from", typed.from, "of reads: percent of each file's bases that are passed over at its beginning [0]")
      ->type_name("PERCENT")
      ->check(real(0, 100));
  data.add_option("--to", typed.to, "of reads: percent of each file's bases, up to which reads come from it [100]")
      ->type_name("PERCENT")
      ->check(real(0, 100));
  data.add_option("--shares", typed.shares, "of reads: of each genome file, as 6,3,1 [as long as each is]")
      ->type_name("LIST")
      ->delimiter(',')
      ->check(real(0, 1e9))
      ->allow_extra_args(false);
  data.add_option("--adapter", typed.adapter, "of reads: what follows a fragment; a read is `--cycles` long then [none]")
      ->type_name("BASES")
      ->check(named());
  data.add_option("--cycles", typed.cycles, "of reads: bases of each, with an adapter [150]")->type_name("N")->transform(whole(40, 10'000));
}

void add_eval(Table& table) {
  auto [eval, typed] = table.add<EvalArguments>("eval", "judge a model of nucleotides beside tables of k-mers", "Data");
  eval.add_option("CHECKPOINT", typed.model, "a checkpoint, or a Hugging Face directory of a Llama or a GPT-2, with its tokenizer")
      ->required()
      ->check(named());
  eval.add_option("MANIFEST", typed.manifest, "whose data the model was trained on: the tables learn from the same reads")
      ->required()
      ->check(named());
  eval.add_option("--held-out", typed.held_out, "FASTA or FASTQ of reads of regions that it was not trained on; may be given several times")
      ->type_name("FILE")
      ->required()
      ->allow_extra_args(false)
      ->check(named());
  eval.add_option("--positive", typed.positive,
                  "sources (`source=` in a read's name, as `data reads` writes it) that are to be told from all others, as phage,virus")
      ->type_name("LIST")
      ->delimiter(',')
      ->allow_extra_args(false);
  eval.add_option("--reads", typed.reads, "of each kind, drawn evenly [2000]")->type_name("N")->transform(whole(20, 1'000'000));
  eval.add_option("--set", typed.overrides, SET_HELP)->type_name("KEY=VALUE")->allow_extra_args(false);
  eval.add_option("--batch", typed.batch, "reads at a time [32]")->type_name("N")->transform(whole(1, 1024));
  eval.add_option("--threads", typed.threads, "of all tensor operations [as many as cores]")->type_name("N")->transform(whole(1, 1024));
  add_device(eval, typed.device);
  eval.footer(
      "Bits per base are those of a read's tokens, the first one's among them, without what ends the read. A table of order k foretells a\n"
      "base by the k before it, on both strands, mixed with all lower orders. Random reads are as long as the held-out ones.");
}

}  // namespace

void add_data(Table& table) {
  auto [data, typed] =
      table.add<DataArguments>("data", "compile what a manifest trains on, look at it, train a tokenizer, or simulate reads", "Data");
  data.add_option("WHAT", typed.what,
                  "build (compile into the cache), stats (what there is, source by source), inspect (one sample, as a model sees it),\n"
                  "tokenizer (`tokenizer train FILE…`: a byte-pair encoding of one's own),\n"
                  "reads (`reads GENOME…`: FASTQ, as a sequencer would give it of these FASTA files)")
      ->required()
      ->type_name("build|stats|inspect|tokenizer|reads")
      ->check(CLI::IsMember({"build", "stats", "inspect", "tokenizer", "reads"}).description(""));
  data.add_option("FILE", typed.files, "run manifest; of `tokenizer`, the word `train` and files to learn from; of `reads`, genomes")
      ->required()
      ->check(named());
  data.add_option("--set", typed.overrides, SET_HELP)->type_name("KEY=VALUE")->allow_extra_args(false);
  data.add_option("--sample", typed.sample, "of inspect: the number of the sample in the run's order [0]")
      ->type_name("N")
      ->transform(whole(0, 1ULL << 62));
  data.add_option("--vocab", typed.vocab, "of tokenizer: ids in all, the special ones included [1024]")
      ->type_name("N")
      ->transform(whole(16, 1U << 20));
  data.add_option("--out", typed.out, "of tokenizer and reads: the file to write")->type_name("FILE")->check(named());
  data.add_option("--format", typed.format,
                  "of tokenizer: what the files hold: text, jsonl, parquet, fasta, fastq [text]; of nucleotides, ids are METAGENE-1's")
      ->type_name("FORMAT")
      ->check(CLI::IsMember({"text", "jsonl", "parquet", "fasta", "fastq"}).description(""));
  data.add_option("--field", typed.field,
                  "of tokenizer: the key of a JSON line, or the column of Parquet, whose text is learned from [text]")
      ->type_name("KEY")
      ->check(named());
  add_reads(data, typed);
  data.footer(
      "Runs of this machine share what is compiled: `local.data_cache` says where it is kept. `up` and `join` compile by themselves.");
  add_eval(table);
}

}  // namespace prime::cli

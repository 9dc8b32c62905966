// Owns the rows of `data`.
#include <type_traits>

#include "runtime/manifest/field_rows.hpp"
#include "runtime/manifest/text_rules.hpp"

namespace prime::manifest {
namespace {

constexpr std::size_t MAX_SOURCES = 64, MAX_SOURCE_PATHS = 1024, MAX_POINTS = 64;
/// A mix counts once what each source gives up to there.
constexpr std::uint64_t LAST_POINT = std::uint64_t{1} << 34;

#define DATA_FORMATS "text", "jsonl", "tokens", "tokens32", "fasta", "fastq", "parquet"
/// A value of the last source; null when there is none.
#define OF_SOURCE(member) [](auto& m) { return m.shared.data.sources.empty() ? nullptr : &m.shared.data.sources.back().member; }
#define CHOICE_OF_SOURCE(member, ...)                                                                               \
  Choice {                                                                                                          \
    {__VA_ARGS__},                                                                                                  \
        [](const Manifest& m) {                                                                                     \
          return m.shared.data.sources.empty() ? 0 : static_cast<std::size_t>(m.shared.data.sources.back().member); \
        },                                                                                                          \
        [](Manifest& m, std::size_t index) {                                                                        \
          auto& value = m.shared.data.sources.back().member;                                                        \
          value = static_cast<std::remove_reference_t<decltype(value)>>(index);                                     \
        }                                                                                                           \
  }

void add_sources(std::vector<Field>& t) {
  t.push_back({"data.sources", "several sources, or one that needs more than `path` says; instead of `source` and `path`",
               Sources{AT(shared.data.sources), MAX_SOURCES}});
  t.push_back({.path = "data.sources.path",
               .meaning = "a file, a glob or a directory, or a list of them; each file but Parquet and our own token shards may be packed "
                          "with gzip or zstd",
               .type = TextList{OF_SOURCE(paths), PATH_RULE, MAX_SOURCE_PATHS, true},
               .derived = "none: it must be there"});
  t.push_back(
      {"data.sources.format",
       "what the files hold: each a document of text; a JSON map in each line; token ids (our own shards, those of llm.c, or 16 bits "
       "each; `tokens32`: 32 bits each); FASTA; FASTQ with Phred+33 scores; Parquet with a text in each row, read by Python's pyarrow (of "
       "`python3`, or of the interpreter that PRIME_PYTHON names)",
       CHOICE_OF_SOURCE(format, DATA_FORMATS)});
  t.push_back({"data.sources.field", "of a JSON map, the key whose text is the document; of Parquet, the column",
               Text{OF_SOURCE(field), ARGUMENT_RULE}});
  t.push_back({"data.sources.weight",
               "share of the samples that come from this source, beside the weights of the others; 0 in all: each by what it has. Points "
               "`{at: SAMPLE, weight: NUMBER}` change it over the run, in a line from each to the next",
               Weights{OF_SOURCE(weight), {.minimum = 0, .maximum = 1e6}, LAST_POINT, MAX_POINTS}});
  t.push_back({"data.sources.on_error", "a broken record ends with an error that names it, or is passed over and counted",
               CHOICE_OF_SOURCE(on_error, "stop", "skip")});
  t.push_back({"data.sources.quality_trim",
               "of reads: cut off their 3' end where its Phred scores are below this (the sum rule of cutadapt); 0: off",
               Integer{OF_SOURCE(quality_trim), 0, 93}});
  t.push_back(
      {"data.sources.adapter",
       "of reads: cut off this sequence and what follows it, also where only its beginning (three bases or more) is there; one base "
       "in ten may differ; empty: off",
       Text{OF_SOURCE(adapter), ADAPTER_RULE}});
  t.push_back({"data.sources.n_limit", "of reads: leave out those with a larger share of N; 100%: off",
               Percentage{OF_SOURCE(n_percent), {.minimum = 0, .maximum = 100}}});
  t.push_back(
      {"data.sources.min_length", "of reads: leave out shorter ones, once they are trimmed", Integer{OF_SOURCE(min_length), 0, 1U << 20}});
  t.push_back({"data.sources.max_length", "of reads: leave out longer ones; 0: off", Integer{OF_SOURCE(max_length), 0, 1U << 20}});
  t.push_back({"data.sources.deduplicate", "of reads: leave out those that are equal to an earlier one of this source",
               Flag{OF_SOURCE(deduplicate)}});
  t.push_back(
      {"data.sources.collapse",
       "of paired reads: make one of two that overlap. `files`: the second of each is in the file with `_R2` or `_2` where the first's "
       "has `_R1` or `_1`; `interleaved`: behind the first",
       CHOICE_OF_SOURCE(collapse, "off", "files", "interleaved")});
}

}  // namespace

void add_data(std::vector<Field>& t) {
  t.push_back({"data", "what is trained on, and what is held out", Section{}});
  t.push_back({"data.source",
               "format of the files of `path`, as `data.sources.format` has it; JSON lines and Parquet have their text in `text`",
               CHOICE(shared.data.source, DATA_FORMATS)});
  t.push_back({"data.path",
               "directory, read with its subfolders and what links lead to, or a file, with the same content on every peer; "
               "`local.data_path` replaces it on one",
               Text{AT(shared.data.path), PATH_RULE}});
  t.push_back({"data.include",
               "glob on the names of files that are found in a directory, without its folder; of text, what is none is passed over",
               Text{AT(shared.data.include), GLOB_RULE}});
  t.push_back({"data.per_file",
               "of text: at most this much of the start of a file, so that no long one dominates; more than `model.context`",
               ByteCount{AT(shared.data.per_file_bytes), 2, 1024 * GIB}});
  add_sources(t);
  t.push_back(
      {"data.draw",
       "of sources with weights, what one is drawn for: each `sample`; or a whole `range`, what one peer trains on in an outer step, "
       "so that peers learn from different sources at the same time, as where each holds data of its own (non-IID). Of as many "
       "sources with equal weights as there are peers, and 2, 4 or 8 of them, each peer has one, as long as none comes or goes",
       CHOICE(shared.data.draw, "sample", "range")});
  t.push_back({"data.tokenizer",
               "how text becomes token ids: `bytes`, or a file. With a token that ends documents they follow one another across files; "
               "without one a sample lies within a file, and what is too short for one is not used",
               WordOrSection{{"bytes"},
                             {"file", "sentencepiece"},
                             [](const Manifest& m) { return m.shared.data.tokenizer.is_bytes(); },
                             [](Manifest& m, std::size_t) { m.shared.data.tokenizer = {}; }}});
  t.push_back(
      {"data.tokenizer.file",
       "a byte-pair encoding as Hugging Face's tokenizer.json has it, of bytes or of characters; what it asks for that is not done "
       "here is refused by name, but for its post-processor and its truncation: documents are packed whole, with nothing before them",
       OptionalText{AT(shared.data.tokenizer.file), PATH_RULE}});
  t.push_back({"data.tokenizer.sentencepiece",
               "a model of SentencePiece (`tokenizer.model`, `spm.model`), of pairs or unigrams, which its own library applies: Python's "
               "sentencepiece (of `python3`, or of the interpreter that PRIME_PYTHON names)",
               OptionalText{AT(shared.data.tokenizer.sentencepiece), PATH_RULE}});
  t.push_back({"data.tokenizer.end_of_document",
               "the token that stands behind each document; absent: the one that a SentencePiece model names as its end, else the first of "
               "[EOS], <|endoftext|>, <|end_of_text|>, </s>, <eos> that the tokenizer has",
               OptionalText{AT(shared.data.tokenizer.end_of_document), ARGUMENT_RULE}});
  t.push_back({"data.document_mask", "attention stays within a document where a sample holds several; needs a token that ends documents",
               Flag{AT(shared.data.document_mask)}});
  t.push_back({"data.held_out",
               "share of the files that is never trained on, chosen by their names; of one file, or of few, the end of each",
               Percentage{AT(shared.data.held_out_percent), {.minimum = 0, .maximum = 50}}});
  t.push_back({"data.held_out_per_file", "at most this much of a held-out file",
               ByteCount{AT(shared.data.held_out_per_file_bytes), 2, 1024 * GIB}});
  t.push_back({"data.held_out_limit", "held-out bytes that are evaluated in all, files in the order of their hash",
               ByteCount{AT(shared.data.held_out_limit_bytes), 2, 1024 * GIB}});
  t.push_back({"data.seed", "of the order of samples", Integer{AT(shared.data.seed), 0, ANY}});
}

}  // namespace prime::manifest

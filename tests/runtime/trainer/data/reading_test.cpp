// Owns the checks of reading: what each format gives, packed or not, and what is said of files that are broken.
#include <random>

#include "tests/runtime/trainer/data/support.hpp"

BOOST_AUTO_TEST_SUITE(data_reading)

namespace {

using namespace prime;
using namespace prime::data;
using namespace prime::data::test;

BOOST_AUTO_TEST_CASE(each_format_gives_its_documents_packed_or_not) {
  const std::vector<std::tuple<DataFormat, std::string, std::string>> cases{
      {DataFormat::Text, "one\ntwo\n", "one\ntwo\n|"},
      {DataFormat::Jsonl, "{\"text\": \"one\"}\r\n\n{\"id\": {\"text\": \"no\"}, \"text\": \"tw\\u006f\", \"more\": [1, {\"text\": 2}]}",
       "one|two|"},
      {DataFormat::Fasta, ">a\nACGT\nacgu\r\n\n>b\n>c\nRYN\n", "ACGTACGT|NNN|"},
      {DataFormat::Fastq, "@a\nACGT\n+\nIIII\n@b\r\nGGN\r\n+b\r\n@@I\r\n\n", "ACGT|GGN|"}};
  for (const auto& [format, text, expected] : cases) {
    const Folder folder;
    folder.write("plain", text);
    folder.write("one.gz", gzipped(text));
    folder.write("one.zst", zstd_packed(text));
    // As bgzip does it: several members, and zeros behind the last.
    folder.write("members.gz", gzipped(text.substr(0, 5)) + gzipped(text.substr(5)) + std::string(20, '\0'));
    folder.write("frames.zst", zstd_packed(text.substr(0, 5)) + zstd_packed(text.substr(5)));
    for (const auto* name : {"plain", "one.gz", "one.zst", "members.gz", "frames.zst"})
      BOOST_TEST_CONTEXT(name << " " << static_cast<int>(format)) {
        const auto corpus = data::test::open(folder, {source_of(folder.path(name), format)}, 2);
        BOOST_REQUIRE(corpus.has_value());
        BOOST_TEST(documents_of(*corpus) == expected);
      }
  }
}

BOOST_AUTO_TEST_CASE(a_source_is_a_file_a_glob_a_directory_or_a_list) {
  const Folder folder;
  folder.write("d/one.txt", "one");
  folder.write("d/two.txt", "two");
  folder.write("d/deep/three.md", "three");
  const auto found = [&](const std::vector<std::string>& paths) {
    auto source = source_of("", DataFormat::Text);
    source.paths = paths;
    const auto corpus = data::test::open(folder, {source}, 1);
    return corpus ? documents_of(*corpus) : corpus.error().detail;
  };
  BOOST_TEST(found({folder.path("d")}) == "three|one|two|");
  BOOST_TEST(found({folder.path("d/*.txt")}) == "one|two|");
  BOOST_TEST(found({folder.path("d/two.txt"), folder.path("d/deep")}) == "two|three|");
  BOOST_TEST(found({folder.path("d/*.gz")}) == folder.path("d/*.gz") + ": matches no file");
}

BOOST_AUTO_TEST_CASE(tokens_come_from_llm_c_from_bare_numbers_and_from_our_own_shards) {
  const Folder folder;
  const std::vector<std::uint16_t> numbers{'a', 'b', 256, 'c', 256, 'd'};
  const std::vector<std::uint32_t> wide(numbers.begin(), numbers.end());
  const std::string bare(reinterpret_cast<const char*>(numbers.data()), numbers.size() * 2),
      bare32(reinterpret_cast<const char*>(wide.data()), wide.size() * 4);
  const auto headed = [](std::int32_t magic, std::int32_t count, const std::string& tokens) {
    std::vector<std::int32_t> header(256);
    header[0] = magic, header[1] = 1, header[2] = count;
    return std::string(reinterpret_cast<const char*>(header.data()), 1024) + tokens;
  };
  folder.write("nano.bin", bare);
  folder.write("wide.bin", bare32);
  folder.write("gpt2.bin", headed(20240520, 6, bare));
  folder.write("llama3.bin", headed(20240801, 6, bare32));
  folder.write("packed.bin.zst", zstd_packed(headed(20240520, 6, bare)));
  const auto read = [&](const std::string& path, DataFormat format) { return data::test::open(folder, {source_of(path, format)}, 1); };
  for (const auto* name : {"nano.bin", "gpt2.bin", "llama3.bin", "packed.bin.zst"})
    BOOST_TEST(documents_of(read(folder.path(name), DataFormat::Tokens).value()) == "ab|c|d", name);
  const auto corpus = read(folder.path("wide.bin"), DataFormat::Tokens32).value();
  BOOST_TEST(documents_of(corpus) == "ab|c|d");
  BOOST_TEST(corpus.sources()[0].counts.documents == 3U);
  // What was compiled is a source itself.
  const auto again = read(corpus.shards()[0].path().string(), DataFormat::Tokens).value();
  BOOST_TEST(documents_of(again) == "ab|c|d");
  BOOST_TEST(again.sources()[0].counts.documents == 3U);
  const auto said = [&](const std::string& content) { return read(folder.write("bad.bin", content), DataFormat::Tokens).error().detail; };
  BOOST_TEST(said(bare + "x").ends_with("bad.bin: ends within a token of 2 bytes"));
  BOOST_TEST(said(headed(20240520, 7, bare)).ends_with("bad.bin: holds 6 tokens, and its header says 7"));
  auto shard = std::ifstream(corpus.shards()[0].path(), std::ios::binary);
  std::string bytes(std::istreambuf_iterator<char>(shard), {});
  BOOST_TEST(said(bytes.substr(0, bytes.size() - 1)).ends_with("bad.bin is not as long as its header says"));
  bytes[64] ^= 1;
  BOOST_TEST(said(bytes).ends_with("bad.bin is damaged: it does not hold what its digest says; copy it again from where it was made"));
  fs::create_directory(folder.root / "three");
  folder.write("three/a.bin", bare.substr(0, 4));
  folder.write("three/b.bin", bare);
  folder.write("three/c.bin", bare);
  BOOST_TEST(data::test::open(folder, {source_of(folder.path("three"), DataFormat::Tokens)}, 1, 256).error().detail ==
             "b.bin: document 1: holds the token 256, and `model.vocab` is 256");
  bytes[64] ^= 1;
  BOOST_TEST(said(gzipped(bytes)).ends_with("bad.bin: is a token shard of ours, packed: unpack it, since it is read where it lies"));
}

struct Bad {
  DataFormat format;
  std::string content;
  std::string said;  ///< behind the path
  std::string kept;  ///< with `on_error: skip`
};

BOOST_AUTO_TEST_CASE(a_broken_file_is_named_with_the_record_and_passed_over_where_that_is_asked_for) {
  const std::string good = "@g\nAC\n+\nII\n", json = "{\"text\": \"ok\"}\n";
  std::string noise;
  for (int i = 0; i < 4000; ++i) noise += "{\"text\": \"" + std::to_string(i * i) + "\"}\n";
  const auto half = [](const std::string& packed) { return packed.substr(0, packed.size() / 2); };
  auto flipped = gzipped(json);
  flipped[flipped.size() - 6] ^= 1;
  const std::string dictionary(2000, 'd'), long_line(17 * MIB, 'A');
  const auto fasta = DataFormat::Fasta, fastq = DataFormat::Fastq, jsonl = DataFormat::Jsonl, text = DataFormat::Text;
  const std::vector<Bad> all{
      {fastq, good + "@b\nACG\n+\nII\n" + good, ":5 (record 2): has 2 scores for 3 bases", "AC|AC|"},
      {fastq, good + "@b\nAC\n+\nI\x07\n" + good, ":5 (record 2): has a score that is none: they are written from `!` to `~` (Phred+33)",
       "AC|AC|"},
      {fastq, good + "@b\nAC\n+\nI\xff\n", ":5 (record 2): has a score that is none: they are written from `!` to `~` (Phred+33)", "AC|"},
      {fastq, good + "@b\nAXC\n+\nIII\n" + good, ":5 (record 2): holds `X`, which is no nucleotide: is it a protein?", "AC|AC|"},
      {fastq, good + std::string("@b\nA\0C\n+\nIII\n", 13), ":5 (record 2): holds byte 0, which is no nucleotide", "AC|"},
      {fastq, good + "@b\nA C\n+\nIII\n", ":5 (record 2): holds byte 32, which is no nucleotide", "AC|"},
      {fastq, good + "@b\nAC\nII\n" + good, ":5 (record 2): has no line `+` behind its sequence: records have four lines", "AC|AC|"},
      {fastq, good + "@b\nAC\n@c\nGG\n+\nII\n", ":5 (record 2): has no line `+` behind its sequence: records have four lines", "AC|GG|"},
      {fastq, good + "@b", ":5 (record 2): breaks off: its sequence is missing", "AC|"},
      {fastq, good + "@b\nAC\n", ":5 (record 2): breaks off: its line `+` is missing", "AC|"},
      {fastq, good + "@b\nAC\n+\n", ":5 (record 2): breaks off: its quality is missing", "AC|"},
      {fastq, "ACGT\n", ":1: begins with `A`, not with `@`: is it FASTQ?", ""},
      {fastq, ">a\nACGT\n" + good, ":1: begins with `>`, not with `@`: is it FASTQ?", "AC|"},
      {fastq, good + "@b\n" + long_line + "\n+\nI\n" + good, ":5 (record 2): has a line of more than 16 MiB", "AC|AC|"},
      {fastq, half(gzipped(good)), ": breaks off within gzip data: the file is not whole", ""},
      {fasta, ">p\nMKVLAA\n>q\nACGT\n", ":2 (record 1): holds `L`, which is no nucleotide: is it a protein?", "ACGT|"},
      {fasta, "ACGT\n>q\nACGT\n", ":1: begins with `A`, not with `>`: is it FASTA?", "ACGT|"},
      {fasta, ">a\nAC\n>b\nA-C\n", ":4 (record 2): holds `-`, which is no nucleotide", "AC|"},
      {fasta, ">a\nAC*\n", ":2 (record 1): holds `*`, which is no nucleotide", ""},
      {fasta, ">a\n" + std::string("A\0", 2) + "\n>b\nGG\n", ":2 (record 1): holds byte 0, which is no nucleotide", "GG|"},
      {fasta, ">a\nGG\n>b\n" + long_line + "\n>c\nTT\n", ":4 (record 2): has a line of more than 16 MiB", "GG|TT|"},
      {jsonl, json + "{\"body\": \"x\"}\n" + json, ":2: has no `text`", "ok|ok|"},
      {jsonl, json + "{\"text\": 7}\n", ":2: has a number as `text`, not a text", "ok|"},
      {jsonl, json + "{\"text\": null}\n", ":2: has null as `text`, not a text", "ok|"},
      {jsonl, json + "{\"text\": [\"x\"]}\n", ":2: has a list as `text`, not a text", "ok|"},
      {jsonl, json + "{\"text\": {\"text\": \"x\"}}\n", ":2: has a map as `text`, not a text", "ok|"},
      {jsonl, json + "[\"text\"]\n", ":2: is a list, not a JSON map with `text`", "ok|"},
      {jsonl, json + "\"text\"\n", ":2: is a text, not a JSON map with `text`", "ok|"},
      {jsonl, json + "{\"text\": \"x\"\n" + json, ":2: is no JSON: it goes wrong at byte 13", "ok|ok|"},
      {jsonl, json + "{\"text\": \"x\"} x\n", ":2: is no JSON: it goes wrong at byte 15", "ok|"},
      {jsonl, json + "{\"text\": \"\xff\"}\n", ":2: is no JSON: it goes wrong at byte 11", "ok|"},
      {jsonl, json + "{\"text\": \"\\ud800\"}\n", ":2: is no JSON: it goes wrong at byte 17", "ok|"},
      {jsonl, json + std::string("{\"text\": \"a\0b\"}\n", 16), ":2: is no JSON: it goes wrong at byte 12", "ok|"},
      {jsonl, json + "{\"text\": \"" + long_line + "\"}\n" + json, ":2: is longer than 16 MiB", "ok|ok|"},
      {jsonl, json + "PAR1\n", ":2: is no JSON: it goes wrong at byte 1", "ok|"},
      {jsonl, half(gzipped(noise)), ": breaks off within gzip data: the file is not whole", {}},
      {jsonl, half(zstd_packed(noise)), ": breaks off within zstd data: the file is not whole", {}},
      {jsonl, flipped, ": damaged gzip data: its checksum is that of other content", {}},
      {jsonl, "\x1f\x8b\x07" + std::string(100, '\xff'), ": damaged gzip data: its header is none", ""},
      {jsonl, "\x28\xb5\x2f\xfd" + std::string(100, '\xff'), ": damaged zstd data: ", ""},
      {text, half(gzipped(noise)), ": breaks off within gzip data: the file is not whole", ""},
      {text, gzipped(std::string("BZh91AY", 7)), ": is bzip2, and no text", ""},
      {text, zstd_packed(std::string("a\0b", 3)), ": is binary, and no text", ""},
  };
  for (const auto& bad : all) {
    const Folder folder;
    auto source = source_of(folder.write("f", bad.content), bad.format);
    const auto place = folder.path("f");
    const auto stopped = data::test::open(folder, {source}, 1);
    BOOST_TEST_CONTEXT(bad.said) {
      BOOST_REQUIRE(!stopped);
      BOOST_TEST((stopped.error().name == ErrorName::DataUnreadable));
      BOOST_TEST(stopped.error().detail.starts_with(place + bad.said), stopped.error().detail);
      source.on_error = OnError::Skip;
      folder.write("good", "{\"text\": \"ok\"}\n");
      const auto skipped = data::test::open(folder, {source, source_of(folder.path("good"), DataFormat::Jsonl)}, 1);
      BOOST_REQUIRE(skipped.has_value());
      BOOST_TEST(skipped->sources()[0].counts.skipped == 1U);
      BOOST_TEST(skipped->sources()[0].first_skipped.starts_with(place + bad.said), skipped->sources()[0].first_skipped);
      if (bad.kept.data() != nullptr && !bad.kept.empty()) BOOST_TEST(documents_of(*skipped) == bad.kept + "ok|");
    }
  }
}

BOOST_AUTO_TEST_CASE(where_unpacking_goes_wrong_the_file_is_named_and_not_the_records_that_this_broke) {
  const Folder folder;
  std::mt19937_64 random(7);
  std::string reads;
  for (int i = 0; i < 20'000; ++i) {
    std::string bases, scores;
    for (int j = 0; j < 60; ++j) bases += "ACGT"[random() % 4], scores += static_cast<char>('#' + random() % 40);
    reads += "@r" + std::to_string(i) + "\n" + bases + "\n+\n" + scores + "\n";
  }
  const auto packed = gzipped(reads);
  std::size_t broke_records = 0;
  for (std::size_t at = packed.size() / 2, tries = 0; tries < 40; at += 37, ++tries) {
    auto damaged = packed;
    damaged[at] = static_cast<char>(damaged[at] ^ 8);
    auto source = source_of(folder.write("f.gz", damaged), DataFormat::Fastq);
    const auto stopped = data::test::open(folder, {source}, 1);
    BOOST_REQUIRE(!stopped);
    BOOST_TEST(stopped.error().detail.starts_with(folder.path("f.gz") + ": damaged gzip data: "), stopped.error().detail);
    source.on_error = OnError::Skip;
    const auto skipped = data::test::open(folder, {source}, 1);
    BOOST_REQUIRE(skipped.has_value());
    const auto& first = skipped->sources()[0].first_skipped;
    BOOST_TEST(first.starts_with(folder.path("f.gz") + ": damaged gzip data: "), first);
    BOOST_TEST(first.ends_with("; nothing behind that is used"), first);
    broke_records += skipped->sources()[0].counts.skipped > 1 ? 1 : 0;
  }
  BOOST_TEST(broke_records > 0U);  // what unpacks to something else, as its checksum tells at the end
}

BOOST_AUTO_TEST_CASE(a_frame_that_is_skipped_may_come_first_in_zstd) {
  const Folder folder;
  const std::string skipped("\x50\x2a\x4d\x18\x04\x00\x00\x00mark", 12);
  const auto path = folder.write("f.zst", skipped + zstd_packed("{\"text\": \"ok\"}\n"));
  BOOST_TEST(documents_of(data::test::open(folder, {source_of(path, DataFormat::Jsonl)}, 1).value()) == "ok|");
}

BOOST_AUTO_TEST_CASE(a_dictionary_that_is_elsewhere_is_named) {
  const Folder folder;
  std::string noise;
  std::vector<std::size_t> sizes;
  for (int i = 0; i < 3000; ++i) {
    const auto piece = "{\"text\": \"" + std::to_string(i * 7919) + "\"}\n";
    noise += piece;
    sizes.push_back(piece.size());
  }
  // A raw prefix has no number; a frame that names a dictionary is written by hand: header with a dictionary id of one byte.
  const std::string frame("\x28\xb5\x2f\xfd\x21\x07\x02\x11\x00\x00ok", 12);
  const auto refused = data::test::open(folder, {source_of(folder.write("f.zst", frame), DataFormat::Jsonl)}, 1);
  BOOST_REQUIRE(!refused);
  BOOST_TEST(refused.error().detail ==
             folder.path("f.zst") + ": its zstd data needs a dictionary, which is not part of the file: pack it without one");
}

BOOST_AUTO_TEST_CASE(what_is_no_file_or_holds_nothing_is_named) {
  const Folder folder;
  fs::create_directory(folder.root / "empty");
  const auto said = [&](const std::string& path, DataFormat format) {
    const auto corpus = data::test::open(folder, {source_of(path, format)}, 1);
    return corpus ? std::string{"opened"} : corpus.error().detail;
  };
  BOOST_TEST(said(folder.path("none"), DataFormat::Jsonl) == folder.path("none") + ": No such file or directory");
  BOOST_TEST(said(folder.path("empty"), DataFormat::Jsonl) ==
             folder.path("empty") + ": `data.include` is *, which matches none of its 0 files");
  for (const auto format : {DataFormat::Text, DataFormat::Jsonl, DataFormat::Fasta, DataFormat::Fastq, DataFormat::Tokens})
    BOOST_TEST(said(folder.write("nothing", ""), format).find("0 samples of 2 bytes") != std::string::npos,
               said(folder.path("nothing"), format));
}

BOOST_AUTO_TEST_CASE(long_texts_and_sequences_are_read_in_pieces_and_are_one_document) {
  const Folder folder;
  std::string text, bases;
  while (text.size() < 3 * MIB) text += "line " + std::to_string(text.size()) + "\n";
  std::string fasta = ">chromosome\n";
  while (bases.size() < 3 * MIB) {
    bases += "ACGTTGCATT";
    fasta += "ACGTTGCATT\n";
  }
  const auto whole = data::test::open(folder, {source_of(folder.write("long.txt", text), DataFormat::Text)}).value();
  BOOST_TEST((documents_of(whole) == text + "|"));
  BOOST_TEST(whole.sources()[0].counts.documents == 1U);
  const auto one_line =
      data::test::open(folder, {source_of(folder.write("line.txt", std::string(20 * MIB, 'x')), DataFormat::Text)}).value();
  BOOST_TEST(one_line.sources()[0].counts.bytes == 20 * MIB);
  const auto chromosome = data::test::open(folder, {source_of(folder.write("long.fa", fasta), DataFormat::Fasta)}).value();
  BOOST_TEST((documents_of(chromosome) == bases + "|"));
  BOOST_TEST(chromosome.sources()[0].counts.documents == 1U);
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()

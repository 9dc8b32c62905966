// Owns a simulated sequencer: genomes in, reads out, as a machine would give them, with errors, scores and adapters. Equal genomes and
// settings give equal reads.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "messages/result.hpp"
#include "runtime/trainer/data/compile.hpp"

namespace prime::data {

struct Sequencing {
  std::uint64_t count = 100'000;
  std::uint64_t seed = 1;
  std::uint32_t length = 150;  ///< of a fragment, in the mean
  std::uint32_t spread = 40;   ///< its standard deviation
  double error_percent = 0.4;  ///< of bases that are read as another one, in the mean
  double from_percent = 0;     ///< of each file, reads come from this part of its bases, in its order
  double to_percent = 100;
  std::string adapter = {};         ///< what follows a fragment; empty: a read ends with its fragment
  std::uint32_t cycles = 150;       ///< with an adapter: bases of each read
  std::vector<double> shares = {};  ///< of the reads, one of each file; empty: each by what it has
};

struct SimulatedRead {
  std::string bases;
  std::string quality;  ///< Phred+33
  std::size_t file = 0;
  std::uint64_t sequence = 0;  ///< in its file, from 1
  std::uint64_t start = 0;     ///< of the fragment in the sequence, from 0
  bool reverse = false;        ///< it is of the other strand
};

/// Genomes in memory.
class Genomes {
 public:
  /// FASTA, packed or not. DataUnreadable names what is broken, DataTooSmall a file without a sequence that is long enough for a fragment.
  static Result<Genomes> open(const std::vector<std::string>& paths, const OnProgress& on_progress = {});

 private:
  friend class Sequencer;
  struct Sequence {
    std::size_t file;
    std::uint64_t number;
    std::string bases;
  };
  std::vector<std::string> paths_;
  std::vector<Sequence> sequences_;  ///< in the order of the files
};

class Sequencer {
 public:
  /// DataTooSmall where no sequence of a file holds a fragment within the part that is asked for. `genomes` outlives it.
  static Result<Sequencer> make(const Genomes& genomes, const Sequencing& settings);
  /// The read of this number, which does not depend on the others.
  [[nodiscard]] SimulatedRead read(std::uint64_t number) const;

 private:
  struct Region {
    std::size_t sequence;
    std::uint64_t begin, end;
  };
  struct File {
    double shares_before;  ///< of reads, of the files up to this one
    std::vector<Region> regions;
    std::vector<std::uint64_t> ends;  ///< bases of the regions up to each
  };
  class Draw;
  Sequencer(const Genomes& genomes, const Sequencing& settings) : genomes_(&genomes), settings_(settings) {}
  [[nodiscard]] std::uint32_t fragment_length(Draw& draw) const;
  void spoil(SimulatedRead& read, Draw& draw) const;

  const Genomes* genomes_;
  Sequencing settings_;
  std::vector<File> files_;
};

/// Four lines of FASTQ; `source` is what the file is called: `@17 source=ecoli sequence=1 start=940 strand=-`.
std::string fastq_record(const SimulatedRead& read, std::uint64_t number, std::string_view source);
/// A file's name without folder and endings, and with nothing in it that a line of FASTQ would not take.
std::string source_name(const std::string& path);

}  // namespace prime::data

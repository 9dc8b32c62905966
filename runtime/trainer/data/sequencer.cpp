// Owns how a read is drawn.
#include "runtime/trainer/data/sequencer.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>

#include "runtime/trainer/data/record_reader.hpp"
#include "runtime/trainer/permutation.hpp"

namespace prime::data {
namespace {

constexpr std::uint64_t MAX_GENOME_BYTES = 16 * GIB;
constexpr std::uint32_t SHORTEST = 40;  ///< of a fragment: a machine gives no shorter ones
constexpr int LOOKED_FOR = 200;         ///< places that are tried for a fragment without N
constexpr std::string_view BASES = "ACGT";

char paired(char base) {
  switch (base) {
    case 'A': return 'T';
    case 'C': return 'G';
    case 'G': return 'C';
    case 'T': return 'A';
    default: return 'N';
  }
}

void reverse_complement(std::string& bases) {
  std::ranges::reverse(bases);
  std::ranges::transform(bases, bases.begin(), paired);
}

}  // namespace

/// Numbers of one read: of integers and sums alone, so that every machine draws the same.
class Sequencer::Draw {
 public:
  Draw(std::uint64_t seed, std::uint64_t number) : state_(trainer::mix(trainer::mix(seed) + number)) {}
  std::uint64_t bits() { return trainer::mix(state_ += 0x9e3779b97f4a7c15ULL); }
  /// In [0, 1).
  double uniform() { return static_cast<double>(bits() >> 11) * 0x1p-53; }
  std::uint64_t below(std::uint64_t bound) { return bits() % bound; }
  /// Nearly normal, of deviation 1: twelve uniform numbers, summed.
  double normal() {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += uniform();
    return sum;
  }
  char base() { return BASES[below(4)]; }

 private:
  std::uint64_t state_;
};

Result<Genomes> Genomes::open(const std::vector<std::string>& paths, const OnProgress& on_progress) {
  Genomes genomes;
  genomes.paths_ = paths;
  std::uint64_t bytes = 0;
  for (std::size_t file = 0; file < paths.size(); ++file) {
    PRIME_TRY(const auto reader, open_fasta(paths[file]));
    Record record;
    bool goes_on = false;
    for (;;) {
      PRIME_TRY(const bool more, reader->next(record));
      if (!more) break;
      if (!record.broken.empty()) return fail(broken_record(paths[file], record, record.broken));
      if (!goes_on) genomes.sequences_.push_back({file, record.number, {}});
      genomes.sequences_.back().bases += record.text;
      goes_on = record.more;
      const auto before = bytes;
      bytes += record.text.size();
      if (on_progress && before / MIB != bytes / MIB) PRIME_CHECK(on_progress({bytes, 0}));
      if (bytes > MAX_GENOME_BYTES)
        return fail(ErrorName::DataUnreadable, paths[file] + ": more than 16 GiB of genomes: take reads from them in parts");
    }
  }
  return genomes;
}

Result<Sequencer> Sequencer::make(const Genomes& genomes, const Sequencing& settings) {
  Sequencer sequencer(genomes, settings);
  sequencer.files_.resize(genomes.paths_.size());
  // A genome loses its end to what is held out; of a file of many genes, which resemble each other, it is whole ones.
  std::vector<std::uint64_t> sizes(genomes.paths_.size()), before(genomes.paths_.size());
  for (const auto& sequence : genomes.sequences_) sizes[sequence.file] += sequence.bases.size();
  for (std::size_t i = 0; i < genomes.sequences_.size(); ++i) {
    const auto& sequence = genomes.sequences_[i];
    const auto share = [&](double percent) {
      return static_cast<std::uint64_t>(static_cast<double>(sizes[sequence.file]) * percent / 100);
    };
    const std::uint64_t first = before[sequence.file], last = before[sequence.file] += sequence.bases.size();
    const std::uint64_t begin = std::max(first, share(settings.from_percent)), end = std::min(last, share(settings.to_percent));
    if (end < begin + SHORTEST) continue;
    auto& file = sequencer.files_[sequence.file];
    file.regions.push_back({i, begin - first, end - first});
    file.ends.push_back((file.ends.empty() ? 0 : file.ends.back()) + (end - begin));
  }
  double sum = 0;
  for (std::size_t i = 0; i < sequencer.files_.size(); ++i) {
    auto& file = sequencer.files_[i];
    if (file.ends.empty())
      return fail(ErrorName::DataTooSmall,
                  genomes.paths_[i] + ": no sequence has " + std::to_string(SHORTEST) + " bases within the part that reads come from");
    file.shares_before = sum += settings.shares.empty() ? static_cast<double>(file.ends.back()) : settings.shares[i];
  }
  return sequencer;
}

std::uint32_t Sequencer::fragment_length(Draw& draw) const {
  const double length = settings_.length + settings_.spread * draw.normal();
  return static_cast<std::uint32_t>(std::clamp(length, double{SHORTEST}, 4.0 * settings_.length));
}

/// Errors grow towards the 3' end, and scores say how likely each was.
void Sequencer::spoil(SimulatedRead& read, Draw& draw) const {
  const double mean = settings_.error_percent / 100;
  read.quality.resize(read.bases.size());
  for (std::size_t i = 0; i < read.bases.size(); ++i) {
    const double place = static_cast<double>(i) / static_cast<double>(read.bases.size());
    const double chance = mean * (0.5 + 1.5 * place * place) * (0.5 + draw.uniform());
    const double score = chance <= 0 ? 40 : std::clamp(std::round(-10 * std::log10(chance)), 2.0, 40.0);
    read.quality[i] = static_cast<char>('!' + static_cast<int>(score));
    if (draw.uniform() >= chance) continue;
    const auto now = BASES.find(read.bases[i]);
    if (now != std::string_view::npos) read.bases[i] = BASES[(now + 1 + draw.below(3)) % 4];
  }
}

SimulatedRead Sequencer::read(std::uint64_t number) const {
  Draw draw(settings_.seed, number);
  SimulatedRead read;
  const double share = draw.uniform() * files_.back().shares_before;
  const auto file = std::ranges::upper_bound(files_, share, {}, &File::shares_before);
  read.file = std::min(static_cast<std::size_t>(file - files_.begin()), files_.size() - 1);
  const auto& [before, regions, ends] = files_[read.file];
  for (int attempt = 0; attempt < LOOKED_FOR; ++attempt) {
    const auto at = draw.below(ends.back());
    const auto index = static_cast<std::size_t>(std::ranges::upper_bound(ends, at) - ends.begin());
    const Region& region = regions[index];
    const auto& sequence = genomes_->sequences_[region.sequence];
    const auto length = std::min<std::uint64_t>(fragment_length(draw), region.end - region.begin);
    read.start = region.begin + draw.below(region.end - region.begin - length + 1);
    read.sequence = sequence.number;
    read.bases = sequence.bases.substr(read.start, length);
    if (read.bases.find('N') == std::string::npos) break;
  }
  read.reverse = draw.below(2) == 1;
  if (read.reverse) reverse_complement(read.bases);
  if (!settings_.adapter.empty()) {
    read.bases += settings_.adapter;
    while (read.bases.size() < settings_.cycles) read.bases += draw.base();
    read.bases.resize(settings_.cycles);
  }
  spoil(read, draw);
  return read;
}

std::string fastq_record(const SimulatedRead& read, std::uint64_t number, std::string_view source) {
  return "@" + std::to_string(number) + " source=" + std::string{source} + " sequence=" + std::to_string(read.sequence) +
         " start=" + std::to_string(read.start) + " strand=" + (read.reverse ? "-" : "+") + "\n" + read.bases + "\n+\n" + read.quality +
         "\n";
}

std::string source_name(const std::string& path) {
  std::string name = std::filesystem::path(path).filename();
  for (const std::string_view ending : {".gz", ".zst", ".fasta", ".fna", ".fa"})
    if (name.ends_with(ending) && name.size() > ending.size()) name.resize(name.size() - ending.size());
  std::ranges::replace_if(
      name, [](char c) { return c <= ' ' || c > '~'; }, '_');
  return name;
}

}  // namespace prime::data

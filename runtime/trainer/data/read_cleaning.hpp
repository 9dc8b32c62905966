// Owns what is done to sequenced reads before they are learned: ends of low quality and adapters are cut off, pairs that overlap become one
// read, and what is short, full of N or there already is left out. Each is off unless the manifest asks for it, and each is counted.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <unordered_set>

#include "messages/ids.hpp"
#include "runtime/trainer/data/source.hpp"

namespace prime::data {

/// More different reads are not told apart: 16 bytes of each are kept.
inline constexpr std::size_t MAX_DIFFERENT_READS = 400'000'000;

struct Read {
  std::string bases;
  std::string quality;  ///< of FASTA none
};

/// How much of the beginning stays when the 3' end is cut where its scores are below `least` in sum (the rule of BWA and cutadapt).
std::size_t quality_cut(std::string_view quality, std::uint32_t least);
/// Where the adapter begins: at most one in ten of its letters differs, and three at least are there; the read's length where it is not.
std::size_t adapter_cut(std::string_view bases, std::string_view adapter);
/// One read of two that overlap in eleven bases or more, of which at most one in ten differs, by the better score then; empty: they do not.
std::string collapse_pair(const Read& forward, const Read& reverse);

class ReadCleaner {
 public:
  ReadCleaner(const Source& source, Counts& counts) : source_(source), counts_(counts) {}

  /// Cuts off what is to go from one read.
  void trim(Read& read) const;
  /// Whether it is learned; of two equal ones the first is.
  Result<bool> keeps(std::string_view bases);
  /// The same of a sequence that came in pieces: so many bases, of which so many are N. Its digest is none of a shorter one.
  Result<bool> keeps(std::uint64_t bases, std::uint64_t unknown, const Digest& digest);

 private:
  struct Hash {
    std::size_t operator()(const Digest& digest) const { return digest.low; }
  };

  const Source& source_;
  Counts& counts_;
  std::unordered_set<Digest, Hash> seen_;
};

}  // namespace prime::data

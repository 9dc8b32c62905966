// Owns reading nucleotides: FASTA, whose sequences span lines, and FASTQ, four lines each. What they hold becomes A, C, G, T and N: small
// letters are masked repeats, U is RNA's T, and the other letters of IUPAC stand for several bases, as N does.
#include <array>
#include <string>

#include "runtime/trainer/data/record_reader.hpp"

namespace prime::data {
namespace {

constexpr char FIRST_SCORE = '!', LAST_SCORE = '~';

constexpr std::array<char, 256> BASE_OF = [] {
  std::array<char, 256> table{};
  for (const char base : {'A', 'C', 'G', 'T', 'N'}) table[static_cast<unsigned char>(base)] = base;
  table['U'] = 'T';
  for (const char several : {'R', 'Y', 'S', 'W', 'K', 'M', 'B', 'D', 'H', 'V'}) table[static_cast<unsigned char>(several)] = 'N';
  for (std::size_t letter = 'A'; letter <= 'Z'; ++letter) table[letter + 32] = table[letter];
  return table;
}();

/// "`L`", "byte 0"
std::string shown_letter(char letter) {
  if (letter >= '!' && letter <= '~') return std::string{"`"} + letter + "`";
  return "byte " + std::to_string(static_cast<unsigned char>(letter));
}

/// Adds the bases of a line; why not, of the first that is none.
std::string add_bases(std::string_view line, std::string& bases) {
  const auto before = bases.size();
  bases.resize(before + line.size());
  char* to = bases.data() + before;
  bool all = true;
  for (std::size_t i = 0; i < line.size(); ++i) {
    to[i] = BASE_OF[static_cast<unsigned char>(line[i])];
    all &= to[i] != 0;
  }
  if (all) return {};
  for (const char letter : line)
    if (BASE_OF[static_cast<unsigned char>(letter)] == 0)
      return "holds " + shown_letter(letter) + ", which is no nucleotide" + (letter >= 'A' && letter <= 'z' ? ": is it a protein?" : "");
  return {};
}

std::string too_long() { return "has a line of more than " + std::to_string(MAX_RECORD_BYTES / MIB) + " MiB"; }

class FastaReader final : public RecordReader {
 public:
  explicit FastaReader(ByteStream stream) : lines_(std::move(stream)) {}

  Result<bool> next(Record& record) override {
    bases_.clear();
    if (std::exchange(pending_header_, false)) name_.swap(next_name_);
    record = {.number = number_, .piece = std::exchange(begun_, false), .name = name_, .line = line_};
    while (true) {
      PRIME_TRY(const auto line, lines_.next());
      const bool header = line && line->text.starts_with('>');
      if (!line || header) {
        const bool ends = std::exchange(open_, header) || !record.broken.empty();
        if (header) {
          ++number_;
          line_ = line->number;
          next_name_.assign(line->text.substr(1));
          pending_header_ = true;
        }
        record.text = bases_;
        if (ends) return true;
        if (!header) return false;
        pending_header_ = false;
        name_.swap(next_name_);
        record.name = name_;
        record.number = number_;
        record.line = line_;
        continue;
      }
      if (!open_ && record.broken.empty()) {
        if (line->text.empty()) continue;
        record.number = number_ = 1;
        record.line = line->number;
        record.broken = "begins with " + shown_letter(line->text.front()) + ", not with `>`: is it FASTA?";
      }
      if (!record.broken.empty()) continue;
      record.broken = line->too_long ? too_long() : add_bases(line->text, bases_);
      if (!record.broken.empty()) record.line = line->number;
      if (!record.broken.empty() || bases_.size() < PIECE_BYTES) continue;
      record.text = bases_;
      record.more = record.piece = begun_ = true;
      return true;
    }
  }

 private:
  LineReader lines_;
  std::string name_, next_name_;
  std::string bases_;
  std::uint64_t number_ = 0;
  std::uint64_t line_ = 0;       ///< of the last header
  bool open_ = false;            ///< its header has been read, and its end has not
  bool begun_ = false;           ///< a part of it was given
  bool pending_header_ = false;  ///< of the next record: it has been read
};

class FastqReader final : public RecordReader {
 public:
  explicit FastqReader(ByteStream stream) : lines_(std::move(stream)) {}

  Result<bool> next(Record& record) override {
    PRIME_TRY(const bool more, find_header());
    if (!more) return false;
    record = {.number = ++number_, .name = name_, .line = line_};
    if (!broken_.empty()) {
      record.broken = std::exchange(broken_, {});
      return true;
    }
    bases_.clear();
    PRIME_TRY(const auto sequence, lines_.next());
    if (!sequence) return broken(record, "breaks off: its sequence is missing");
    record.broken = sequence->too_long ? too_long() : add_bases(sequence->text, bases_);
    PRIME_TRY(const auto plus, lines_.next());
    if (!plus) return broken(record, "breaks off: its line `+` is missing");
    if (!plus->text.starts_with('+')) {
      pending_header_ = plus->text.starts_with('@');
      if (pending_header_) remember_next(*plus);
      return broken(record, "has no line `+` behind its sequence: records have four lines");
    }
    PRIME_TRY(const auto quality, lines_.next());
    if (!quality) return broken(record, "breaks off: its quality is missing");
    if (!record.broken.empty()) return true;
    if (quality->too_long || quality->text.size() != bases_.size())
      return broken(record, "has " + std::to_string(quality->text.size()) + " scores for " + std::to_string(bases_.size()) + " bases");
    bool scores = true;
    for (const char score : quality->text) scores &= score >= FIRST_SCORE && score <= LAST_SCORE;
    if (!scores) return broken(record, "has a score that is none: they are written from `!` to `~` (Phred+33)");
    record.text = bases_;
    record.quality = quality->text;
    return true;
  }

 private:
  static bool broken(Record& record, std::string why) {
    if (record.broken.empty()) record.broken = std::move(why);
    return true;
  }

  /// To behind the next header. What stands before it is one broken record.
  Result<bool> find_header() {
    if (std::exchange(pending_header_, false)) {
      name_.swap(next_name_);
      line_ = next_line_;
      return true;
    }
    while (true) {
      PRIME_TRY(const auto line, lines_.next());
      if (!line) return !broken_.empty();
      if (line->text.starts_with('@')) {
        pending_header_ = !broken_.empty();
        if (pending_header_) return remember_next(*line), true;
        name_.assign(line->text.substr(1));
        line_ = line->number;
        return true;
      }
      if (line->text.empty() || !broken_.empty()) continue;
      line_ = line->number;
      broken_ = "begins with " + shown_letter(line->text.front()) + ", not with `@`: is it FASTQ?";
    }
  }

  void remember_next(const Line& header) {
    next_name_.assign(header.text.substr(1));
    next_line_ = header.number;
  }

  LineReader lines_;
  std::string name_, next_name_;
  std::uint64_t line_ = 0, next_line_ = 0;  ///< of those headers
  std::string bases_;
  std::string broken_;
  std::uint64_t number_ = 0;
  bool pending_header_ = false;  ///< it has been read
};

}  // namespace

Result<std::unique_ptr<RecordReader>> open_fasta(const std::string& path) {
  PRIME_TRY(auto stream, ByteStream::open(path));
  return std::make_unique<FastaReader>(std::move(stream));
}

Result<std::unique_ptr<RecordReader>> open_fastq(const std::string& path) {
  PRIME_TRY(auto stream, ByteStream::open(path));
  return std::make_unique<FastqReader>(std::move(stream));
}

}  // namespace prime::data

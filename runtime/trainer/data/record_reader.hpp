// Owns reading documents out of files, one format each: whole texts, lines of JSON, FASTA, FASTQ and Parquet. A reader knows nothing of
// tokens, and holds one record in memory.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/trainer/data/line_reader.hpp"
#include "runtime/trainer/data/source.hpp"

namespace prime::data {

/// Texts and sequences that are longer come in pieces of about this size.
inline constexpr std::size_t PIECE_BYTES = 1 * MIB;

struct Record {
  std::string_view text = {};     ///< valid until the next call
  std::string_view quality = {};  ///< of FASTQ, one byte for each of `text`
  std::uint64_t number = 0;       ///< from 1, in its file, or in its group
  bool more = false;              ///< the document goes on in the next one
  bool piece = false;             ///< one of several of a document
  std::string_view name = {};     ///< of FASTA and FASTQ, its header without the `>` or `@`
  std::uint64_t group = 0;        ///< of Parquet, from 1: the row group that `number` counts in
  std::uint64_t line = 0;         ///< from 1: where it begins, of FASTA where it is broken; 0: it is not of lines
  std::string broken = {};        ///< why it cannot be used; reading can go on behind it
};

/// Where a text may be cut so that its parts are tokenized as the whole is: before the last line's end that follows no space. 0: nowhere.
std::size_t cut_before_line_end(std::string_view text);

/// For people: "a.jsonl:7", "a.fastq:25 (record 7)"; of Parquet "a.parquet:2/7", row group and row; of a text its path.
std::string place_of(const std::string& path, const Record& record);
/// The error of a broken record, or of the file where its packing is damaged: unpacked, that gives broken records too.
Error broken_record(const std::string& path, const Record& record, const std::string& why, const std::atomic<bool>* stop = nullptr);

class RecordReader {
 public:
  virtual ~RecordReader() = default;
  /// False at the end. An error is one of the file, as a gzip that breaks off: nothing can be read behind it.
  virtual Result<bool> next(Record& record) = 0;
};

struct ReadingOptions {
  DataFormat format = DataFormat::Text;
  std::string field = "text";         ///< of JSON lines and Parquet
  std::uint64_t limit_bytes = ~0ULL;  ///< of a text: no more of its beginning is read
};

/// Of any format but tokens, which are no records (token_file.hpp).
Result<std::unique_ptr<RecordReader>> open_records(const std::string& path, const ReadingOptions& options);
Result<std::unique_ptr<RecordReader>> open_fasta(const std::string& path);
Result<std::unique_ptr<RecordReader>> open_fastq(const std::string& path);
/// ProcessFailed where there is no Python that has pyarrow.
Result<std::unique_ptr<RecordReader>> open_parquet(const std::string& path, const std::string& field);

}  // namespace prime::data

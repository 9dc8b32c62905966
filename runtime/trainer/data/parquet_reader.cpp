// Owns reading a column of texts out of Parquet, which Python's pyarrow does in a process of its own: the format is larger than what is
// wanted of it, and its library larger than all of ours. The process tells each row in a frame, one row group after the other, so that
// neither side holds more than a few rows beside what the file itself packs together.
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "runtime/trainer/data/python_process.hpp"
#include "runtime/trainer/data/record_reader.hpp"

namespace prime::data {
namespace {

/// What a frame tells.
enum class Tag : char { Text = 't', Null = 'n', TooLong = 'l', Broken = 'b', Lacking = 'm', End = 'e' };

/// tag u8, row group u32, row u64, size u32, then so many bytes; little-endian, as every machine of ours is. Rows of a group and groups
/// count from 1; 0: of the file.
constexpr std::size_t FRAME_BYTES = 17;
static_assert(std::endian::native == std::endian::little);

// A batch of few rows bounds what is unpacked at once.
constexpr const char* HELPER = R"(
import struct
path, field, largest = sys.argv[1], sys.argv[2], int(sys.argv[3])
group = 0
def tell(tag, row=0, data=b''):
    sys.stdout.buffer.write(struct.pack('<cIQI', tag, group, row, len(data)) + data)
def end(tag, why=''):
    tell(tag, 0, why.encode('utf-8', 'replace')[:16384])
    sys.stdout.buffer.flush()
    sys.exit(0)
try:
    import pyarrow
    import pyarrow.parquet
except ImportError as error:
    end(b'm', str(error))
try:
    file = pyarrow.parquet.ParquetFile(path, pre_buffer=False, buffer_size=1 << 20, page_checksum_verification=True)
    names = file.schema_arrow.names
    if names.count(field) != 1:
        shown = ', '.join('`%s`' % name for name in names[:20])
        end(b'b', 'has several columns `%s`' % field if field in names else 'has no column `%s`: it has %s' % (field, shown or 'none'))
    kind = file.schema_arrow.field(field).type
    value = kind.value_type if pyarrow.types.is_dictionary(kind) else kind
    if not (pyarrow.types.is_string(value) or pyarrow.types.is_large_string(value)):
        end(b'b', 'has %s as `%s`, not a text' % (kind, field))
    for number in range(file.num_row_groups):
        group, row = number + 1, 0
        for batch in file.iter_batches(batch_size=64, row_groups=[number], columns=[field], use_threads=False):
            for text in batch.column(0).cast(pyarrow.large_string()).cast(pyarrow.large_binary()).to_pylist():
                row += 1
                if text is None: tell(b'n', row)
                elif len(text) > largest: tell(b'l', row)
                else: tell(b't', row, text)
    group = 0
    end(b'e')
except Exception as error:
    end(b'b', reason(error))
)";

class ParquetReader final : public RecordReader {
 public:
  explicit ParquetReader(std::string path, std::string field)
      : path_(path), field_(std::move(field)), python_({std::move(path), "pyarrow", "Parquet is read", "reads this Parquet file"}) {}

  Result<void> start() { return python_.start(HELPER, {path_, field_, std::to_string(MAX_RECORD_BYTES)}); }

  Result<bool> next(Record& record) override {
    if (over_) return false;
    std::array<char, FRAME_BYTES> head{};
    PRIME_CHECK(python_.read(head));
    std::uint32_t group = 0, size = 0;
    record = {};
    std::memcpy(&group, &head[1], sizeof group);
    std::memcpy(&record.number, &head[5], sizeof record.number);
    std::memcpy(&size, &head[13], sizeof size);
    record.group = group;
    const auto tag = static_cast<Tag>(head[0]);
    if (size > (tag == Tag::Text ? MAX_RECORD_BYTES : MAX_COMPLAINT_BYTES)) return fail(python_.ended_early());
    text_.resize(size);
    PRIME_CHECK(python_.read(text_));
    switch (tag) {
      case Tag::Text: record.text = text_; return true;
      case Tag::Null: record.broken = "has null as `" + field_ + "`, not a text"; return true;
      case Tag::TooLong: record.broken = "is longer than " + std::to_string(MAX_RECORD_BYTES / MIB) + " MiB"; return true;
      case Tag::Broken:
        return fail(ErrorName::DataUnreadable, path_ + (group > 0 ? ":" + std::to_string(group) : std::string{}) + ": " + text_);
      case Tag::Lacking: return fail(python_.lacks_library("has none (" + text_ + ")"));
      case Tag::End: over_ = true; return false;
    }
    return fail(python_.ended_early());
  }

 private:
  std::string path_, field_, text_;
  PythonProcess python_;
  bool over_ = false;
};

}  // namespace

Result<std::unique_ptr<RecordReader>> open_parquet(const std::string& path, const std::string& field) {
  auto reader = std::make_unique<ParquetReader>(path, field);
  PRIME_CHECK(reader->start());
  return reader;
}

}  // namespace prime::data

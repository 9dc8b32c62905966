// Owns reading whole texts and lines of JSON.
#include "runtime/trainer/data/record_reader.hpp"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <vector>

#include "messages/assert.hpp"

namespace prime::data {
namespace {

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/// Without the character at its end that is not whole.
std::size_t whole_characters(std::string_view text) {
  for (std::size_t back = 1; back <= 3 && back <= text.size(); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xc0U) == 0x80U) continue;
    const std::size_t needs = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return needs > back ? text.size() - back : text.size();
  }
  return text.size();
}

class TextReader final : public RecordReader {
 public:
  TextReader(ByteStream stream, std::uint64_t limit) : stream_(std::move(stream)), left_(limit) {}

  Result<bool> next(Record& record) override {
    if (over_) return false;
    const bool first = !begun_;
    buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(taken_));
    std::size_t cut = 0;
    for (std::size_t wanted = PIECE_BYTES; cut == 0; wanted *= 2) {
      PRIME_TRY(const bool ended, fill(wanted));
      const std::string_view text(buffer_.data(), buffer_.size());
      cut = ended ? (left_ == 0 ? whole_characters(text) : text.size()) : cut_before_line_end(text);
      if (cut == 0 && !ended && wanted >= MAX_RECORD_BYTES) cut = whole_characters(text);
      over_ = ended;
      if (ended) break;
    }
    taken_ = cut;
    begun_ = true;
    record = {.text = {buffer_.data(), cut}, .number = 1, .more = !over_, .piece = !first || !over_};
    return true;
  }

 private:
  /// Whether that is all there is.
  Result<bool> fill(std::size_t wanted) {
    while (buffer_.size() < wanted && left_ > 0) {
      const auto before = buffer_.size();
      buffer_.resize(before + std::min<std::uint64_t>(wanted - before, left_));
      auto got = stream_.read({buffer_.data() + before, buffer_.size() - before});
      buffer_.resize(before + got.value_or(0));
      if (!got) return fail(std::move(got).error());
      if (*got == 0) return true;
      left_ -= *got;
    }
    return left_ == 0;
  }

  ByteStream stream_;
  std::uint64_t left_;
  std::vector<char> buffer_;
  std::size_t taken_ = 0;
  bool begun_ = false;
  bool over_ = false;
};

/// Takes one text out of a line, wherever it stands, and builds nothing else.
struct FieldSax final : nlohmann::json_sax<nlohmann::json> {
  explicit FieldSax(const std::string& field) : wanted(field) {}
  bool null() override { return other("null"); }
  bool boolean(bool) override { return other("a boolean"); }
  bool number_integer(std::int64_t) override { return other("a number"); }
  bool number_unsigned(std::uint64_t) override { return other("a number"); }
  bool number_float(double, const std::string&) override { return other("a number"); }
  bool binary(nlohmann::json::binary_t&) override { return other("binary"); }
  bool string(std::string& value) override {
    if (!here) return other("a text");
    text = std::move(value);
    found = true;
    here = false;
    return true;
  }
  bool start_object(std::size_t) override { return open("a map"); }
  bool start_array(std::size_t) override { return open("a list"); }
  bool end_object() override { return --depth, true; }
  bool end_array() override { return --depth, true; }
  bool key(std::string& name) override {
    here = depth == 1 && name == wanted;
    return true;
  }
  bool parse_error(std::size_t at, const std::string&, const nlohmann::json::exception&) override {
    problem = "is no JSON: it goes wrong at byte " + std::to_string(at);
    return false;
  }

  bool open(const char* what) {
    if (depth == 0 && std::strcmp(what, "a map") != 0) return other(what);
    if (depth > 0 && !other(what)) return false;
    ++depth;
    return true;
  }
  bool other(const char* what) {
    if (depth > 0 && !here) return true;
    problem = depth == 0 ? "is " + std::string{what} + ", not a JSON map with `" + wanted + "`"
                         : "has " + std::string{what} + " as `" + wanted + "`, not a text";
    return false;
  }

  const std::string& wanted;
  std::string text, problem;
  int depth = 0;
  bool here = false, found = false;
};

class JsonLinesReader final : public RecordReader {
 public:
  JsonLinesReader(ByteStream stream, std::string field) : lines_(std::move(stream)), field_(std::move(field)) {}

  Result<bool> next(Record& record) override {
    while (true) {
      PRIME_TRY(const auto line, lines_.next());
      if (!line) return false;
      if (!line->too_long && line->text.find_first_not_of(" \t") == std::string_view::npos) continue;
      record = {.number = line->number, .line = line->number};
      if (line->too_long) record.broken = "is longer than " + std::to_string(MAX_RECORD_BYTES / MIB) + " MiB";
      else read(line->text, record);
      return true;
    }
  }

 private:
  void read(std::string_view line, Record& record) {
    FieldSax sax(field_);
    const bool parsed = nlohmann::json::sax_parse(line.begin(), line.end(), &sax);
    if (!parsed) record.broken = sax.problem;
    else if (!sax.found) record.broken = "has no `" + field_ + "`";
    text_ = std::move(sax.text);
    record.text = text_;
  }

  LineReader lines_;
  std::string field_;
  std::string text_;
};

}  // namespace

std::size_t cut_before_line_end(std::string_view text) {
  for (std::size_t i = text.size(); i-- > 1;)
    if (text[i] == '\n' && !is_space(text[i - 1])) return i;
  return 0;
}

std::string place_of(const std::string& path, const Record& record) {
  const auto number = std::to_string(record.number);
  if (record.group > 0) return path + ":" + std::to_string(record.group) + "/" + number;
  if (record.line == 0) return path;
  return path + ":" + std::to_string(record.line) + (record.line == record.number ? std::string{} : " (record " + number + ")");
}

Error broken_record(const std::string& path, const Record& record, const std::string& why, const std::atomic<bool>* stop) {
  if (auto whole = check_packing(path, stop); !whole) return std::move(whole).error();
  return Error{ErrorName::DataUnreadable, place_of(path, record) + ": " + why};
}

Result<std::unique_ptr<RecordReader>> open_records(const std::string& path, const ReadingOptions& options) {
  if (options.format == DataFormat::Fasta) return open_fasta(path);
  if (options.format == DataFormat::Fastq) return open_fastq(path);
  if (options.format == DataFormat::Parquet) return open_parquet(path, options.field);
  PRIME_TRY(auto stream, ByteStream::open(path));
  if (options.format == DataFormat::Jsonl) return std::make_unique<JsonLinesReader>(std::move(stream), options.field);
  PRIME_ASSERT(options.format == DataFormat::Text, "tokens are no records");
  return std::make_unique<TextReader>(std::move(stream), options.limit_bytes);
}

}  // namespace prime::data

// Owns going through the files of a source.
#include "runtime/trainer/assay/reads.hpp"

#include "runtime/trainer/data/read_cleaning.hpp"
#include "runtime/trainer/data/record_reader.hpp"
#include "runtime/trainer/data/source_files.hpp"
#include "runtime/trainer/permutation.hpp"

namespace prime::assay {
namespace {

std::string source_in(std::string_view name) {
  constexpr std::string_view KEY = "source=";
  const auto at = name.find(KEY);
  if (at == std::string_view::npos) return {};
  const auto rest = name.substr(at + KEY.size());
  return std::string{rest.substr(0, rest.find_first_of(" \t"))};
}

using Hear = std::function<Result<void>(std::string_view name, std::string_view bases)>;

Result<void> each_in(const std::string& path, const data::Source& source, data::ReadCleaner& cleaner, const Hear& hear) {
  const bool skips = source.on_error == data::OnError::Skip;
  const auto unless_skipped = [&](Error error) -> Result<void> {
    if (skips && error.name == ErrorName::DataUnreadable) return {};
    return fail(std::move(error));
  };
  auto reader = data::open_records(path, {source.format, source.field});
  if (!reader) return unless_skipped(std::move(reader).error());
  data::Record record;
  data::Read read;
  for (;;) {
    auto more = (*reader)->next(record);
    if (!more) return unless_skipped(std::move(more).error());
    if (!*more) return {};
    if (!record.broken.empty()) {
      if (skips) continue;
      return fail(data::broken_record(path, record, record.broken));
    }
    read.bases = record.text;
    read.quality = record.quality;
    cleaner.trim(read);
    PRIME_TRY(const bool kept, cleaner.keeps(read.bases));
    if (kept && !read.bases.empty()) PRIME_CHECK(hear(record.name, read.bases));
  }
}

}  // namespace

void Sample::show(std::string_view name, std::string_view bases) {
  ++shown_;
  if (kept_.size() < size_) {
    kept_.push_back({source_in(name), std::string{bases}});
    return;
  }
  if (const auto at = trainer::mix(shown_) % shown_; at < size_) kept_[at] = {source_in(name), std::string{bases}};
}

Result<void> each_read(const data::Source& source, const std::string& include, const Hear& hear) {
  if (source.format != data::DataFormat::Fasta && source.format != data::DataFormat::Fastq)
    return fail(ErrorName::DataUnreadable, (source.paths.empty() ? "a source" : source.paths.front()) +
                                               ": holds no reads; they are of the formats `fasta` and `fastq`");
  PRIME_TRY(const auto files, data::files_of(source, include));
  data::Counts counts;
  data::ReadCleaner cleaner(source, counts);
  for (const auto& file : files.files) {
    PRIME_CHECK(each_in(file.path, source, cleaner, hear));
    if (file.mate) PRIME_CHECK(each_in(*file.mate, source, cleaner, hear));
  }
  return {};
}

std::vector<NamedRead> random_like(const std::vector<NamedRead>& reads) {
  std::vector<NamedRead> made;
  std::uint64_t counter = 0;
  for (const auto& read : reads) {
    auto& one = made.emplace_back();
    for (std::size_t i = 0; i < read.bases.size(); ++i) one.bases += "ACGT"[trainer::mix(++counter) >> 62];
  }
  return made;
}

}  // namespace prime::assay

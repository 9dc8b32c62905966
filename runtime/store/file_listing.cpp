#include "runtime/store/file_listing.hpp"

#include <array>
#include <charconv>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <system_error>

#include "runtime/store/json_fields.hpp"

namespace prime::store {
namespace fs = std::filesystem;
namespace {

using nlohmann::json;

constexpr std::uint64_t LISTING_BYTES_MAX = 16ULL << 20;
constexpr std::size_t FORMAT_BYTES_MAX = 64;

std::string program() { return "prime " PRIME_VERSION; }

std::optional<Listing> parse_files(const json& object, const ListingRules& rules) {
  const auto files = object.find("files");
  if (files == object.end() || !files->is_array() || files->size() > rules.files_max) return std::nullopt;
  Listing listing;
  for (const auto& file : *files) {
    if (!file.is_object()) return std::nullopt;
    const auto path = text_at(file, "path");
    const auto bytes = count_at(file, "bytes");
    const auto digest = parse_digest(text_at(file, "xxh3_128_chunked").value_or(""));
    if (!path || !bytes || !digest || !rules.may_have(*path)) return std::nullopt;
    if (!listing.emplace(*path, FileSummary{*bytes, *digest}).second) return std::nullopt;
  }
  return rules.is_whole(listing) ? std::optional{std::move(listing)} : std::nullopt;
}

}  // namespace

Error damaged(const fs::path& directory, const std::string& what) {
  return Error{ErrorName::CheckpointCorrupt, directory.string() + ": " + what};
}

std::optional<std::string> foreign_format(const std::string& text, std::string_view ours) {
  const auto object = json::parse(text, nullptr, false);
  const auto schema = object.is_object() ? text_at(object, "schema") : std::nullopt;
  const auto kind = ours.substr(0, ours.find('/') + 1);
  if (!schema || !schema->starts_with(kind) || *schema == ours || schema->size() > FORMAT_BYTES_MAX) return std::nullopt;
  const auto number = std::string_view{*schema}.substr(kind.size());
  return number.empty() || number.find_first_not_of("0123456789") != std::string_view::npos ? std::nullopt : schema;
}

Error of_another_format(const fs::path& directory, std::string_view file, const std::string& format, std::string_view ours,
                        const std::string& writer) {
  return Error{ErrorName::CheckpointFormat, directory.string() + ": " + std::string{file} + " is of format " + format +
                                                (writer.empty() ? "" : ", written by " + writer.substr(0, FORMAT_BYTES_MAX)) +
                                                "; this is " + program() + ", which reads " + std::string{ours}};
}

Result<FileSummary> write_text(const fs::path& path, std::string_view text) {
  PRIME_TRY(auto file, OutputFile::create(path));
  PRIME_CHECK(file.write(text));
  return file.finish();
}

Result<void> write_listing(const fs::path& directory, const ListingRules& rules, const Listing& listing) {
  json files = json::array();
  for (const auto& [path, summary] : listing)
    files.push_back({{"path", path}, {"bytes", summary.bytes}, {"xxh3_128_chunked", to_string(summary.digest)}});
  const json object{{"schema", rules.format}, {"writer", program()}, {"files", std::move(files)}};
  PRIME_CHECK(write_text(directory / rules.path, object.dump(2, ' ', false, json::error_handler_t::replace) + "\n"));
  return {};
}

Result<Listing> read_listing(const fs::path& directory, const ListingRules& rules) {
  const std::string at{rules.path};
  const auto text = read_file(directory / at, LISTING_BYTES_MAX);
  if (!text) return fail(damaged(directory, at + " cannot be read"));
  const auto object = json::parse(*text, nullptr, false);
  if (const auto format = foreign_format(*text, rules.format))
    return fail(of_another_format(directory, at, *format, rules.format, text_at(object, "writer").value_or("")));
  auto listing = object.is_object() && text_at(object, "schema") == rules.format ? parse_files(object, rules) : std::nullopt;
  if (!listing) return fail(damaged(directory, at + " is damaged"));
  return std::move(*listing);
}

Result<void> verify_files(const fs::path& directory, const Listing& listing) {
  std::string damage;
  const auto blame = [&](const std::string& part, std::string_view what) {
    damage += (damage.empty() ? "" : "; ") + part + " " + std::string{what};
  };
  for (const auto& [path, expected] : listing) {
    const auto found = summarize_file(directory / path);
    if (!found) blame(path, "cannot be read");
    else if (found->bytes != expected.bytes) blame(path, "has another size");
    else if (found->digest != expected.digest) blame(path, "has other bytes");
  }
  return damage.empty() ? Result<void>{} : fail(damaged(directory, damage));
}

std::optional<std::uint64_t> bytes_of_complete(const fs::path& directory, const Listing& listing) {
  std::uint64_t total = 0;
  for (const auto& [path, expected] : listing) {
    std::error_code missing;
    if (fs::file_size(directory / path, missing) != expected.bytes || missing) return std::nullopt;
    total += expected.bytes;
  }
  return total;
}

std::string step_name(std::string_view prefix, OuterStep step) {
  std::array<char, 32> number{};
  std::snprintf(number.data(), number.size(), "%06llu", static_cast<unsigned long long>(step.value));
  return std::string{prefix} + number.data();
}

std::optional<OuterStep> parse_step_name(std::string_view prefix, const std::string& name) {
  if (!name.starts_with(prefix)) return std::nullopt;
  OuterStep step;
  std::from_chars(name.data() + prefix.size(), name.data() + name.size(), step.value);
  return step_name(prefix, step) == name ? std::optional{step} : std::nullopt;
}

}  // namespace prime::store

#include "runtime/store/contribution.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "messages/division.hpp"
#include "runtime/store/atomic_file.hpp"
#include "runtime/store/file_listing.hpp"
#include "runtime/store/json_fields.hpp"
#include "runtime/store/safetensors.hpp"

namespace prime::store {
namespace fs = std::filesystem;
namespace {

using nlohmann::json;

constexpr std::string_view VERSION_PREFIX = "version-";
constexpr const char* CONTRIBUTION_PATH = "contribution.json";
constexpr const char* BROUGHT_PATH = "contribution.safetensors";
constexpr const char* VALUES = "contribution";
constexpr const char* RESIDUAL = "residual";
constexpr std::uint64_t CONTRIBUTION_BYTES_MAX = 64ULL << 20;  // some 100 bytes for each member, and radii of each tensor

constexpr ListingRules CONTRIBUTION_RULES{
    CONTRIBUTION_FORMAT, "listing.json", 2, [](const std::string& path) { return path == CONTRIBUTION_PATH || path == BROUGHT_PATH; },
    [](const Listing& listing) { return listing.contains(CONTRIBUTION_PATH) && listing.contains(BROUGHT_PATH); }};

std::string contribution_text(const KeptContribution& kept) {
  auto members = json::array();
  for (const auto& [peer, weight] : kept.contributions) members.push_back({{"peer", to_string(peer)}, {"weight", weight}});
  auto radii = json::array();
  for (const auto& radius : kept.radii) radii.push_back(radius.value());
  const json object{{"schema", CONTRIBUTION_FORMAT},
                    {"run", kept.run},
                    {"peer", to_string(kept.peer)},
                    {"fragment", kept.round.fragment},
                    {"version", kept.round.version.value},
                    {"operation", kept.operation},
                    {"contributions", std::move(members)},
                    {"ring", kept.ring},
                    {"radii", std::move(radii)}};
  return object.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

std::optional<std::vector<Contribution>> parse_contributions(const json& object) {
  const auto members = object.find("contributions");
  if (members == object.end() || !members->is_array()) return std::nullopt;
  std::vector<Contribution> parsed;
  for (const auto& member : *members) {
    if (!member.is_object()) return std::nullopt;
    const auto peer = parse_peer_id(text_at(member, "peer").value_or(""));
    const auto weight = count_at(member, "weight");
    if (!peer || !weight) return std::nullopt;
    parsed.push_back({*peer, *weight});
  }
  return parsed;
}

std::optional<std::vector<Real>> parse_radii(const json& object) {
  const auto radii = object.find("radii");
  if (radii == object.end() || !radii->is_array()) return std::nullopt;
  std::vector<Real> parsed;
  for (const auto& radius : *radii) {
    if (!radius.is_number()) return std::nullopt;
    parsed.emplace_back(radius.get<double>());
  }
  return parsed;
}

std::optional<KeptContribution> parse_contribution(const std::string& text) {
  const auto object = json::parse(text, nullptr, false);
  if (!object.is_object() || text_at(object, "schema") != CONTRIBUTION_FORMAT) return std::nullopt;
  const auto run = text_at(object, "run");
  const auto peer = parse_peer_id(text_at(object, "peer").value_or(""));
  const auto fragment = count_at(object, "fragment");
  const auto version = count_at(object, "version");
  const auto operation = text_at(object, "operation");
  const auto ring = flag_at(object, "ring");
  auto members = parse_contributions(object);
  auto radii = parse_radii(object);
  if (!run || !peer || !fragment || *fragment >= MAX_FRAGMENTS || !version || !operation || !ring || !members || !radii)
    return std::nullopt;
  return KeptContribution{
      *run, *peer, {static_cast<std::uint32_t>(*fragment), OuterStep{*version}}, *operation, *std::move(members), *ring, *std::move(radii)};
}

Result<LoadedContribution> read_brought(const fs::path& path, KeptContribution of) {
  LoadedContribution loaded{std::move(of), {}, {}};
  PRIME_TRY(const auto file, SafetensorsReader::open(path / BROUGHT_PATH));
  for (const auto& tensor : file.tensors()) {
    const bool known = tensor.name == VALUES || tensor.name == RESIDUAL;
    if (!known || !tensor.foreign.empty() || tensor.type != DataType::F32)
      return fail(damaged(path, "`" + tensor.name + "` is no part of a contribution"));
    auto& into = tensor.name == VALUES ? loaded.values : loaded.residual;
    into.resize(tensor.elements);
    PRIME_CHECK(file.read(tensor, into));
  }
  if (loaded.values.empty() || (!loaded.residual.empty() && loaded.residual.size() != loaded.values.size()))
    return fail(damaged(path, std::string{BROUGHT_PATH} + " holds no contribution, or another count of residuals"));
  return loaded;
}

}  // namespace

fs::path contribution_path(const fs::path& directory, const RoundKey& round) {
  return directory / ("fragment-" + std::to_string(round.fragment)) / step_name(VERSION_PREFIX, round.version);
}

Result<void> write_contribution(const fs::path& directory, const KeptContribution& kept, std::span<const float> values,
                                std::span<const float> residual) {
  PRIME_CHECK(make_directory(directory));
  PRIME_TRY(auto transaction, DirectoryTransaction::begin(contribution_path(directory, kept.round)));
  std::vector<NamedTensor> tensors{{VALUES, {static_cast<std::int64_t>(values.size())}, values}};
  if (!residual.empty()) tensors.push_back({RESIDUAL, {static_cast<std::int64_t>(residual.size())}, residual});
  Listing listing;
  PRIME_TRY(listing[BROUGHT_PATH], write_safetensors(transaction.staging() / BROUGHT_PATH, tensors));
  PRIME_TRY(listing[CONTRIBUTION_PATH], write_text(transaction.staging() / CONTRIBUTION_PATH, contribution_text(kept)));
  PRIME_CHECK(write_listing(transaction.staging(), CONTRIBUTION_RULES, listing));
  return transaction.commit();
}

std::optional<KeptContribution> peek_contribution(const fs::path& path) {
  const auto text = read_file(path / CONTRIBUTION_PATH, CONTRIBUTION_BYTES_MAX);
  return text ? parse_contribution(*text) : std::nullopt;
}

Result<LoadedContribution> read_contribution(const fs::path& path) {
  PRIME_TRY(const auto listing, read_listing(path, CONTRIBUTION_RULES));
  PRIME_CHECK(verify_files(path, listing));
  auto of = peek_contribution(path);
  if (!of) return fail(damaged(path, std::string{CONTRIBUTION_PATH} + " says not what was brought to which round"));
  return read_brought(path, *std::move(of));
}

}  // namespace prime::store

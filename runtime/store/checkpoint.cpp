// Owns the files of a checkpoint: what is in which, and how damage is told.
#include "runtime/store/checkpoint.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <system_error>

#include "messages/membership.hpp"
#include "messages/tensor_shape.hpp"
#include "runtime/store/atomic_file.hpp"
#include "runtime/store/file_listing.hpp"
#include "runtime/store/json_fields.hpp"

namespace prime::store {
namespace fs = std::filesystem;
namespace {

using nlohmann::json;

constexpr std::string_view STATE_SCHEMA = "prime.state/3";
constexpr std::string_view STATELESS_SCHEMA = "prime.state/2";    ///< read as well; it knows neither the members nor what was given back
constexpr std::string_view DATED_STATE_SCHEMA = "prime.state/1";  ///< likewise, and its digest covered the counters, too
constexpr const char* STATE_PATH = "prime/state.json";
constexpr const char* MOMENTUM_PATH = "prime/outer_momentum.safetensors";
constexpr const char* MANIFEST_PATH = "prime/manifest.yaml";
constexpr const char* MODEL_PATH = "model.safetensors";
constexpr std::uint64_t TEXT_BYTES_MAX = 16ULL << 20;
/// Those of the trainer, and the four that are always called alike.
constexpr std::size_t FILES_MAX = EXPORT_FILES_MAX + 4;

constexpr std::string_view STEP_PREFIX = "step-";

bool is_listed_path(const std::string& path) {
  return path == STATE_PATH || path == MOMENTUM_PATH || path == MANIFEST_PATH || path == MODEL_PATH || is_export_name(path);
}

constexpr ListingRules CHECKPOINT_RULES{
    CHECKPOINT_FORMAT, "prime/checkpoint.json", FILES_MAX, is_listed_path,
    [](const Listing& listing) { return listing.contains(MODEL_PATH) && listing.contains(STATE_PATH) && listing.contains(MANIFEST_PATH); }};

std::string to_text(const json& value) { return value.dump(2, ' ', false, json::error_handler_t::replace) + "\n"; }

/// A checkpoint in the making, with the folder that each has.
Result<DirectoryTransaction> begin_checkpoint(const fs::path& target) {
  PRIME_TRY(auto transaction, DirectoryTransaction::begin(target));
  std::error_code error;
  fs::create_directory(transaction.staging() / "prime", error);
  if (error) return fail(storage_error("create", transaction.staging() / "prime", error.value()));
  return transaction;
}

std::vector<NamedTensor> together(std::span<const NamedTensor> parameters, std::span<const NamedTensor> copied) {
  std::vector<NamedTensor> all(parameters.begin(), parameters.end());
  all.insert(all.end(), copied.begin(), copied.end());
  return all;
}

Result<Listing> write_files(const fs::path& staging, const CheckpointContent& content) {
  Listing listing;
  PRIME_TRY(listing[MODEL_PATH], write_safetensors(staging / MODEL_PATH, together(content.parameters, content.copied)));
  if (!content.momentum.empty()) {
    PRIME_TRY(listing[MOMENTUM_PATH], write_safetensors(staging / MOMENTUM_PATH, content.momentum));
  }
  PRIME_TRY(listing[STATE_PATH], write_text(staging / STATE_PATH, format_state(content.state)));
  PRIME_TRY(listing[MANIFEST_PATH], write_text(staging / MANIFEST_PATH, content.manifest));
  for (const auto& [name, text] : content.export_files) {
    if (!is_export_name(name)) return fail(ErrorName::TrainerProtocol, "an exported file cannot be called `" + name.substr(0, 128) + "`");
    PRIME_TRY(listing[name], write_text(staging / name, text));
  }
  return listing;
}

/// Some tensors of a file, of f32, one after the other.
Result<std::vector<float>> read_flat(const fs::path& checkpoint, const SafetensorsReader& file, std::span<const TensorEntry> tensors) {
  if (std::any_of(tensors.begin(), tensors.end(),
                  [](const TensorEntry& tensor) { return tensor.type != DataType::F32 || !tensor.foreign.empty(); }))
    return fail(damaged(checkpoint, "holds tensors that are not of f32"));
  const auto add = [](std::uint64_t sum, const TensorEntry& tensor) { return sum + tensor.elements; };
  std::vector<float> values(std::accumulate(tensors.begin(), tensors.end(), std::uint64_t{0}, add));
  auto rest = std::span{values};
  for (const auto& tensor : tensors) {
    PRIME_CHECK(file.read(tensor, rest.first(tensor.elements)));
    rest = rest.subspan(tensor.elements);
  }
  return values;
}

Result<std::vector<std::byte>> read_bytes(const fs::path& checkpoint, const SafetensorsReader& file, std::span<const TensorEntry> tensors) {
  std::uint64_t bytes = 0;
  for (const auto& tensor : tensors) {
    if (!tensor.foreign.empty()) return fail(damaged(checkpoint, "holds copied tensors of a type that none has"));
    bytes += tensor.size_bytes();
  }
  std::vector<std::byte> values(bytes);
  auto rest = std::span{values};
  for (const auto& tensor : tensors) {
    PRIME_CHECK(file.read_bytes(tensor, 0, rest.first(tensor.size_bytes())));
    rest = rest.subspan(tensor.size_bytes());
  }
  return values;
}

bool parse_fragments(const json& object, Division& division, std::vector<OuterStep>& versions, std::vector<Digest>& digests) {
  if (!object.is_object()) return false;
  const auto count = count_at(object, "count");
  const auto pattern = parse_pattern(text_at(object, "pattern").value_or(""));
  const auto listed = object.find("versions");
  if (!count || *count == 0 || *count > MAX_FRAGMENTS || !pattern || listed == object.end() || !listed->is_array() ||
      listed->size() != *count)
    return false;
  division = {static_cast<std::uint32_t>(*count), *pattern};
  for (const auto& version : *listed) {
    if (!version.is_number_unsigned()) return false;
    versions.emplace_back(version.get<std::uint64_t>());
  }
  const auto told = object.value("digests", json::array());
  if (!told.is_array() || (!told.empty() && told.size() != *count)) return false;
  for (const auto& each : told) {
    const auto digest = each.is_string() ? parse_digest(each.get<std::string>()) : std::nullopt;
    if (!digest) return false;
    digests.push_back(*digest);
  }
  return true;
}

bool parse_given_back(const json& object, std::vector<std::uint64_t>& given_back) {
  if (!object.contains("given_back")) return true;
  const auto& listed = object["given_back"];
  if (!listed.is_array() || listed.size() > MAX_PEERS) return false;
  for (const auto& first : listed) {
    if (!first.is_number_unsigned()) return false;
    given_back.push_back(first.get<std::uint64_t>());
  }
  return true;
}

bool parse_members(const json& object, std::vector<CheckpointMember>& members) {
  if (!object.contains("members")) return true;
  const auto& listed = object["members"];
  if (!listed.is_array() || listed.size() > MAX_PEERS) return false;
  for (const auto& member : listed) {
    const auto peer = member.is_object() ? parse_peer_id(text_at(member, "peer").value_or("")) : std::nullopt;
    if (!peer) return false;
    members.push_back({*peer, text_at(member, "name").value_or("")});
  }
  return true;
}

bool same_layout(std::span<const TensorEntry> a, std::span<const TensorEntry> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const TensorEntry& x, const TensorEntry& y) { return x.name == y.name && x.shape == y.shape; });
}

}  // namespace

std::string format_state(const CheckpointState& state) {
  json object{{"schema", state.dated ? DATED_STATE_SCHEMA : STATE_SCHEMA},
              {"run", state.run},
              {"revision", state.revision.value},
              {"outer_step", state.outer_step.value},
              {"next_sample", state.next_sample},
              {"tokens", state.tokens},
              {"state", to_string(state.state)}};
  if (state.shards > 1) object.update({{"shard", state.shard}, {"shards", state.shards}});
  if (state.division.count > 1) {
    object["fragments"] = {{"count", state.division.count}, {"pattern", to_string(state.division.pattern)}, {"versions", json::array()}};
    for (const auto version : state.versions) object["fragments"]["versions"].push_back(version.value);
    for (const auto& digest : state.digests) object["fragments"]["digests"].push_back(to_string(digest));
  }
  if (!state.given_back.empty()) object["given_back"] = state.given_back;
  if (state.private_state) object["private_state"] = true;
  if (state.copied > 0) object["copied_tensors"] = state.copied;
  if (!state.members.empty()) {
    object["members"] = json::array();
    for (const auto& member : state.members) object["members"].push_back({{"peer", to_string(member.peer)}, {"name", member.name}});
  }
  if (state.data.told())
    object["data"] = {{"digest", to_string(state.data.digest)}, {"summary", state.data.summary}, {"listing", state.data.listing}};
  return to_text(object);
}

std::optional<CheckpointState> parse_state(const std::string& text) {
  const auto object = json::parse(text, nullptr, false);
  if (!object.is_object()) return std::nullopt;
  const bool dated = text_at(object, "schema") == DATED_STATE_SCHEMA;
  if (!dated && text_at(object, "schema") != STATELESS_SCHEMA && text_at(object, "schema") != STATE_SCHEMA) return std::nullopt;
  const auto run = text_at(object, "run");
  const auto revision = count_at(object, "revision");
  const auto outer_step = count_at(object, "outer_step");
  const auto next_sample = count_at(object, "next_sample");
  const auto tokens = count_at(object, "tokens");
  const auto digest = parse_digest(text_at(object, "state").value_or(""));
  if (!run || !revision || !outer_step || !next_sample || !tokens || !digest) return std::nullopt;
  // Only what is a part of a model says so.
  const auto shard = object.contains("shard") ? count_at(object, "shard") : 0;
  const auto shards = object.contains("shards") ? count_at(object, "shards") : 1;
  if (!shard || !shards || *shards > MAX_SHARDS || *shard >= *shards) return std::nullopt;
  Division division;
  std::vector<OuterStep> versions;
  std::vector<Digest> digests;
  if (object.contains("fragments") && !parse_fragments(object["fragments"], division, versions, digests)) return std::nullopt;
  const auto copied = object.contains("copied_tensors") ? count_at(object, "copied_tensors") : 0;
  if (!copied || *copied > MODEL_LIMITS.tensors) return std::nullopt;
  std::vector<std::uint64_t> given_back;
  std::vector<CheckpointMember> members;
  if (!parse_given_back(object, given_back) || !parse_members(object, members)) return std::nullopt;
  const auto data = object.value("data", json::object());
  const auto data_digest = data.is_object() ? parse_digest(text_at(data, "digest").value_or("")) : std::nullopt;
  return CheckpointState{*run,
                         Revision{*revision},
                         OuterStep{*outer_step},
                         *next_sample,
                         *tokens,
                         *digest,
                         static_cast<std::uint32_t>(*shard),
                         static_cast<std::uint32_t>(*shards),
                         division,
                         std::move(versions),
                         data_digest
                             ? DataIdentity{*data_digest, text_at(data, "summary").value_or(""), text_at(data, "listing").value_or("")}
                             : DataIdentity{},
                         dated,
                         std::move(given_back),
                         std::move(members),
                         flag_at(object, "private_state").value_or(false),
                         static_cast<std::uint32_t>(*copied),
                         std::move(digests)};
}

Result<fs::path> write_checkpoint(const fs::path& directory, const CheckpointContent& content) {
  auto target = directory / step_name(STEP_PREFIX, content.state.outer_step);
  PRIME_TRY(auto transaction, begin_checkpoint(target));
  PRIME_TRY(const auto listing, write_files(transaction.staging(), content));
  PRIME_CHECK(write_listing(transaction.staging(), CHECKPOINT_RULES, listing));
  PRIME_CHECK(transaction.commit());
  return target;
}

Result<void> rehearse_checkpoint(const fs::path& directory, OuterStep step, std::span<const NamedTensor> parameters,
                                 std::span<const NamedTensor> copied) {
  std::error_code ignored;
  const bool there = fs::exists(directory, ignored);
  const auto able = [&]() -> Result<void> {
    PRIME_TRY(const auto transaction, begin_checkpoint(directory / step_name(STEP_PREFIX, step)));
    PRIME_CHECK(rehearse_safetensors(transaction.staging() / MODEL_PATH, together(parameters, copied)));
    return rehearse_safetensors(transaction.staging() / MOMENTUM_PATH, parameters);
  }();
  if (!there) fs::remove(directory, ignored);  // empty as it is again
  return able;
}

Result<CheckpointState> verify_checkpoint(const fs::path& checkpoint) {
  PRIME_TRY(const auto listing, read_listing(checkpoint, CHECKPOINT_RULES));
  PRIME_CHECK(verify_files(checkpoint, listing));
  PRIME_TRY(const auto text, read_file(checkpoint / STATE_PATH, TEXT_BYTES_MAX));
  auto state = parse_state(text);
  if (state) return std::move(*state);
  if (const auto format = foreign_format(text, STATE_SCHEMA))
    return fail(of_another_format(checkpoint, STATE_PATH, *format, STATE_SCHEMA, ""));
  return fail(damaged(checkpoint, std::string{STATE_PATH} + " is no state of a run"));
}

Result<std::string> read_manifest(const fs::path& checkpoint) { return read_file(checkpoint / MANIFEST_PATH, TEXT_BYTES_MAX); }

Result<LoadedCheckpoint> load_checkpoint(const fs::path& checkpoint) {
  LoadedCheckpoint loaded;
  PRIME_TRY(loaded.state, verify_checkpoint(checkpoint));
  PRIME_TRY(loaded.manifest, read_manifest(checkpoint));
  PRIME_TRY(const auto model, SafetensorsReader::open(checkpoint / MODEL_PATH));
  if (model.tensors().size() < loaded.state.copied) return fail(damaged(checkpoint, "the model lacks its copied tensors"));
  const auto behind = model.tensors().end() - loaded.state.copied;
  loaded.layout.assign(model.tensors().begin(), behind);
  loaded.copied.assign(behind, model.tensors().end());
  PRIME_TRY(loaded.parameters, read_flat(checkpoint, model, loaded.layout));
  PRIME_TRY(loaded.copied_bytes, read_bytes(checkpoint, model, loaded.copied));
  PRIME_TRY(const auto listing, read_listing(checkpoint, CHECKPOINT_RULES));
  if (!listing.contains(MOMENTUM_PATH)) return loaded;
  PRIME_TRY(const auto momentum, SafetensorsReader::open(checkpoint / MOMENTUM_PATH));
  if (!same_layout(momentum.tensors(), loaded.layout)) return fail(damaged(checkpoint, "the momentum is of another model"));
  PRIME_TRY(loaded.momentum, read_flat(checkpoint, momentum, momentum.tensors()));
  return loaded;
}

std::vector<CheckpointEntry> list_checkpoints(const fs::path& directory) {
  std::vector<CheckpointEntry> entries;
  std::error_code error;
  for (fs::directory_iterator entry{directory, error}; !error && entry != fs::directory_iterator{}; entry.increment(error)) {
    const auto step = parse_step_name(STEP_PREFIX, entry->path().filename().string());
    if (!step) continue;
    const auto listing = read_listing(entry->path(), CHECKPOINT_RULES);
    if (!listing) continue;
    if (const auto bytes = bytes_of_complete(entry->path(), *listing)) entries.push_back({*step, entry->path(), *bytes});
  }
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.outer_step < b.outer_step; });
  return entries;
}

Result<std::vector<fs::path>> prune_checkpoints(const fs::path& directory, std::size_t keep) {
  auto entries = list_checkpoints(directory);
  entries.resize(entries.size() - std::min(entries.size(), std::max<std::size_t>(keep, 1)));
  std::vector<fs::path> removed;
  for (const auto& entry : entries) {
    PRIME_CHECK(remove_directory_atomically(entry.path));
    removed.push_back(entry.path);
  }
  return removed;
}

}  // namespace prime::store

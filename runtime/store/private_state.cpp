#include "runtime/store/private_state.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <system_error>

#include "runtime/store/atomic_file.hpp"
#include "runtime/store/file_listing.hpp"
#include "runtime/store/json_fields.hpp"

namespace prime::store {
namespace fs = std::filesystem;
namespace {

using nlohmann::json;

constexpr std::string_view PRIVATE_PREFIX = "private-";
constexpr const char* PRIVATE_PATH = "private.json";
constexpr const char* TENSORS_PATH = "private.safetensors";
constexpr std::uint64_t PRIVATE_BYTES_MAX = 1ULL << 20;

constexpr ListingRules PRIVATE_RULES{PRIVATE_STATE_FORMAT, "listing.json", 2,
                                     [](const std::string& path) { return path == PRIVATE_PATH || path == TENSORS_PATH; },
                                     [](const Listing& listing) { return listing.contains(PRIVATE_PATH); }};

std::string private_text(const PrivateState& state) {
  const json object{{"schema", PRIVATE_STATE_FORMAT},
                    {"run", state.run},
                    {"peer", to_string(state.peer)},
                    {"revision", state.revision.value},
                    {"outer_step", state.outer_step.value},
                    {"state", to_string(state.state)},
                    {"layout", to_string(state.layout)},
                    {"recorded", state.recorded},
                    {"late", state.late}};
  return object.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

std::optional<PrivateState> parse_private(const std::string& text) {
  const auto object = json::parse(text, nullptr, false);
  if (!object.is_object()) return std::nullopt;
  const auto peer = parse_peer_id(text_at(object, "peer").value_or(""));
  const auto revision = count_at(object, "revision");
  const auto outer_step = count_at(object, "outer_step");
  const auto state = parse_digest(text_at(object, "state").value_or(""));
  const auto layout = parse_digest(text_at(object, "layout").value_or(""));
  const auto recorded = flag_at(object, "recorded");
  const auto late = flag_at(object, "late");
  if (text_at(object, "schema") != PRIVATE_STATE_FORMAT || !peer || !revision || !outer_step || !state || !layout || !recorded || !late)
    return std::nullopt;
  return PrivateState{
      text_at(object, "run").value_or(""), *peer, Revision{*revision}, OuterStep{*outer_step}, *state, *layout, *recorded, *late};
}

}  // namespace

fs::path private_state_path(const fs::path& directory, OuterStep step) { return directory / step_name(PRIVATE_PREFIX, step); }

Result<fs::path> write_private_state(const fs::path& directory, const PrivateState& state, std::span<const NamedTensor> tensors) {
  auto target = private_state_path(directory, state.outer_step);
  PRIME_TRY(auto transaction, DirectoryTransaction::begin(target));
  Listing listing;
  if (state.recorded || !tensors.empty()) {
    PRIME_TRY(listing[TENSORS_PATH], write_safetensors(transaction.staging() / TENSORS_PATH, tensors));
  }
  PRIME_TRY(listing[PRIVATE_PATH], write_text(transaction.staging() / PRIVATE_PATH, private_text(state)));
  PRIME_CHECK(write_listing(transaction.staging(), PRIVATE_RULES, listing));
  PRIME_CHECK(transaction.commit());
  return target;
}

std::optional<PrivateState> peek_private_state(const fs::path& path) {
  const auto text = read_file(path / PRIVATE_PATH, PRIVATE_BYTES_MAX);
  return text ? parse_private(*text) : std::nullopt;
}

Result<PrivateState> verify_private_state(const fs::path& path) {
  PRIME_TRY(const auto listing, read_listing(path, PRIVATE_RULES));
  PRIME_CHECK(verify_files(path, listing));
  auto state = peek_private_state(path);
  if (!state || (state->recorded && !listing.contains(TENSORS_PATH)))
    return fail(damaged(path, std::string{PRIVATE_PATH} + " says not what a trainer kept for itself"));
  return *std::move(state);
}

Result<void> read_private_tensors(const fs::path& path, const std::function<std::span<std::byte>(const TensorEntry&)>& place) {
  if (std::error_code ignored; !fs::exists(path / TENSORS_PATH, ignored)) return {};  // verified: there are none
  PRIME_TRY(const auto file, SafetensorsReader::open(path / TENSORS_PATH));
  for (const auto& tensor : file.tensors()) {
    const auto into = tensor.foreign.empty() ? place(tensor) : std::span<std::byte>{};
    if (into.size() != tensor.size_bytes() || !tensor.foreign.empty())
      return fail(damaged(path, "`" + tensor.name + "` is no private tensor of this trainer"));
    PRIME_CHECK(file.read_bytes(tensor, 0, into));
  }
  return {};
}

Result<void> prune_private_states(const fs::path& directory, std::size_t keep) {
  std::vector<std::pair<OuterStep, fs::path>> all;
  std::error_code error;
  for (fs::directory_iterator entry{directory, error}; !error && entry != fs::directory_iterator{}; entry.increment(error))
    if (const auto step = parse_step_name(PRIVATE_PREFIX, entry->path().filename().string())) all.emplace_back(*step, entry->path());
  std::ranges::sort(all);
  for (std::size_t i = 0; i + keep < all.size(); ++i) PRIME_CHECK(remove_directory_atomically(all[i].second));
  return {};
}

}  // namespace prime::store

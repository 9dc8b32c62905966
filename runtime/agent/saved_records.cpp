#include "runtime/agent/saved_records.hpp"

#include <algorithm>
#include <charconv>
#include <map>

namespace prime {
namespace {

constexpr std::string_view RESIDUAL = "prime.residual.";

std::optional<std::uint32_t> residual_of(std::string_view name) {
  if (!name.starts_with(RESIDUAL)) return std::nullopt;
  name.remove_prefix(RESIDUAL.size());
  std::uint32_t fragment = 0;
  const auto [end, problem] = std::from_chars(name.data(), name.data() + name.size(), fragment);
  return problem == std::errc{} && end == name.data() + name.size() ? std::optional{fragment} : std::nullopt;
}

/// Where residuals that were saved go; empty where they fit no fragment.
std::span<std::byte> place_of_residual(const store::TensorEntry& tensor, std::uint32_t fragment, OuterState& state) {
  const auto& layout = state.layout();
  const bool fits = fragment < layout.fragments() && tensor.size_bytes() == layout.size(fragment) * sizeof(float);
  return fits ? std::as_writable_bytes(state.bring_residual(fragment)) : std::span<std::byte>{};
}

/// Why the trainer cannot go on from what was saved; empty: it can.
std::string unfit(const store::PrivateState& saved, const RecordLayout& layout, const RecordStore* records) {
  if (layout.kept().empty()) return "it binds nothing private, and what was saved for it is";
  if (saved.layout != layout.digest || records == nullptr)
    return "it binds other private tensors than those that were saved: names, types or shapes differ";
  return {};
}

}  // namespace

RecordToSave record_to_save(store::PrivateState state, const std::optional<trainer_life::Record>& record, Residuals residuals,
                            const RecordLayout& layout, const std::vector<BoundTensor>& bound) {
  RecordToSave save{std::move(state), {}, record ? record->content : nullptr, std::move(residuals)};
  save.state.layout = layout.digest;
  save.state.recorded = save.memory != nullptr;
  for (const auto& residual : save.residuals.values)
    save.tensors.push_back(
        {std::string{RESIDUAL} + std::to_string(save.tensors.size()), {static_cast<std::int64_t>(residual.size())}, residual});
  if (!save.memory) return save;
  const auto bytes = bytes_of(*save.memory);
  for (const auto& place : layout.kept()) {
    const auto& tensor = bound[place.tensor];
    save.tensors.push_back(
        {tensor.shape.name, tensor.shape.shape, store::TensorData{tensor.type, bytes.subspan(place.offset_bytes, place.bytes)}});
  }
  return save;
}

Result<SavedRecord> read_saved_record(const std::filesystem::path& path, const RecordLayout& layout, const std::vector<BoundTensor>& bound,
                                      RecordStore* records, OuterState& state) {
  PRIME_TRY(const auto saved, store::verify_private_state(path));
  const auto kept = layout.kept();
  std::map<std::string_view, const RecordLayout::Place*> places;
  for (const auto& place : kept) places.emplace(bound[place.tensor].shape.name, &place);
  std::vector<std::byte> nowhere;
  /// `memory` is empty where the trainer takes nothing.
  const auto read = [&](std::span<std::byte> memory) {
    return store::read_private_tensors(path, [&](const store::TensorEntry& tensor) {
      std::span<std::byte> into;
      const auto found = places.find(tensor.name);
      const auto fragment = residual_of(tensor.name);
      if (fragment) into = place_of_residual(tensor, *fragment, state);
      else if (!memory.empty() && found != places.end()) into = memory.subspan(found->second->offset_bytes, found->second->bytes);
      if (!into.empty() || (!memory.empty() && !fragment)) return into;
      nowhere.resize(tensor.size_bytes());
      return std::span{nowhere};
    });
  };
  const auto fresh = saved.recorded ? unfit(saved, layout, records) : std::string{};
  if (!saved.recorded || !fresh.empty()) {
    PRIME_CHECK(read({}));
    return SavedRecord{{}, fresh};
  }
  PRIME_TRY(auto content, records->read(read));
  return SavedRecord{trainer_life::Record{.step = saved.outer_step, .base = saved.revision, .content = std::move(content)}, {}};
}

}  // namespace prime

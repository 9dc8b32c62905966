#include "runtime/agent/saved_records.hpp"

#include <algorithm>
#include <map>

namespace prime {

RecordToSave record_to_save(store::PrivateState state, const std::optional<trainer_life::Record>& record, const RecordLayout& layout,
                            const std::vector<BoundTensor>& bound) {
  RecordToSave save{std::move(state), {}, record ? record->content : nullptr};
  save.state.layout = layout.digest;
  save.state.recorded = save.memory != nullptr;
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
                                      RecordStore* records) {
  PRIME_TRY(const auto saved, store::verify_private_state(path));
  if (!saved.recorded) return SavedRecord{};
  const auto kept = layout.kept();
  if (kept.empty()) return SavedRecord{{}, "it binds nothing private, and what was saved for it is"};
  if (saved.layout != layout.digest || records == nullptr)
    return SavedRecord{{}, "it binds other private tensors than those that were saved: names, types or shapes differ"};
  std::map<std::string_view, const RecordLayout::Place*> places;
  for (const auto& place : kept) places.emplace(bound[place.tensor].shape.name, &place);
  PRIME_TRY(auto content, records->read([&](std::span<std::byte> memory) {
    return store::read_private_tensors(path, [&](const store::TensorEntry& tensor) {
      const auto found = places.find(tensor.name);
      if (found == places.end()) return std::span<std::byte>{};
      return memory.subspan(found->second->offset_bytes, found->second->bytes);
    });
  }));
  return SavedRecord{trainer_life::Record{.step = saved.outer_step, .base = saved.revision, .content = std::move(content)}, {}};
}

}  // namespace prime

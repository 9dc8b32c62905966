// Owns the way of a trainer's records, and of what its peer keeps beside them, to a disk and back: as private state beside a checkpoint.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/peer/trainer_machine.hpp"
#include "messages/result.hpp"
#include "runtime/agent/outer_state.hpp"
#include "runtime/agent/record_store.hpp"
#include "runtime/session/record_layout.hpp"
#include "runtime/store/private_state.hpp"

namespace prime {

/// A record that is to be written, held where it lies.
struct RecordToSave {
  store::PrivateState state;
  std::vector<store::NamedTensor> tensors;
  std::shared_ptr<const trainer_life::RecordContent> memory;  ///< what these lie in; null: the trainer had none yet
  Residuals residuals;                                        ///< and these
};

/// `state` without what follows from the record.
RecordToSave record_to_save(store::PrivateState state, const std::optional<trainer_life::Record>& record, Residuals residuals,
                            const RecordLayout& layout, const std::vector<BoundTensor>& bound);

/// What a run that goes on has of the one before.
struct SavedRecord {
  std::optional<trainer_life::Record> record;
  std::string fresh;  ///< why a trainer cannot go on from it; empty: it can, or there was nothing yet
};
/// CheckpointCorrupt names what is damaged; CheckpointFormat. Residuals go to the state; those of a model that was divided otherwise are
/// left out.
Result<SavedRecord> read_saved_record(const std::filesystem::path& path, const RecordLayout& layout, const std::vector<BoundTensor>& bound,
                                      RecordStore* records, OuterState& state);

}  // namespace prime

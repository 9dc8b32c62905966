// Owns which record a trainer's next life goes on from, and which one is saved with a state. Pure.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "messages/ids.hpp"

namespace prime::trainer_life {

/// What is in a record is its host's affair.
struct RecordContent;

/// What a trainer left at a boundary, and its next life goes on from.
struct Record {
  OuterStep step;       ///< that was published with it, or, `within`, in which it lies
  Revision base;        ///< from which that step was begun
  bool within = false;  ///< it has local parameters: the next life goes on between two inner steps
  std::shared_ptr<const RecordContent> content;
};

class Records {
 public:
  /// The one before is needed as long as what goes with this one is not committed: what is published may be void, what is saved is of a
  /// state that was committed. `lacking`: fragments whose committed versions lack what was published with it.
  void replace(Record record, std::uint32_t lacking = 0);
  /// That was saved with the state that the peer holds.
  void restore(const Record& record) { newest_ = record; }
  /// A fragment has what was published with the newest.
  void note_committed();
  void forget();

  /// What a life goes on from that begins a step with `base`.
  std::optional<Record> resume(OuterStep step, Revision base);
  /// The last one that the committed state has.
  [[nodiscard]] const std::optional<Record>& committed() const { return unsettled_ ? settled_ : newest_; }
  [[nodiscard]] const std::optional<Record>& newest() const { return newest_; }

 private:
  /// `newest_` is what the state has.
  void settle();

  std::optional<Record> newest_;
  std::optional<Record> settled_;  ///< where the newest is newer than what is committed: the last one that is not
  bool unsettled_ = false;         ///< the newest is newer
  std::uint32_t lacking_ = 0;
};

}  // namespace prime::trainer_life

#include "actors/peer/trainer_records.hpp"

#include <utility>

namespace prime::trainer_life {

void Records::replace(Record record, std::uint32_t lacking) {
  if (!std::exchange(unsettled_, true)) settled_ = std::move(newest_);
  newest_ = std::move(record);
  lacking_ = lacking;
}

void Records::note_committed() {
  if (lacking_ > 0 && --lacking_ == 0) settle();
}

void Records::settle() {
  settled_.reset();
  unsettled_ = false;
  lacking_ = 0;
}

void Records::forget() {
  newest_.reset();
  settle();
}

std::optional<Record> Records::resume(OuterStep step, Revision base) {
  // All trainers of a replica begin a step anew: what was published of it is void, and what was recorded with that.
  const bool is_void = newest_ && !newest_->within && newest_->step >= step;
  if (is_void) {
    newest_ = settled_;
    settle();
  }
  auto record = newest_;
  // Local parameters are of use only where they came from.
  if (record && (record->step != step || record->base != base)) record->within = false;
  return record;
}

}  // namespace prime::trainer_life

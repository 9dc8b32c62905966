// Owns the memory of a trainer's records. The trainer writes a record where the store says, and says when it is whole; until then, and
// whenever the trainer is killed, the one before is untouched. A record is held by reference, as a version of a fragment is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "actors/peer/trainer_machine.hpp"
#include "messages/result.hpp"
#include "runtime/agent/block_pool.hpp"
#include "runtime/session/record_layout.hpp"
#include "runtime/session/trainer_wire.hpp"

namespace prime {

namespace trainer_life {
struct RecordContent {
  BlockRef block;
  wire::Totals totals;  ///< of the outer step that it lies in; of no matter where it was published
};
}  // namespace trainer_life

/// Safe from any thread, but for `keep`, which is the trainer's thread's. At most two records are held beside those of the trainer's
/// machine: one that is being written to a disk, and one that waits for that.
class RecordStore {
 public:
  static Result<RecordStore> create(const RecordLayout& layout);
  /// Where the trainer writes its next record.
  [[nodiscard]] std::uint32_t next() const { return next_->number; }
  /// The memory of that, for what is no record: until the trainer is told the place, or while it waits.
  [[nodiscard]] std::span<std::byte> memory() const { return std::as_writable_bytes(next_->values); }
  /// What it has written there is a record, and its next one goes elsewhere.
  [[nodiscard]] std::shared_ptr<const trainer_life::RecordContent> keep(const wire::Totals& totals);
  /// A record that was saved, which `fill` reads into its memory.
  Result<std::shared_ptr<const trainer_life::RecordContent>> read(const std::function<Result<void>(std::span<std::byte>)>& fill);
  [[nodiscard]] int descriptor() const { return pool_.descriptor(); }

 private:
  RecordStore(BlockPool pool, std::uint64_t size) : pool_(std::move(pool)), size_(size), next_(pool_.take(size)) {}
  BlockPool pool_;
  std::uint64_t size_;  ///< in words of 4 bytes
  BlockRef next_;
};

/// The bytes of a record.
std::span<const std::byte> bytes_of(const trainer_life::RecordContent& record);

}  // namespace prime

#include "runtime/agent/record_store.hpp"

#include <utility>

namespace prime {

Result<RecordStore> RecordStore::create(const RecordLayout& layout) {
  const auto size = layout.bytes / sizeof(float);
  PRIME_TRY(auto pool, BlockPool::create("prime-record", size, wire::RECORDS, Access::ReadWrite));
  return RecordStore{std::move(pool), size};
}

std::shared_ptr<const trainer_life::RecordContent> RecordStore::keep(const wire::Totals& totals) {
  auto written = std::exchange(next_, pool_.take(size_));
  return std::make_shared<const trainer_life::RecordContent>(trainer_life::RecordContent{std::move(written), totals});
}

Result<std::shared_ptr<const trainer_life::RecordContent>> RecordStore::read(
    const std::function<Result<void>(std::span<std::byte>)>& fill) {
  auto block = pool_.take(size_);
  PRIME_CHECK(fill(std::as_writable_bytes(block->values)));
  return std::make_shared<const trainer_life::RecordContent>(trainer_life::RecordContent{std::move(block), {}});
}

std::span<const std::byte> bytes_of(const trainer_life::RecordContent& record) { return std::as_bytes(record.block->values); }

}  // namespace prime

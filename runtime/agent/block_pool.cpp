#include "runtime/agent/block_pool.hpp"

#include <algorithm>
#include <mutex>
#include <vector>

#include "messages/assert.hpp"

namespace prime {

struct BlockPool::Impl {
  Descriptor file;
  SharedFloats memory;
  std::uint64_t block_size = 0;
  std::mutex mutex;
  std::vector<bool> taken;

  void give_back(std::uint32_t number) {
    const std::lock_guard lock(mutex);
    taken[number] = false;
  }
};

Result<BlockPool> BlockPool::create(const std::string& name, std::uint64_t block_size, std::uint32_t count, Access trainers) {
  auto impl = std::make_shared<Impl>();
  impl->block_size = block_size;
  impl->taken.resize(count);
  const auto elements = block_size * count;
  PRIME_TRY(impl->file, create_memory_file(name, elements * sizeof(float)));
  PRIME_TRY(impl->memory, SharedFloats::map(impl->file.number(), elements, Access::ReadWrite));
  if (trainers == Access::ReadOnly) PRIME_CHECK(seal_against_new_writers(impl->file));
  return BlockPool{std::move(impl)};
}

BlockRef BlockPool::take(std::uint64_t size) {
  auto& s = *impl_;
  PRIME_ASSERT(size <= s.block_size, "a block holds whatever the pool is of");
  const std::lock_guard lock(s.mutex);
  const auto free = std::ranges::find(s.taken, false);
  PRIME_ASSERT(free != s.taken.end(), "no more is held than the file has blocks for");
  *free = true;
  const auto number = static_cast<std::uint32_t>(free - s.taken.begin());
  const auto release = [pool = impl_](const Block* block) {
    pool->give_back(block->number);
    delete block;
  };
  return BlockRef{new Block{number, s.memory.values().subspan(number * s.block_size, size)}, release};
}

int BlockPool::descriptor() const { return impl_->file.number(); }

}  // namespace prime

#include "runtime/session/arena.hpp"

#include <algorithm>
#include <mutex>
#include <unistd.h>
#include <vector>

#include "runtime/session/shared_memory.hpp"

namespace prime {

struct Arena::Impl {
  struct Piece {
    std::uint64_t first = 0;
    std::uint64_t values = 0;
    bool given_back = false;
  };

  Descriptor file;
  SharedFloats memory;
  std::mutex mutex;
  std::vector<Piece> pieces;  ///< by their place
  bool has_given_back = false;

  [[nodiscard]] std::uint64_t end() const { return pieces.empty() ? 0 : pieces.back().first + pieces.back().values; }
  /// What lies at the end is used again.
  void give_back(std::uint64_t first) {
    const std::lock_guard lock(mutex);
    has_given_back = true;
    std::ranges::lower_bound(pieces, first, {}, &Piece::first)->given_back = true;
    while (!pieces.empty() && pieces.back().given_back) {
      std::ranges::fill(memory.values().subspan(pieces.back().first, pieces.back().values), 0.0F);
      pieces.pop_back();
    }
  }
};

Result<Arena> Arena::create() {
  const auto bytes = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(::sysconf(_SC_PAGE_SIZE));
  auto impl = std::make_shared<Impl>();
  PRIME_TRY(impl->file, create_memory_file("prime-session", bytes));
  PRIME_TRY(impl->memory, SharedFloats::map(impl->file.number(), bytes / sizeof(float), Access::ReadWrite));
  return Arena{std::move(impl)};
}

Result<std::shared_ptr<float[]>> Arena::take(std::uint64_t values) {
  const std::lock_guard lock(impl_->mutex);
  const auto first = impl_->end();
  const auto room = impl_->memory.values().size() - first;
  if (values == 0) return fail(ErrorName::Usage, "memory for no value");
  if (values > room)
    return fail(ErrorName::MemoryUnavailable,
                std::to_string(values) + " values, and " + std::to_string(room) + " are left of this machine's memory");
  impl_->pieces.push_back({first, values});
  return std::shared_ptr<float[]>(impl_->memory.values().data() + first, [arena = impl_, first](float*) { arena->give_back(first); });
}

std::optional<Arena::Place> Arena::find(std::span<const std::byte> memory) const {
  const auto all = std::as_bytes(impl_->memory.values());
  if (memory.data() < all.data() || memory.data() >= all.data() + all.size()) return std::nullopt;
  const auto first = static_cast<std::uint64_t>(memory.data() - all.data()) / sizeof(float);
  const auto end = first + (memory.size() + sizeof(float) - 1) / sizeof(float);
  const std::lock_guard lock(impl_->mutex);
  Place place{first, end > impl_->end()};
  auto piece = std::ranges::upper_bound(impl_->pieces, first, {}, &Impl::Piece::first);
  if (piece != impl_->pieces.begin()) --piece;
  for (; piece != impl_->pieces.end() && piece->first < end; ++piece) place.given_back = place.given_back || piece->given_back;
  return place;
}

bool Arena::has_given_back() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->has_given_back;
}

int Arena::descriptor() const { return impl_->file.number(); }

}  // namespace prime

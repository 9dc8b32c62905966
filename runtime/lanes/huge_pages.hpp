// Owns memory for tensors of a process: in huge pages where the kernel has them, which is what makes its end quick. A killed process
// closes its connections only when its memory is given back, page by page; by then the others wait (`./dev bench losses`).
#pragma once

#include <cstdlib>
#include <new>
#include <sys/mman.h>
#include <utility>
#include <vector>

namespace prime {

inline constexpr std::size_t HUGE_PAGE_BYTES = std::size_t{2} << 20U;

template <class T>
struct HugePages {
  using value_type = T;

  HugePages() = default;
  template <class Other>
  explicit HugePages(const HugePages<Other>&) noexcept {}

  T* allocate(std::size_t count) {
    if (count > (std::size_t{1} << 60U) / sizeof(T)) throw std::bad_array_new_length();
    const auto bytes = count * sizeof(T);
    const auto unit = bytes < HUGE_PAGE_BYTES ? std::size_t{64} : HUGE_PAGE_BYTES;
    const auto whole = (bytes + unit - 1) / unit * unit;
    void* const memory = std::aligned_alloc(unit, whole);
    if (memory == nullptr) throw std::bad_alloc();
    if (unit == HUGE_PAGE_BYTES) (void)::madvise(memory, whole, MADV_HUGEPAGE);  // without them everything works as well
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, std::size_t) noexcept { std::free(memory); }
  /// What nobody wrote yet is left alone: to fill gigabytes with zeros takes seconds, and takes the memory before it is needed.
  template <class U>
  void construct(U* at) noexcept {
    ::new (static_cast<void*>(at)) U;
  }
  template <class U, class... Arguments>
  void construct(U* at, Arguments&&... arguments) {
    ::new (static_cast<void*>(at)) U(std::forward<Arguments>(arguments)...);
  }

  bool operator==(const HugePages&) const = default;
};

/// `resize` leaves new values as the memory is.
using Floats = std::vector<float, HugePages<float>>;

}  // namespace prime

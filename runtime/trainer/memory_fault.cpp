#include "runtime/trainer/memory_fault.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "runtime/shortage.hpp"

namespace prime::trainer {

std::optional<Error> want_of_memory(const std::exception& thrown) {
  const std::string text = thrown.what();
  // libtorch's own words, of the host's memory and of a GPU's; CUDA's for memory that is pinned; cuBLAS's for its workspace.
  constexpr std::array PHRASES{"ried to allocate", "out of memory", "ALLOC_FAILED"};
  for (const std::string_view phrase : PHRASES) {
    const auto begin = text.find(phrase);
    if (begin == std::string::npos) continue;
    const auto end = std::min(text.find(". ", begin), text.find('\n', begin));
    const auto cause = phrase.starts_with("ried") ? "t" + text.substr(begin, end - begin) : text.substr(0, end);
    return Error{ErrorName::MemoryUnavailable, "the trainer's model: " + cause};
  }
  return shortage(thrown);
}

}  // namespace prime::trainer

#include "runtime/trainer/memory_fault.hpp"

#include <algorithm>
#include <new>
#include <string>

namespace prime::trainer {

std::optional<Error> want_of_memory(const std::exception& thrown) {
  const std::string text = thrown.what();
  const auto begin = text.find("ried to allocate");  // of the host and of a GPU
  if (dynamic_cast<const std::bad_alloc*>(&thrown) == nullptr && begin == std::string::npos) return std::nullopt;
  const auto cause =
      begin == std::string::npos ? text : "t" + text.substr(begin, std::min(text.find(". ", begin), text.find('\n', begin)) - begin);
  return Error{ErrorName::MemoryUnavailable, "the trainer's model: " + cause};
}

}  // namespace prime::trainer

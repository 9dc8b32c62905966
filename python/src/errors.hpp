// Owns the way of an Error into Python: prime_runtime.Error, with the fields of the table.
#pragma once

#include <nanobind/nanobind.h>
#include <string>
#include <utility>

#include "messages/result.hpp"

namespace prime::python {

/// Raises prime_runtime.Error; needs the GIL.
[[noreturn]] void raise(const Error& error);
[[noreturn]] inline void raise_usage(std::string detail) { raise(Error{ErrorName::Usage, std::move(detail)}); }

template <class T>
T value_of(Result<T> result) {
  if (!result) raise(result.error());
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

void bind_errors(nanobind::module_& module);

}  // namespace prime::python

// Owns the parts of the module `_prime`.
#pragma once

#include <nanobind/nanobind.h>

namespace prime::python {

void bind_group(nanobind::module_& module);
void bind_session(nanobind::module_& module);

}  // namespace prime::python

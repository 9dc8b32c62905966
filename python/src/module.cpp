// Owns the module `_prime`: the public headers as Python sees them. What people call is in prime_runtime, above it.
#include "python/src/module.hpp"

#include "python/src/errors.hpp"
#include "python/src/waiting.hpp"

NB_MODULE(_prime, module) {
  prime::python::bind_errors(module);
  prime::python::bind_waiting(module);
  prime::python::bind_group(module);
  prime::python::bind_session(module);
}

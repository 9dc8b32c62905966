#include "python/src/waiting.hpp"

#include <chrono>
#include <thread>

namespace nb = nanobind;

namespace prime::python {
namespace {

/// The interpreter is about to end: nobody may take the GIL any more.
std::atomic<bool> closing = false;
std::atomic<int> inside = 0;

constexpr auto CLOSING_LIMIT = std::chrono::seconds{5};

/// Has all waits end, and gives their threads the time to come back.
void close() {
  closing = true;
  const nb::gil_scoped_release free;
  const auto limit = std::chrono::steady_clock::now() + CLOSING_LIMIT;
  while (inside > 0 && std::chrono::steady_clock::now() < limit) std::this_thread::sleep_for(std::chrono::milliseconds{1});
}

/// The interpreter is about to end.
[[noreturn]] void end_wait() {
  PyErr_SetString(PyExc_SystemExit, "the interpreter ends");
  throw nb::python_error();
}

}  // namespace

Inside::Inside() {
  if (closing) end_wait();
  ++inside;
}

Inside::~Inside() { --inside; }

void run_pending() {
  if (closing) end_wait();
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
  // What was sent to a thread (PyThreadState_SetAsyncExc, as notebooks do) shows when a function of Python's begins.
  nb::module_::import_("prime_runtime._errors").attr("pending")();
}

bool goes_on(Raised& raised) {
  if (closing) return false;
  const nb::gil_scoped_acquire held;
  try {
    run_pending();
    return true;
  } catch (nb::python_error& error) {
    raised.keep(error);
    return false;
  }
}

void bind_waiting(nb::module_& module) { module.def("_close", &close); }

}  // namespace prime::python

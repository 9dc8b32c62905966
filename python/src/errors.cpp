#include "python/src/errors.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <string_view>

namespace nb = nanobind;

namespace prime::python {
namespace {

std::string_view text_of(ErrorClass klass) {
  switch (klass) {
    case ErrorClass::Retry: return "retry";
    case ErrorClass::Rejoin: return "rejoin";
    case ErrorClass::User: return "user";
    case ErrorClass::Fatal: return "fatal";
  }
  return "?";
}

nb::str str(std::string_view text) { return nb::str(text.data(), text.size()); }

}  // namespace

void raise(const Error& error) {
  const auto& row = info(error.name);
  // The row's hint is for who typed a command.
  const std::string_view hint = error.name == ErrorName::Usage ? "see docs/PYTHON.md" : row.hint;
  const nb::object type = nb::module_::import_("prime_runtime._errors").attr("Error");
  const nb::object made = type(nb::arg("name") = str(row.name), nb::arg("code") = str(row.code), nb::arg("kind") = str(text_of(row.klass)),
                               nb::arg("text") = to_string(error), nb::arg("detail") = error.detail, nb::arg("context") = error.context,
                               nb::arg("hint") = str(hint), nb::arg("exit_code") = row.exit_code);
  PyErr_SetObject(type.ptr(), made.ptr());
  throw nb::python_error();
}

void bind_errors(nb::module_& module) {
  nb::list names;
  for (const auto& row : error_table()) names.append(str(row.name));
  module.attr("ERROR_NAMES") = nb::tuple(names);
}

}  // namespace prime::python

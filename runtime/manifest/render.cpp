// Owns how a problem looks on a terminal: place, source line, carets, hint.
#include <algorithm>

#include "runtime/manifest/load.hpp"
#include "runtime/manifest/source_text.hpp"

namespace prime::manifest {
namespace {

/// Wider lines are cut; the place shown stays in view.
constexpr std::size_t SHOWN_WIDTH = 120;

std::string excerpt(const Diagnostic& problem, std::string_view source_text) {
  const auto line = printable(line_of(source_text, problem.line - 1));
  const auto number = std::to_string(problem.line);
  const auto gutter = std::string(number.size(), ' ') + " |";
  const auto before = problem.column - 1;
  const auto first = before < SHOWN_WIDTH ? 0 : before - SHOWN_WIDTH / 2;
  const auto carets = std::clamp<std::size_t>(problem.length, 1, std::max<std::size_t>(1, SHOWN_WIDTH - (before - first)));
  return gutter + "\n" + number + " | " + std::string{slice(line, first, SHOWN_WIDTH)} + "\n" + gutter + " " +
         std::string(before - first, ' ') + std::string(carets, '^') + "\n";
}

}  // namespace

std::string render(const Diagnostic& problem, std::string_view source_text) {
  const auto& row = info(problem.name);
  const auto number_width = problem.line == 0 ? 1 : std::to_string(problem.line).size();
  std::string text = "error: " + problem.message + " [" + std::string{row.code} + "]\n";
  text += std::string(number_width, ' ') + "--> " + problem.file;
  if (problem.line != 0) text += ":" + std::to_string(problem.line) + ":" + std::to_string(problem.column);
  text += "\n";
  if (problem.line != 0) text += excerpt(problem, source_text);
  return text + "hint: " + (problem.hint.empty() ? std::string{row.hint} : problem.hint) + "\n";
}

std::string render(std::span<const Diagnostic> problems, std::size_t omitted, std::string_view source_text) {
  std::string text;
  for (const auto& problem : problems) text += (text.empty() ? "" : "\n") + render(problem, source_text);
  if (omitted > 0) text += "\nand " + std::to_string(omitted) + " more problems\n";
  return text;
}

std::string render(const LoadOutcome& outcome) { return render(outcome.problems, outcome.omitted, outcome.text); }

Error first_error(const LoadOutcome& outcome) {
  const auto& first = outcome.problems.front();
  auto detail = first.message + " (" + first.file;
  if (first.line != 0) detail += ":" + std::to_string(first.line) + ":" + std::to_string(first.column);
  detail += ")";
  const auto others = outcome.problems.size() - 1 + outcome.omitted;
  if (others > 0) detail += ", and " + std::to_string(others) + " more";
  return Error{first.name, std::move(detail)};
}

}  // namespace prime::manifest

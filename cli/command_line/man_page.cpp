#include <fmt/format.h>
#include <sstream>

#include "cli/command_line/outline.hpp"

namespace prime::cli {
namespace {

/// A text of troff that is shown as it stands: no line of it is a request, and hyphens can be copied.
std::string roff(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool begins = out.empty() || out.back() == '\n';
    if (begins && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\') out += "\\e";
    else if (c == '-') out += "\\-";
    else if (c == '`') out += "\\(ga";
    else out += c;
  }
  return out;
}

std::string item(const std::string& head, const std::string& text) { return ".TP\n" + head + "\n" + roff(text) + "\n"; }

std::string item(const OptionOutline& option) {
  std::string head = ".B ";
  for (const auto& name : option.names) head += (&name == &option.names.front() ? "" : ", ") + roff(name);
  if (option.takes_value()) head += " \\fI" + roff(option.value) + "\\fR";
  return item(head, option.help);
}

std::string usage(const CommandOutline& command) {
  auto text = ".B primectl " + command.name + "\n[\\fIoptions\\fR]";
  for (const auto& positional : command.positionals) {
    const auto name = "\\fI" + roff(positional.name) + "\\fR" + (positional.repeats ? " ..." : "");
    text += positional.required ? " " + name : " [" + name + "]";
  }
  return text + "\n";
}

std::string paragraphs(const std::string& text) {
  std::string out;
  std::istringstream lines{text};
  for (std::string line; std::getline(lines, line);) out += line.empty() ? ".PP\n" : roff(line) + "\n";
  return out.empty() ? "" : ".PP\n" + out;
}

std::string section(const CommandOutline& command) {
  auto text = ".SS " + command.name + "\n" + usage(command) + ".PP\n" + roff(command.help) + "\n";
  for (const auto& positional : command.positionals) text += item(".I " + roff(positional.name), positional.help);
  // Those that every command has are told once.
  for (const auto& option : command.options)
    if (option.group == "Options" && option.names.back() != "--help") text += item(option);
  for (const auto& option : command.options)
    if (option.names.back() == "--log-level") text += item(option);
  return text + paragraphs(command.footer);
}

}  // namespace

std::string man_page(const ProgramOutline& program, std::string_view version) {
  auto page = fmt::format(".TH PRIMECTL 1 \"\" \"primectl {}\" \"User Commands\"\n", version);
  page += ".SH NAME\nprimectl \\- " + roff(program.help) + "\n";
  page += ".SH SYNOPSIS\n.B primectl\n[\\fIoptions\\fR] \\fIcommand\\fR [\\fIargument\\fR ...]\n";
  page += ".SH OPTIONS\nEvery command has these; they may stand before it, too.\n";
  for (const auto& option : program.common) page += item(option);
  for (const auto& option : program.options) page += item(option);
  page += ".SH COMMANDS\n";
  for (const auto& command : program.commands) page += section(command);
  return page + ".SH NOTES\n" + paragraphs(program.footer);
}

}  // namespace prime::cli

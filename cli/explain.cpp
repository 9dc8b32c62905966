// Owns `primectl explain`: an error code or a manifest key in words.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "cli/render/columns.hpp"
#include "cli/terminal.hpp"
#include "runtime/manifest/describe.hpp"
#include "runtime/telemetry/status_json.hpp"

namespace prime::cli {
namespace {

std::string_view class_text(ErrorClass klass) {
  switch (klass) {
    case ErrorClass::Retry: return "the same call may succeed later";
    case ErrorClass::Rejoin: return "take part anew, as a new peer";
    case ErrorClass::User: return "somebody must change something";
    case ErrorClass::Fatal: return "give up";
  }
  return "";
}

nlohmann::ordered_json to_json(const ErrorInfo& row) {
  return {{"schema", "primectl.error/1"}, {"code", row.code}, {"name", row.name},
          {"exit_code", row.exit_code},   {"text", row.text}, {"hint", row.hint}};
}

std::string to_text(const ErrorInfo& row) {
  std::string text = std::string{row.code} + " " + std::string{row.name} + ": " + std::string{row.text} + "\n";
  text += "  what now:  " + std::string{class_text(row.klass)} + "\n";
  if (!row.hint.empty()) text += "  hint:      " + std::string{row.hint} + "\n";
  return text + "  exit code: " + std::to_string(row.exit_code) + "\n";
}

std::string all_codes() {
  std::vector<std::vector<std::string>> rows;
  for (const auto& row : error_table())
    rows.push_back({std::string{row.code}, std::string{row.name}, std::to_string(row.exit_code), std::string{row.text}});
  return columns({{"CODE"}, {"NAME"}, {"EXIT", Align::Right}, {"TEXT"}}, rows);
}

}  // namespace

int run_command(const ExplainArguments& arguments, Terminal& terminal) {
  if (arguments.what.empty()) {
    if (!terminal.json()) terminal.print(all_codes());
    else
      for (const auto& row : error_table()) terminal.print(telemetry::dump(to_json(row)) + "\n");
    return 0;
  }
  const auto& table = error_table();
  const auto row = std::find_if(table.begin(), table.end(),
                                [&](const ErrorInfo& entry) { return entry.code == arguments.what || entry.name == arguments.what; });
  if (row != table.end()) {
    terminal.print(terminal.json() ? telemetry::dump(to_json(*row)) + "\n" : to_text(*row));
    return 0;
  }
  const auto description = manifest::describe(arguments.what);
  if (!description) {
    const auto near = manifest::nearest_key(arguments.what);
    return terminal.complain(Error{ErrorName::Usage, "no error code and no manifest key is called `" + arguments.what + "`" +
                                                         (near ? "; did you mean `" + *near + "`?" : "")});
  }
  const nlohmann::ordered_json object{{"schema", "primectl.key/1"}, {"key", arguments.what}, {"text", *description}};
  terminal.print(terminal.json() ? telemetry::dump(object) + "\n" : *description + (description->ends_with('\n') ? "" : "\n"));
  return 0;
}

}  // namespace prime::cli

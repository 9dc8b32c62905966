// Owns `primectl schema`.
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "cli/output_schemas.hpp"
#include "cli/render/columns.hpp"
#include "cli/terminal.hpp"
#include "runtime/manifest/fields.hpp"
#include "runtime/telemetry/status_json.hpp"

namespace prime::cli {
namespace {

void list(const std::vector<NamedSchema>& known, Terminal& terminal) {
  auto objects = nlohmann::ordered_json::array();
  std::vector<std::vector<std::string>> rows;
  for (const auto& schema : known) {
    objects.push_back({{"name", schema.name}, {"title", schema.title}});
    rows.push_back({schema.name, schema.title});
  }
  if (terminal.json()) terminal.print(telemetry::dump({{"schema", "primectl.schemas/1"}, {"schemas", std::move(objects)}}) + "\n");
  else terminal.print(columns({{"SCHEMA"}, {"OF"}}, rows, terminal.style()));
}

}  // namespace

int run_command(const SchemaArguments& arguments, Terminal& terminal) {
  const auto known = schemas();
  if (arguments.name.empty()) {
    list(known, terminal);
    return 0;
  }
  std::vector<std::string_view> names;
  for (const auto& schema : known) {
    names.push_back(schema.name);
    // What stands in the output itself names it, too.
    if (arguments.name != schema.name && arguments.name != "primectl." + schema.name + "/1") continue;
    terminal.print(schema.text);
    return 0;
  }
  const auto near = manifest::nearest(arguments.name, names);
  return terminal.complain(
      Error{ErrorName::Usage, "no schema is called `" + arguments.name + "`" +
                                  (near ? "; did you mean `" + std::string{*near} + "`?" : std::string{"; `primectl schema` lists them"})});
}

}  // namespace prime::cli

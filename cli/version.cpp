// Owns `primectl version`.
#include "cli/commands.hpp"
#include "cli/terminal.hpp"
#include "messages/membership.hpp"
#include "runtime/telemetry/status_json.hpp"

namespace prime::cli {

int run_command(const VersionArguments&, Terminal& terminal) {
  if (terminal.json()) {
    const nlohmann::ordered_json version{{"schema", "primectl.version/1"},
                                         {"version", PRIMECTL_VERSION},
                                         {"protocol", PROTOCOL_VERSION},
                                         {"caf_version", PRIMECTL_CAF_VERSION},
                                         {"build_type", PRIMECTL_BUILD_TYPE}};
    terminal.print(telemetry::dump(version) + "\n");
  } else {
    terminal.print("primectl " PRIMECTL_VERSION " (protocol " + std::to_string(PROTOCOL_VERSION) +
                   ", CAF " PRIMECTL_CAF_VERSION ", " PRIMECTL_BUILD_TYPE ")\n");
  }
  return 0;
}

}  // namespace prime::cli

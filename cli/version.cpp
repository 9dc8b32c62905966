// Owns `primectl version`.
#include "cli/commands.hpp"
#include "cli/terminal.hpp"
#include "messages/membership.hpp"
#include "runtime/store/checkpoint.hpp"
#include "runtime/telemetry/status_json.hpp"

namespace prime::cli {

namespace {

nlohmann::ordered_json or_null(std::string_view text) {
  return text.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(text);
}

}  // namespace

int run_command(const VersionArguments&, Terminal& terminal) {
  if (terminal.json()) {
    const nlohmann::ordered_json version{{"schema", "primectl.version/1"},
                                         {"version", PRIMECTL_VERSION},
                                         {"protocol", PROTOCOL_VERSION},
                                         {"checkpoint_format", store::CHECKPOINT_FORMAT},
                                         {"caf_version", PRIMECTL_CAF_VERSION},
                                         {"openssl_version", PRIMECTL_OPENSSL_VERSION},
                                         {"libtorch_version", or_null(PRIMECTL_TORCH_VERSION)},
                                         {"build_type", PRIMECTL_BUILD_TYPE}};
    terminal.print(telemetry::dump(version) + "\n");
  } else {
    const std::string_view version = PRIMECTL_TORCH_VERSION;
    const auto torch = version.empty() ? std::string{"no libtorch"} : "libtorch " + std::string{version};
    terminal.print("primectl " PRIMECTL_VERSION " (protocol " + std::to_string(PROTOCOL_VERSION) + ", " +
                   std::string{store::CHECKPOINT_FORMAT} + ", CAF " PRIMECTL_CAF_VERSION ", OpenSSL " PRIMECTL_OPENSSL_VERSION ", " +
                   torch + ", " PRIMECTL_BUILD_TYPE ")\n");
  }
  return 0;
}

}  // namespace prime::cli

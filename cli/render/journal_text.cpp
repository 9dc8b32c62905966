#include "cli/render/journal_text.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "cli/render/columns.hpp"

namespace prime::cli {
namespace {

constexpr std::size_t SOURCE_WIDTH = 16;
constexpr std::size_t EVENT_WIDTH = 22;

/// Four digits say what a person looks for; `-o json` has them all.
std::string rounded(double value) { return std::abs(value) >= 1000 ? fmt::format("{:.0f}", value) : fmt::format("{:.4g}", value); }

std::string value_text(const nlohmann::json& value) {
  if (value.is_number_float()) return rounded(value.get<double>());
  if (!value.is_string()) return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  const auto text = value.get<std::string>();
  const bool plain = !text.empty() && text.find_first_of(" \t\n\"") == std::string::npos;
  // Quoted like JSON, so that line breaks and control characters of a stranger never reach the terminal.
  return plain && std::none_of(text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; })
             ? text
             : value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Role role_of(const std::string& event) {
  if (event == "outer_step_committed" || event == "run_done") return Role::Good;
  if (event == "peer_lost" || event == "outer_step_aborted" || event == "trainer_restarting" || event == "peer_absent" ||
      event == "correlated_loss" || event == "rolled_back" || event == "coordinator_stood_still" || event == "descriptors_used_up" ||
      event == "trainer_waits")
    return Role::Degraded;
  if (event == "run_failed" || event == "checkpoint_failed") return Role::Bad;
  return Role::Plain;
}

}  // namespace

std::string journal_text(const telemetry::ObservedLine& observed, const Style& style) {
  const auto& fields = observed.line.fields;
  const auto found = fields.find("t");
  const auto time = found != fields.end() && found->is_string() ? found->get<std::string>() : std::string{};
  auto event = observed.line.event;
  std::replace(event.begin(), event.end(), '_', ' ');
  auto text = (time.size() == 24 ? time.substr(11, 12) : time) + "  " +
              paint(style, Role::Name, cell(observed.source, SOURCE_WIDTH, Align::Left)) + "  " +
              paint(style, role_of(observed.line.event), cell(event, EVENT_WIDTH, Align::Left));
  for (const auto& [key, value] : fields.items())
    if (key != "t" && key != "seq" && key != "event") text += " " + key + "=" + value_text(value);
  text.erase(text.find_last_not_of(' ') + 1);
  return text + "\n";
}

}  // namespace prime::cli

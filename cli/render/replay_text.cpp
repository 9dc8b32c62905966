#include "cli/render/replay_text.hpp"

#include <fmt/format.h>

#include "cli/render/figures.hpp"

namespace prime::cli {

nlohmann::ordered_json replay_json(const replay::Replay& replay) {
  nlohmann::ordered_json object{{"schema", "primectl.replay/1"},   {"run_id", replay.run},
                                {"equal", !replay.difference},     {"rounds", replay.rounds},
                                {"committed", replay.committed},   {"contributions", replay.contributions},
                                {"fragments", replay.fragments},   {"outer_step", replay.outer_step.value},
                                {"state", to_string(replay.state)}};
  if (const auto& difference = replay.difference)
    object["difference"] = {{"revision", difference->revision.value},
                            {"fragment", difference->fragment},
                            {"version", difference->version.value},
                            {"committed", to_string(difference->committed)},
                            {"replayed", to_string(difference->replayed)}};
  return object;
}

std::string replay_text(const replay::Replay& replay) {
  const auto made =
      fmt::format("{} of {} from {}", replay.rounds, plural(replay.committed, "round"), plural(replay.contributions, "contribution"));
  if (!replay.difference)
    return fmt::format("every version is as the run committed it: {}\nouter step {}, state {}\n", made, replay.outer_step.value,
                       to_string(replay.state));
  const auto& difference = *replay.difference;
  return fmt::format("revision {} differs: version {} of fragment {} was committed as {}, and is {}\nequal until then: {}\n",
                     difference.revision.value, difference.version.value, difference.fragment, to_string(difference.committed),
                     to_string(difference.replayed), made);
}

}  // namespace prime::cli

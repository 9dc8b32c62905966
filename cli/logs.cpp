// Owns `primectl logs`: the journals of a run's processes as one readable stream.
#include <algorithm>
#include <chrono>
#include <poll.h>

#include "cli/commands.hpp"
#include "cli/observing.hpp"
#include "cli/patience.hpp"
#include "cli/render/journal_text.hpp"
#include "cli/terminal.hpp"
#include "messages/units.hpp"
#include "runtime/telemetry/journal_watch.hpp"
#include "runtime/telemetry/run_choice.hpp"
#include "runtime/telemetry/run_files.hpp"
#include "runtime/telemetry/run_observer.hpp"
#include "runtime/telemetry/status_json.hpp"

namespace prime::cli {
namespace {

std::string time_of(const telemetry::ObservedLine& observed) {
  const auto found = observed.line.fields.find("t");
  return found != observed.line.fields.end() && found->is_string() ? found->get<std::string>() : std::string{};
}

struct Filter {
  std::string who;
  std::string since;  ///< as journals write time: equal lengths, so that texts compare like times
  [[nodiscard]] bool takes(const telemetry::ObservedLine& observed) const {
    if (!since.empty() && time_of(observed) < since) return false;
    return who.empty() || observed.source.starts_with(who) || (!observed.peer.empty() && observed.peer.starts_with(who));
  }
};

std::string rendered(const telemetry::ObservedLine& observed, const Terminal& terminal) {
  if (!terminal.json()) return journal_text(observed, terminal.style());
  nlohmann::ordered_json object{{"source", observed.source}};
  for (const auto& [key, value] : observed.line.fields.items()) object[key] = value;
  return telemetry::dump(object) + "\n";
}

/// Whether any process that was ever here answers to the name.
bool names_somebody(const std::string& who, const telemetry::RunObserver& observer) {
  const auto peers = observer.local_lives();
  return std::string_view{"coordinator"}.starts_with(who) ||
         std::any_of(peers.begin(), peers.end(), [&](const telemetry::PeerJournal& peer) {
           return peer.status.name.starts_with(who) || peer.status.id.starts_with(who);
         });
}

/// Whoever follows wants to see what happens, and what led to it.
constexpr std::uint64_t FOLLOWED_TAIL = 20;

std::optional<std::uint64_t> tail_of(const LogsArguments& arguments) {
  if (arguments.tail || !arguments.follow || !arguments.since.empty()) return arguments.tail;
  return FOLLOWED_TAIL;
}

/// `tail`: no more than so many, the last ones.
bool show(Terminal& terminal, std::vector<telemetry::ObservedLine> lines, const Filter& filter, std::optional<std::uint64_t> tail) {
  std::erase_if(lines, [&](const telemetry::ObservedLine& line) { return !filter.takes(line); });
  std::stable_sort(lines.begin(), lines.end(), [](const auto& a, const auto& b) { return time_of(a) < time_of(b); });
  if (tail && lines.size() > *tail) lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(*tail));
  return std::all_of(lines.begin(), lines.end(), [&](const auto& line) { return terminal.print(rendered(line, terminal)); });
}

}  // namespace

int run_command(const LogsArguments& arguments, Terminal& terminal) {
  Filter filter{arguments.who, {}};
  if (!arguments.since.empty()) {
    const auto age = parse_duration(arguments.since);
    if (!age)
      return terminal.complain(Error{ErrorName::Usage, "`--since " + arguments.since + "` is no duration such as 30s, 10min or 2h"});
    filter.since =
        store::format_utc(std::chrono::system_clock::now() - std::chrono::duration_cast<std::chrono::system_clock::duration>(*age));
  }
  const auto a_run = names_a_run(arguments.common.state_dir, arguments.who, "logs --run");
  const auto directory = chosen_run(arguments.common.state_dir, arguments.run, terminal);
  if (!directory) return terminal.complain(a_run ? *a_run : directory.error());
  telemetry::RunObserver observer{*directory};
  telemetry::JournalWatch changes{*directory};
  for (bool first = true;; first = false) {
    changes.rearm();
    auto lines = observer.update();
    if (first) warn_of_damage(terminal, observer);
    if (first && !names_somebody(filter.who, observer))
      return terminal.complain(
          a_run ? *a_run : Error{ErrorName::PeerUnknown, "none called `" + filter.who + "` in " + directory->filename().string()});
    if (!show(terminal, std::move(lines), filter, first ? tail_of(arguments) : std::nullopt)) return 0;
    if (telemetry::is_gone(*directory)) return terminal.complain(telemetry::state_gone(*directory));
    if (!arguments.follow || is_over(observer.status().state)) return 0;
    pollfd watched{changes.descriptor(), POLLIN, 0};
    ::poll(&watched, 1, LOOK_AGAIN_MS);
  }
}

}  // namespace prime::cli

#include "runtime/simulation/probes.hpp"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

namespace prime::sim {
namespace {

/// Names by type, so that a new alternative must be named here.
struct NameOf {
  const char* operator()(const Hello&) const { return "Hello"; }
  const char* operator()(const Seated&) const { return "Seated"; }
  const char* operator()(const Fetched&) const { return "Fetched"; }
  const char* operator()(const FetchFailed&) const { return "FetchFailed"; }
  const char* operator()(const Ready&) const { return "Ready"; }
  const char* operator()(const Vote&) const { return "Vote"; }
  const char* operator()(const ReduceFailed&) const { return "ReduceFailed"; }
  const char* operator()(const InDoubt&) const { return "InDoubt"; }
  const char* operator()(const Heartbeat&) const { return "Heartbeat"; }
  const char* operator()(const Deathrattle&) const { return "Deathrattle"; }
  const char* operator()(const StateSaved&) const { return "StateSaved"; }
  const char* operator()(const FinalReport&) const { return "FinalReport"; }
  const char* operator()(const Welcome&) const { return "Welcome"; }
  const char* operator()(const Dismissed&) const { return "Dismissed"; }
  const char* operator()(const FetchState&) const { return "FetchState"; }
  const char* operator()(const BeginStep&) const { return "BeginStep"; }
  const char* operator()(const StartReduce&) const { return "StartReduce"; }
  const char* operator()(const Abort&) const { return "Abort"; }
  const char* operator()(const Commit&) const { return "Commit"; }
  const char* operator()(const RunDone&) const { return "RunDone"; }
  const char* operator()(const HeartbeatSeen&) const { return "HeartbeatSeen"; }
  const char* operator()(const MeasureLink&) const { return "MeasureLink"; }
  const char* operator()(const LinkMeasured&) const { return "LinkMeasured"; }
  const char* operator()(const LaneRelayed&) const { return "LaneRelayed"; }
  const char* operator()(const TrainerRestarted&) const { return "TrainerRestarted"; }
  const char* operator()(const Coordinators&) const { return "Coordinators"; }
  const char* operator()(const ReplicaLacks&) const { return "ReplicaLacks"; }
  const char* operator()(const PublishNow&) const { return "PublishNow"; }
  const char* operator()(const LeaseUsed&) const { return "LeaseUsed"; }
  const char* operator()(const coordinator::Received& e) const { return std::visit(*this, e.message); }
  const char* operator()(const coordinator::ConnectionLost&) const { return "ConnectionLost"; }
  const char* operator()(const coordinator::ProcessGone&) const { return "ProcessGone"; }
  const char* operator()(const coordinator::StopRequested&) const { return "StopRequested"; }
  const char* operator()(const coordinator::PauseRequested&) const { return "PauseRequested"; }
  const char* operator()(const coordinator::ResumeRequested&) const { return "ResumeRequested"; }
  const char* operator()(const coordinator::Tick&) const { return "Tick"; }
  const char* operator()(const peer::FromCoordinator& e) const { return std::visit(*this, e); }
  const char* operator()(const peer::CoordinatorLost&) const { return "CoordinatorLost"; }
  const char* operator()(const peer::CoordinatorBack&) const { return "CoordinatorBack"; }
  const char* operator()(const peer::RedialFailed&) const { return "RedialFailed"; }
  const char* operator()(const peer::Configured&) const { return "Configured"; }
  const char* operator()(const peer::TrainerBound&) const { return "TrainerBound"; }
  const char* operator()(const peer::TrainerContributed&) const { return "TrainerContributed"; }
  const char* operator()(const peer::TrainerUsedLease&) const { return "TrainerUsedLease"; }
  const char* operator()(const peer::TrainerRestarting&) const { return "TrainerRestarting"; }
  const char* operator()(const peer::TrainerWaits&) const { return "TrainerWaits"; }
  const char* operator()(const peer::TrainerGaveUp&) const { return "TrainerGaveUp"; }
  const char* operator()(const peer::TrainerLeft&) const { return "TrainerLeft"; }
  const char* operator()(const peer::TrainerFinal&) const { return "TrainerFinal"; }
  const char* operator()(const peer::SaveEnded&) const { return "SaveEnded"; }
  const char* operator()(const peer::ReduceEnded&) const { return "ReduceEnded"; }
  const char* operator()(const peer::FetchEnded&) const { return "FetchEnded"; }
  const char* operator()(const peer::Progress&) const { return "Progress"; }
  const char* operator()(const peer::MeasureEnded&) const { return "MeasureEnded"; }
  const char* operator()(const peer::WayChanged&) const { return "WayChanged"; }
  const char* operator()(const peer::LeaveRequested&) const { return "LeaveRequested"; }
  const char* operator()(const peer::Tick&) const { return "Tick"; }
};

/// All kinds of events that a peer hears, but for the causes of a dismissal.
constexpr const char* PEER_KINDS[] = {"Welcome",        "FetchState",    "BeginStep",          "StartReduce",      "Abort",
                                      "Commit",         "RunDone",       "HeartbeatSeen",      "MeasureLink",      "Coordinators",
                                      "ReplicaLacks",   "PublishNow",    "CoordinatorLost",    "CoordinatorBack",  "RedialFailed",
                                      "Configured",     "TrainerBound",  "TrainerContributed", "TrainerUsedLease", "TrainerRestarting",
                                      "TrainerWaits",   "TrainerGaveUp", "TrainerLeft",        "TrainerFinal",     "SaveEnded",
                                      "ReduceEnded",    "FetchEnded",    "Progress",           "MeasureEnded",     "WayChanged",
                                      "LeaveRequested", "Tick"};

std::string dismissed_by(ErrorName cause) { return "Dismissed(" + std::string{info(cause).name} + ")"; }

constexpr const char* WORLD[] = {
#define PROBE(Name, name, meaning) #name,
#include "runtime/simulation/probes.def"
#undef PROBE
};

constexpr const char* SEATS[] = {"Greeted", "Seated", "Fetching", "CaughtUp", "Member"};

std::string abort_probe(AbortCause cause) {
  return std::string{info(JournalEvent{events::OuterStepAborted{}}).name} + "(" + std::string{to_string(cause)} + ")";
}

template <class Enum, class Use>
void for_each_word(Use use) {
  for (std::size_t i = 0; i < WORDS<Enum>.size(); ++i) use(static_cast<Enum>(i));
}

/// All that a peer may hear or do, in whichever phase it is.
std::vector<std::string> peer_branches() {
  std::vector<std::string> branches(std::begin(PEER_KINDS), std::end(PEER_KINDS));
  for (const auto& row : error_table()) branches.push_back("Dismissed(" + std::string{row.name} + ")");
  for (const auto& probe : PROBES)
    if (probe.machine == "peer") branches.emplace_back(probe.name);
  return branches;
}

std::vector<std::string> names_without_phases() {
  std::vector<std::string> names(std::begin(WORLD), std::end(WORLD));
  const auto add = [&](std::string name) { names.push_back(std::move(name)); };
  for (std::uint8_t fault = 0; fault < FAULT_KINDS; ++fault) add(probe_of(static_cast<FaultKind>(fault)));
  for_each_word<coordinator::Phase>([&](auto phase) {
    add(probe_of(phase));
    add(probe_of_restart(phase));
  });
  add(probe_of_restart(std::nullopt));
  for (std::size_t seat = 0; seat < std::size(SEATS); ++seat) add(probe_of(static_cast<coordinator::Seat>(seat)));
  for (const bool sharded : {false, true}) {
    for (const auto& event : EVENTS)
      if (event.writer != JournalWriter::Agent) add(probe_of_record(event.name, sharded));
    for_each_word<AbortCause>([&](auto cause) { add(probe_of_abort(cause, sharded)); });
  }
  add(probe_of_end(std::nullopt));
  add(probe_of_peer_end(std::nullopt));
  for (std::size_t error = 0; error < error_table().size(); ++error) {
    add(probe_of_end(Error{static_cast<ErrorName>(error)}));
    add(probe_of_peer_end(Error{static_cast<ErrorName>(error)}));
  }
  for_each_word<peer::Phase>([&](auto phase) { add(probe_of(phase)); });
  for (std::size_t i = 0; i < std::size(PROBES); ++i)
    if (PROBES[i].machine == "coordinator") add(probe_of(static_cast<Probe>(i)));
  std::ranges::sort(names);
  return names;
}

std::vector<std::string> all_names() {
  auto names = names_without_phases();
  for_each_word<peer::Phase>([&](auto phase) {
    for (const auto& branch : peer_branches()) names.push_back(probe_of(branch, phase));
  });
  std::ranges::sort(names);
  return names;
}

}  // namespace

std::string kind_of(const coordinator::Event& event) { return std::visit(NameOf{}, event); }
std::string kind_of(const peer::Event& event) {
  const auto* told = std::get_if<peer::FromCoordinator>(&event);
  const auto* dismissed = told != nullptr ? std::get_if<Dismissed>(told) : nullptr;
  return dismissed != nullptr ? dismissed_by(dismissed->cause.name) : std::visit(NameOf{}, event);
}

std::string probe_of(WorldProbe probe) { return WORLD[static_cast<std::size_t>(probe)]; }
std::string probe_of(FaultKind fault) { return "fault " + std::string{to_string(fault)}; }
std::string probe_of(coordinator::Phase phase) { return "coordinator phase " + std::string{to_string(phase)}; }
std::string probe_of(coordinator::Seat seat) { return std::string{"seat "} + SEATS[static_cast<std::size_t>(seat)]; }
std::string probe_of(peer::Phase phase) { return "peer phase " + std::string{to_string(phase)}; }
std::string probe_of(Probe probe) { return std::string{info(probe).machine} + " " + std::string{info(probe).name}; }
std::string probe_of(Probe probe, peer::Phase before) { return probe_of(probe) + " in " + std::string{to_string(before)}; }
std::string probe_of(const std::string& kind, peer::Phase before) { return "peer " + kind + " in " + std::string{to_string(before)}; }
std::string probe_of_record(std::string_view event, bool sharded) { return (sharded ? "sharded record " : "record ") + std::string{event}; }
std::string probe_of_abort(AbortCause cause, bool sharded) { return probe_of_record(abort_probe(cause), sharded); }
std::string probe_of_end(const std::optional<Error>& cause) { return cause ? "end: " + std::string{info(cause->name).name} : "end: done"; }
std::string probe_of_peer_end(const std::optional<Error>& cause) {
  return cause ? "peer end: " + std::string{info(cause->name).name} : "peer end: well";
}
std::string probe_of_restart(std::optional<coordinator::Phase> kept) {
  return "restarted while " + (kept ? std::string{to_string(*kept)} : "undecided");
}

const std::vector<std::string>& probe_names() {
  static const auto names = all_names();
  return names;
}

std::string probe_schema() {
  const auto joined = [](const auto& words) {
    std::string text;
    for (const auto& word : words) text += (text.empty() ? "" : "|") + std::string{word};
    return text;
  };
  auto branches = joined(peer_branches());
  for (auto at = branches.find_first_of("()"); at != std::string::npos; at = branches.find_first_of("()", at + 2))
    branches.insert(at, 1, '\\');
  const nlohmann::json pattern{{"pattern", "^peer (" + branches + ") in (" + joined(WORDS<peer::Phase>) + ")$"}};
  return nlohmann::json{{"type", "array"}, {"items", {{"anyOf", {{{"enum", names_without_phases()}}, pattern}}}}}.dump();
}

}  // namespace prime::sim

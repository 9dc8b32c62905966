// Proves that events become the documented lines and come back from them: also from lines of other versions, which know more or less.
#include "runtime/telemetry/event_json.hpp"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <limits>
#include <sstream>

#include "tests/support/repository.hpp"

using namespace prime;
using namespace prime::telemetry;

namespace {

/// A value for each field, no two alike where the type allows it.
struct Filling {
  std::uint64_t& next;

  template <class T>
  void operator()(std::string_view key, T& value) const {
    if constexpr (requires { value.has_value(); }) (*this)(key, value.emplace());
    else if constexpr (std::is_same_v<T, bool>) value = true;
    else if constexpr (std::is_same_v<T, double>) value = static_cast<double>(++next) + 0.25;
    else if constexpr (std::is_same_v<T, Duration>) value = Duration{++next * 1'500'000'000};
    else if constexpr (std::is_same_v<T, Digest>) value = {++next, 7};
    else if constexpr (std::is_same_v<T, OperationId>) value = {Epoch{++next}, Sequence{2}, Tag{next % 2}};
    else if constexpr (std::is_same_v<T, std::string>) value = "text " + std::to_string(++next);
    else if constexpr (std::is_same_v<T, std::vector<std::string>>) value = {"a:1", "b:2"};
    else if constexpr (std::is_same_v<T, std::vector<PeerId>>) value = {PeerId{0xa1}, PeerId{0xb2}};
    else if constexpr (std::is_same_v<T, Cause>) value = Error{ErrorName::PeerLost, "its connection closed"};
    else if constexpr (std::is_same_v<T, Who>) value = {PeerId{0xa1}, "brave-otter", "otter", 1};
    else if constexpr (Worded<T>) value = static_cast<T>(1);
    else if constexpr (requires { value.value; }) value.value = ++next;
    else value = static_cast<T>(++next);
  }
};

std::vector<JournalEvent> one_of_each() {
  std::vector<JournalEvent> events;
  std::uint64_t next = 0;
#define EVENT(Struct, name, writer, durability, fields, meaning) \
  {                                                              \
    events::Struct event;                                        \
    for_each_field(event, Filling{next});                        \
    events.emplace_back(std::move(event));                       \
  }
#include "messages/events.def"
#undef EVENT
  return events;
}

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file{test::repository() / path};
  return {std::istreambuf_iterator<char>{file}, {}};
}

void check_fresh(const std::filesystem::path& path, const std::string& text) {
  if (const char* record = std::getenv("PRIME_RECORD"); record != nullptr && std::string_view{record} == "1")
    std::ofstream{test::repository() / path} << text;
  BOOST_TEST((text_of(path) == text), path.string() << " is stale: run PRIME_RECORD=1 ./dev test -R runtime_telemetry");
}

JournalEvent event_of(JournalWriter writer, const std::string& name, const nlohmann::json& fields) {
  const auto read = read_event(writer, name, nlohmann::json::parse(fields.dump()));  // with the types that a file gives
  BOOST_REQUIRE_MESSAGE(read && *read, name);
  return **read;
}

}  // namespace

BOOST_AUTO_TEST_CASE(each_event_becomes_its_line_and_comes_back) {
  for (const auto& event : one_of_each()) {
    const auto& row = info(event);
    const auto line = nlohmann::json::parse(fields_of(event).dump());  // with the types that a file gives
    const auto read = read_event(row.writer, std::string{row.name}, line);
    BOOST_REQUIRE_MESSAGE(read && *read, row.name);
    BOOST_TEST((**read == event), row.name);
  }
}

BOOST_AUTO_TEST_CASE(a_process_reads_its_own_events_under_a_name_that_two_have) {
  const nlohmann::json fields{{"outer_step", 3}, {"epoch", 1}};
  BOOST_TEST(std::holds_alternative<events::OuterStepBegun>(event_of(JournalWriter::Coordinator, "outer_step_begun", fields)));
  BOOST_TEST(std::holds_alternative<events::StepEntered>(event_of(JournalWriter::Agent, "outer_step_begun", fields)));
  BOOST_TEST(std::holds_alternative<events::ProcessEnded>(event_of(JournalWriter::Agent, "process_ended", {{"exit_code", 0}})));
  // No row is hidden behind another one.
  for (std::size_t i = 0; i < std::size(EVENTS); ++i)
    for (std::size_t j = 0; j < i; ++j)
      BOOST_TEST((EVENTS[i].name != EVENTS[j].name || (EVENTS[i].writer != EVENTS[j].writer && EVENTS[i].writer != JournalWriter::Process &&
                                                       EVENTS[j].writer != JournalWriter::Process)));
}

/// The files are journals of a run of the version before there was a table.
BOOST_AUTO_TEST_CASE(lines_are_byte_for_byte_those_that_were_written_before_there_was_a_table) {
  for (const auto& [name, writer] : {std::pair{"coordinator", JournalWriter::Coordinator}, {"agent", JournalWriter::Agent}}) {
    std::istringstream lines{text_of(std::string{"tests/runtime/telemetry/golden/"} + name + ".jsonl")};
    std::size_t count = 0;
    for (std::string text; std::getline(lines, text); ++count) {
      auto line = nlohmann::json::parse(text);
      const auto event = event_of(writer, line.at("event"), line);
      for (const auto* own : {"t", "seq", "event"}) line.erase(own);
      BOOST_TEST(fields_of(event).dump() == line.dump(), text);
    }
    BOOST_TEST(count > 10U);
  }
}

BOOST_AUTO_TEST_CASE(what_is_optional_and_absent_has_no_key_and_what_is_not_finite_is_null) {
  BOOST_TEST(fields_of(events::ProcessEnded{}).dump() == R"({"exit_code":0})");
  BOOST_TEST(fields_of(events::PeerReturned{Who{PeerId{0xa1}, "otter"}}).dump() == R"({"name":"otter","peer":"00000000000000a1"})");
  events::PeerReady ready;
  ready.loss = std::nan("");
  BOOST_TEST(fields_of(ready).at("loss").is_null());
  BOOST_TEST(std::isnan(std::get<events::PeerReady>(event_of(JournalWriter::Coordinator, "peer_ready", {{"loss", nullptr}})).loss));
}

BOOST_AUTO_TEST_CASE(lines_of_older_and_newer_versions_are_read) {
  const auto older = event_of(JournalWriter::Coordinator, "outer_step_aborted", {{"outer_step", 3}, {"reason", "x"}});
  BOOST_TEST(std::get<events::OuterStepAborted>(older).outer_step.value == 3U);
  BOOST_TEST(!std::get<events::OuterStepAborted>(older).cause.has_value());
  const auto newer = event_of(JournalWriter::Coordinator, "pause_ended", {{"members", 2}, {"of_a_newer_version", {1, 2}}});
  BOOST_TEST(std::get<events::PauseEnded>(newer).members == 2U);
  BOOST_TEST(!read_event(JournalWriter::Coordinator, "from_the_future", {{"peer", 7}}).value().has_value());
  BOOST_TEST(!read_event(JournalWriter::Coordinator, "trainer_bound", {}).value().has_value(), "an agent's event");
  // A cause of a newer version keeps its words; one of this version has its name, too.
  const auto cause = [](const char* text) {
    return std::get<events::PeerLost>(event_of(JournalWriter::Coordinator, "peer_lost", {{"reason", text}})).reason;
  };
  BOOST_TEST((cause("a peer was lost: reset [PR0502]") == Cause{Error{ErrorName::PeerLost, "reset"}}));
  BOOST_TEST((cause("eaten by a whale [PR9999]") == Cause{std::string{"eaten by a whale [PR9999]"}}));
  BOOST_TEST(
      (std::get<events::Waiting>(event_of(JournalWriter::Coordinator, "waiting", {{"phase", "dreaming"}})).phase == RunPhase::Waiting));
}

BOOST_AUTO_TEST_CASE(what_is_decided_is_on_disk_before_it_is_told_and_nothing_of_an_agent_waits_for_its_disk) {
  for (const JournalEvent& event : {JournalEvent{events::OuterStepCommitted{}},
                                    {events::RolledBack{}},
                                    {events::FinalStateSaved{}},
                                    {events::FinalReport{}},
                                    {events::RunDone{}},
                                    {events::RunStopped{}},
                                    {events::RunFailed{}}})
    BOOST_CHECK(info(event).durability == Durability::Durable);
  for (const auto& row : EVENTS) BOOST_TEST((row.writer == JournalWriter::Coordinator || row.durability == Durability::Written), row.name);
}

BOOST_AUTO_TEST_CASE(a_field_that_is_not_of_its_form_is_named) {
  const auto complaint = [](const char* name, nlohmann::json fields) {
    const auto read = read_event(JournalWriter::Coordinator, name, fields);
    return read ? std::string{"none"} : to_string(read.error());
  };
  BOOST_TEST(complaint("outer_step_begun", {{"epoch", "two"}}) ==
             "a file could not be read or written: a line of a journal is damaged: `epoch` of outer_step_begun [PR0701]");
  for (const auto& peer : {nlohmann::json(7), nlohmann::json("xyz"), nlohmann::json(nullptr)})
    BOOST_TEST(complaint("peer_lost", {{"peer", peer}}).find("`peer`") != std::string::npos);
  BOOST_TEST(complaint("peer_lost", {{"shard", 1ULL << 32}}).find("`shard`") != std::string::npos);
  BOOST_TEST(complaint("peer_lost", {{"shard", -1}}).find("`shard`") != std::string::npos);
  BOOST_TEST(complaint("waiting", {{"left_s", 1e300}}).find("`left_s`") != std::string::npos);
  BOOST_TEST(complaint("waiting", {{"left_s", std::nan("")}}).find("`left_s`") != std::string::npos);
  for (const auto* operation : {"1", "1.", "1.2#", ".2", "1.2x", "-1.2", "01.2", ""})
    BOOST_TEST(complaint("reduce_started", {{"operation", operation}}).find("`operation`") != std::string::npos, operation);
  BOOST_TEST(complaint("outer_step_committed", {{"contributors", {"a1"}}}).find("`contributors`") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(the_page_of_events_is_fresh) { check_fresh("docs/EVENTS.md", events_page()); }

#include "runtime/agent/record_journal.hpp"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <unistd.h>

namespace prime {
namespace {

nlohmann::json to_json(const Record::Value& value) {
  return std::visit(overloaded{
                        [](std::uint64_t x) { return nlohmann::json(x); },
                        [](double x) { return std::isfinite(x) ? nlohmann::json(x) : nlohmann::json(nullptr); },
                        [](bool x) { return nlohmann::json(x); },
                        [](const std::string& x) { return nlohmann::json(x); },
                        [](const std::vector<std::string>& x) { return nlohmann::json(x); },
                    },
                    value);
}

/// Field 22 of /proc/self/stat: the start of this process in ticks since boot.
std::uint64_t start_ticks() {
  std::ifstream file("/proc/self/stat");
  std::string text;
  std::getline(file, text);
  std::istringstream fields(text.substr(text.rfind(')') + 1));
  std::string field;
  for (int i = 3; i <= 22 && fields >> field; ++i) {
  }
  return std::strtoull(field.c_str(), nullptr, 10);
}

}  // namespace

Result<RecordJournal> RecordJournal::open(const std::filesystem::path& path) {
  PRIME_TRY(auto journal, store::Journal::open(path));
  return RecordJournal{std::move(journal)};
}

void RecordJournal::append(const Record& record) {
  nlohmann::json fields = nlohmann::json::object();
  for (const auto& [key, value] : record.fields) fields[key] = to_json(value);
  if (const auto written = journal_.append(record.event, fields, record.durable); !written) {
    std::fputs(render(written.error()).c_str(), stderr);
    std::_Exit(info(written.error().name).exit_code);
  }
}

Record process_started(const std::string& role, const std::string& run) {
  return Record{"process_started"}
      .with("pid", static_cast<std::uint64_t>(::getpid()))
      .with("start_ticks", start_ticks())
      .with("role", role)
      .with("run", run)
      .with("protocol", std::uint64_t{PROTOCOL_VERSION});
}

Record process_ended(const Result<void>& outcome) {
  auto record = Record{"process_ended"}.with("exit_code", static_cast<std::uint64_t>(outcome ? 0 : info(outcome.error().name).exit_code));
  if (!outcome) record = std::move(record).with("reason", to_string(outcome.error()));
  return record;
}

}  // namespace prime

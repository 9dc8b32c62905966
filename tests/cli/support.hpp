// Owns what the command line's tests share: journals written by hand, golden files, a directory that goes away.
#pragma once

#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "runtime/store/journal.hpp"
#include "runtime/telemetry/event_json.hpp"
#include "tests/support/repository.hpp"

namespace prime::test {

inline std::string file_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// Compares with a file of the repository; with PRIME_WRITE_GOLDENS set it is written instead, for a person to read the difference.
inline void check_golden(const std::filesystem::path& path_in_repository, const std::string& text) {
  const auto path = repository() / path_in_repository;
  if (std::getenv("PRIME_WRITE_GOLDENS") != nullptr) std::ofstream(path, std::ios::binary) << text;
  BOOST_TEST(text == file_text(path), path_in_repository << " differs from:\n" << text);
}

/// A journal as its process would write it, with times that do not change.
class HandwrittenJournal {
 public:
  HandwrittenJournal& add(const std::string& event, nlohmann::json fields = nlohmann::json::object()) {
    const auto seq = lines_.size() + 1;
    fields["t"] = "2031-05-04T09:14:0" + std::to_string(seq % 10) + ".137Z";
    fields["seq"] = seq;
    fields["event"] = event;
    lines_.push_back(store::JournalLine{seq, event, nlohmann::json::parse(fields.dump())});  // with the types that a file gives
    return *this;
  }
  [[nodiscard]] const std::vector<store::JournalLine>& lines() const { return lines_; }
  /// What those of its lines tell that are read, and when.
  template <class Use>
  void read(JournalWriter writer, Use use) const {
    for (const auto& line : lines_)
      if (const auto event = telemetry::read_event(writer, line); event && *event) use(**event, telemetry::time_of(line));
  }
  void write(const std::filesystem::path& path) const {
    std::filesystem::create_directories(path.parent_path());
    std::ofstream file(path, std::ios::binary);
    for (const auto& line : lines_) file << line.fields.dump() << "\n";
  }

 private:
  std::vector<store::JournalLine> lines_;
};

/// Removed with all that is in it.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    auto name = (std::filesystem::temp_directory_path() / "prime-cli-XXXXXX").string();
    BOOST_REQUIRE(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline constexpr const char* OTTER = "00000000000000a1";
inline constexpr const char* HERON = "00000000000000b2";
inline constexpr const char* LYNX = "00000000000000c3";
inline constexpr const char* BEAR = "00000000000000d4";
inline constexpr const char* IBEX = "00000000000000d4";
inline constexpr const char* DIGEST = "0123456789abcdef0123456789abcdef";

/// A coordinator that three peers have found and that has begun step 1.
inline HandwrittenJournal training_run() {
  HandwrittenJournal journal;
  journal
      .add("process_started",
           {{"pid", 100}, {"start_ticks", 5000}, {"role", "coordinator"}, {"run", "quickstart-k7qd2a"}, {"name", "quickstart"}})
      .add("coordinator_listening", {{"address", "127.0.0.1:7077"}})
      .add("waiting", {{"phase", "waiting"},
                       {"for", "peers: 1 of 3 are ready; gives up 10min after the wait began"},
                       {"waited_s", 60.0},
                       {"left_s", 540.0}});
  const auto arrive = [&](const char* id, const char* name, int pid) {
    journal.add("peer_joining", {{"peer", id}, {"name", name}, {"pid", pid}, {"address", "127.0.0.1:9"}})
        .add("peer_seated", {{"peer", id}, {"name", name}, {"trainer_pid", pid + 1}, {"digest", DIGEST}});
  };
  arrive(OTTER, "brave-otter", 110);
  arrive(HERON, "calm-heron", 120);
  arrive(LYNX, "wild-lynx", 130);
  journal.add("state_founded", {{"peer", OTTER}, {"name", "brave-otter"}, {"digest", DIGEST}, {"elements", 1000}});
  for (const auto& [id, name] : {std::pair{OTTER, "brave-otter"}, {HERON, "calm-heron"}, {LYNX, "wild-lynx"}})
    journal.add("peer_admitted", {{"peer", id}, {"name", name}, {"epoch", 1}, {"revision", 0}});
  journal.add("outer_step_begun", {{"outer_step", 1}, {"epoch", 1}, {"peers", 3}}).add("waiting", {{"phase", "training"}, {"for", ""}});
  return journal;
}

/// A sharded run: one replica is whole and trains, the second lacks a shard.
inline HandwrittenJournal sharded_run() {
  HandwrittenJournal journal;
  journal
      .add("process_started", {{"pid", 100},
                               {"start_ticks", 5000},
                               {"role", "coordinator"},
                               {"run", "quickstart-k7qd2a"},
                               {"name", "quickstart"},
                               {"shards", 2}})
      .add("coordinator_listening", {{"address", "127.0.0.1:7077"}});
  const auto about = [&](const char* event, const char* id, const std::string& replica, int shard, nlohmann::json more) {
    more.update({{"peer", id}, {"name", replica + "." + std::to_string(shard)}, {"replica", replica}, {"shard", shard}});
    journal.add(event, std::move(more));
  };
  about("shard_waits", OTTER, "brave-otter", 0, {{"pid", 110}, {"address", "127.0.0.1:9"}, {"missing", "shard 1"}});
  for (const auto* event : {"peer_joining", "peer_seated", "peer_admitted"}) {
    about(event, OTTER, "brave-otter", 0, {{"pid", 110}, {"trainer_pid", 111}, {"epoch", 1}, {"revision", 0}});
    about(event, HERON, "brave-otter", 1, {{"pid", 120}, {"trainer_pid", 121}, {"epoch", 1}, {"revision", 0}});
  }
  journal.add("outer_step_begun", {{"outer_step", 1}, {"epoch", 1}, {"peers", 1}});
  about("shard_waits", LYNX, "wild-lynx", 1, {{"pid", 130}, {"address", "127.0.0.1:9"}, {"missing", "shard 0"}});
  return journal;
}

/// The fields of a committed step over the given contributors.
inline nlohmann::json committed(std::uint64_t step, double loss, const std::vector<std::string>& contributors) {
  return {{"outer_step", step},
          {"epoch", 1},
          {"revision", step},
          {"digest", DIGEST},
          {"contributors", contributors},
          {"weight", 3000},
          {"peers", contributors.size()},
          {"loss", loss},
          {"tokens", 3000 * step},
          {"tokens_per_s", 21400.0},
          {"wire_bytes", 1100000},
          {"reduce_s", 0.041}};
}

}  // namespace prime::test

// Owns what a simulated run looks like: the object of `simulate -o json`, a line for people, and the account of a failure.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "runtime/simulation/simulate.hpp"

namespace prime::cli {

/// Schema primectl.simulate/1.
nlohmann::ordered_json simulation_json(const sim::Summary& summary);
std::string simulation_line(const sim::Summary& summary);
/// What broke, the last events (none when `events` is 0), and the line that replays it.
std::string simulation_failure(const sim::Summary& summary, const std::string& replay, std::size_t events);

/// Of many seeds.
class SimulationTotals {
 public:
  void add(const sim::Summary& summary);
  [[nodiscard]] bool failed() const { return failed_ > 0; }
  [[nodiscard]] std::string text() const;

 private:
  std::uint64_t runs_ = 0;
  std::uint64_t failed_ = 0;
  std::uint64_t committed_ = 0;
  std::uint64_t aborted_ = 0;
  std::map<std::string, std::uint64_t> ends_;
};

}  // namespace prime::cli

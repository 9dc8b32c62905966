// Owns what an evaluation looks like: `eval -o json`, and the text for people.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "runtime/trainer/assay/report.hpp"

namespace prime::cli {

struct Evaluated {
  std::string model;                                   ///< the checkpoint
  std::string manifest;                                ///< its run
  std::uint64_t learned_reads = 0, learned_bases = 0;  ///< by the tables
  std::vector<std::string> positive;
  assay::Report report;
  double seconds = 0;

  /// The order with the fewest bits per base.
  [[nodiscard]] const assay::OrderBits& best_order() const;
};

/// Schema primectl.eval/1.
nlohmann::ordered_json eval_json(const Evaluated& evaluated);
std::string eval_text(const Evaluated& evaluated);

}  // namespace prime::cli

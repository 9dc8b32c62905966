// Owns how compiled data is shown: as tables for people, and as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "runtime/trainer/data/corpus.hpp"

namespace prime::cli {

/// What became of a manifest's data, as `data build` and `data stats` tell it.
struct CompiledData {
  const data::Corpus& corpus;
  std::string run;
  std::string cache;
};
/// "80 %, from sample 1000000 on 20 % of the samples"
std::string shares_text(const std::vector<data::MixShare>& shares);
nlohmann::ordered_json data_json(const CompiledData& data);
/// One row for each source, and below it what was left out of it.
std::string data_text(const CompiledData& data);

/// One sample of the run's order.
struct InspectedSample {
  const data::Corpus& corpus;
  std::uint64_t number = 0;
  std::vector<data::Token> tokens;
};
nlohmann::ordered_json sample_json(const InspectedSample& sample);
/// Each document with its ids and its text.
std::string sample_text(const InspectedSample& sample);

}  // namespace prime::cli

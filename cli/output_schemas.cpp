#include "cli/output_schemas.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "runtime/manifest/describe.hpp"
#include "runtime/simulation/scenario_file.hpp"

namespace prime::cli {
namespace {

struct EmbeddedSchema {
  const char* name;
  const char* text;
};
/// The files of manifests/schema/output.
constexpr EmbeddedSchema OUTPUT_SCHEMAS[] = {
#include "output_schemas.inc"
};

}  // namespace

std::vector<NamedSchema> schemas() {
  std::vector<NamedSchema> all{{"run", "manifest of a run", manifest::json_schema()},
                               {"scenario", "scenario of `primectl simulate`", sim::scenario_schema()}};
  for (const auto& [name, text] : OUTPUT_SCHEMAS) all.push_back({name, nlohmann::json::parse(text).value("title", std::string{}), text});
  std::ranges::sort(all, {}, &NamedSchema::name);
  return all;
}

}  // namespace prime::cli

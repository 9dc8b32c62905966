// Owns reading a scenario file: each problem says what, where, why and what next, as with manifests.
#include "runtime/simulation/scenario_file.hpp"

#include <algorithm>
#include <map>

#include "runtime/manifest/document.hpp"
#include "runtime/manifest/fields.hpp"
#include "runtime/simulation/scenario_keys.hpp"

namespace prime::sim {
namespace {

using manifest::Entry;
using manifest::Node;
using manifest::Place;
using manifest::Report;
using manifest::shown;

constexpr manifest::DocumentKind SCENARIO{"scenario", "`version: 1` and `scenario: NAME`"};

/// Walks a map beside its key table, fills the target, and remembers where each key was written.
template <class Target>
class MapReader {
 public:
  MapReader(const std::vector<Key<Target>>& keys, std::string prefix, Report& report)
      : keys_(keys), prefix_(std::move(prefix)), report_(report) {}

  void read(const Node& map, Target& target) {
    walk("", map, target);
    for (const auto& key : keys_)
      if (key.required && !places_.contains(key.path))
        report_.add(ErrorName::ManifestMissingKey, prefix_.empty() ? Place{} : map.place,
                    "the required key `" + prefix_ + key.path + "` is missing", "add `" + key.path + ": " + key.example + "`");
  }
  [[nodiscard]] bool wrote(const std::string& path) const { return places_.contains(path); }
  [[nodiscard]] Place place_of(const std::string& path) const { return places_.contains(path) ? places_.at(path) : Place{}; }
  [[nodiscard]] const std::map<std::string, Place>& places() const { return places_; }

 private:
  void walk(const std::string& section, const Node& map, Target& target) {
    for (const auto& entry : map.entries) {
      const auto path = manifest::join_path(section, entry.key);
      const auto key = std::find_if(keys_.begin(), keys_.end(), [&](const auto& k) { return k.path == path; });
      if (key == keys_.end()) {
        report_.add(ErrorName::ManifestUnknownKey, entry.place, "unknown key `" + shown(prefix_ + path) + "`",
                    hint_for(section, entry.key));
        continue;
      }
      places_[path] = entry.place;
      if (entry.value.kind == Node::Kind::Broken) continue;
      if (entry.value.kind == Node::Kind::Null)
        report_.add(ErrorName::ManifestValue, entry.place, "`" + prefix_ + path + "` has no value",
                    "write one, or remove the key to take the default");
      else if (entry.value.kind != key->kind || !key->read(entry.value, target)) refuse(*key, entry.value);
      else if (entry.value.kind == Node::Kind::Map) walk(path, entry.value, target);
    }
  }

  /// The item of a list that is none of its words is shown rather than the list.
  void refuse(const Key<Target>& key, const Node& value) {
    const auto wrong = std::find_if(value.items.begin(), value.items.end(), [&](const Node& item) {
      return !key.words.empty() && std::find(key.words.begin(), key.words.end(), item.text) == key.words.end();
    });
    const auto& node = value.kind == key.kind && wrong != value.items.end() ? *wrong : value;
    const std::vector<std::string_view> words(key.words.begin(), key.words.end());
    const auto meant = manifest::nearest(node.text, words);
    const auto name = std::string{manifest::last_key(key.path)};
    auto hint = "for example `" + name + ": " + key.example + "`";
    if (meant && *meant != node.text) hint = "did you mean " + near_ones(node.text, words) + "?";
    else if (meant) hint = "write `" + name + ": [" + node.text + "]`";
    report_.add(ErrorName::ManifestValue, node.place, "`" + prefix_ + key.path + "` must be " + key.expected + ", found " + shown(node),
                std::move(hint));
  }

  /// The nearest three at most: "`a`, `b` or `c`".
  static std::string near_ones(const std::string& word, std::vector<std::string_view> words) {
    std::vector<std::string> found;
    for (auto meant = manifest::nearest(word, words); meant && found.size() < 3; meant = manifest::nearest(word, words)) {
      found.emplace_back(*meant);
      std::erase(words, *meant);
    }
    return listed(found);
  }

  [[nodiscard]] std::string hint_for(const std::string& section, const std::string& word) const {
    std::vector<std::string_view> siblings;
    for (const auto& key : keys_)
      if (manifest::parent_path(key.path) == section) siblings.push_back(manifest::last_key(key.path));
    if (const auto meant = manifest::nearest(word, siblings)) return "did you mean `" + std::string{*meant} + "`?";
    for (const auto& key : keys_)
      if (manifest::last_key(key.path) == word) return "it belongs elsewhere: `" + key.path + "`";
    std::string known;
    for (const auto sibling : siblings) known += (known.empty() ? "`" : ", `") + std::string{sibling} + "`";
    return known.empty() ? "`" + section + "` has no keys" : "known here: " + known;
  }

  const std::vector<Key<Target>>& keys_;
  std::string prefix_;
  Report& report_;
  std::map<std::string, Place> places_;
};

void check_plan(const FaultPlan& plan, const MapReader<FaultPlan>& reader, const Node& item, const std::string& name, Report& report) {
  const auto moments = (plan.at ? 1 : 0) + (plan.at_event ? 1 : 0) + (plan.at_phase.empty() ? 0 : 1);
  const bool tried = reader.wrote("at") || reader.wrote("at_event") || reader.wrote("at_phase");
  if (moments > 1 || (moments == 0 && !tried))
    report.add(ErrorName::ManifestValue, item.place, "`" + name + "` must have one of `at`, `at_event` or `at_phase`",
               "for example `at: 5s..40s`");
  if (plan.occurrence && plan.at_phase.empty())
    report.add(ErrorName::ManifestValue, reader.place_of("occurrence"), "`" + name + ".occurrence` counts entries into a phase",
               "add `at_phase`, or remove it");
  if (plan.hold && !can_be_held(plan.kind))
    report.add(ErrorName::ManifestValue, reader.place_of("hold"),
               "`" + name + ".hold` means nothing for `" + word_of(plan.kind) + "`: it does not pass", "remove it");
}

void read_faults(const Node& list, ScenarioFile& file, Report& report) {
  for (const auto& item : list.items) {
    const auto name = "faults[" + std::to_string(file.faults.size()) + "]";
    FaultPlan plan;
    if (item.kind == Node::Kind::Map) {
      MapReader<FaultPlan> reader{fault_keys(), name + ".", report};
      reader.read(item, plan);
      check_plan(plan, reader, item, name, report);
    } else if (item.kind != Node::Kind::Broken) {
      report.add(ErrorName::ManifestValue, item.place, "`" + name + "` must be a map, found " + shown(item),
                 "for example `{kind: kill, at: 10s}`");
    }
    file.faults.push_back(std::move(plan));
  }
}

/// What is drawn may be anything in its range, so the ranges must not overlap the wrong way.
void check_membership(const ScenarioFile& file, const MapReader<ScenarioFile>& reader, Report& report) {
  const auto limit = [&](const std::optional<Count>& count, const char* path) {
    if (count && count->high > file.peers.low)
      report.add(ErrorName::ManifestValue, reader.place_of(path),
                 "`" + std::string{path} + "` may be more than the peers of the start, " + std::to_string(file.peers.low),
                 "lower it, or raise `peers`");
  };
  limit(file.minimum, "membership.minimum");
  limit(file.quorum, "membership.quorum");
  if (file.maximum && file.maximum->low < file.peers.high)
    report.add(ErrorName::ManifestValue, reader.place_of("membership.maximum"),
               "`membership.maximum` may be less than the peers of the start, " + std::to_string(file.peers.high),
               "raise it, or lower `peers`");
  if (file.broken_link && file.peers.low < 2)
    report.add(ErrorName::ManifestValue, reader.place_of("network.broken_link"), "`network.broken_link` needs two peers", "raise `peers`");
}

void check_random(const MapReader<ScenarioFile>& reader, Report& report) {
  for (const auto& [path, place] : reader.places())
    if (path != "version" && path != "scenario" && path != "random" && path != "reaches" && path.find('.') == std::string::npos)
      report.add(ErrorName::ManifestValue, place, "`" + path + "` is drawn from the seed when `random` is true", "remove one of the two");
}

ScenarioFile read_scenario(const Node& root, Report& report) {
  ScenarioFile file;
  MapReader<ScenarioFile> reader{scenario_keys(), "", report};
  reader.read(root, file);
  const auto faults = std::find_if(root.entries.begin(), root.entries.end(), [](const Entry& entry) { return entry.key == "faults"; });
  if (faults != root.entries.end() && faults->value.kind == Node::Kind::List) read_faults(faults->value, file, report);
  if (file.random) check_random(reader, report);
  check_membership(file, reader, report);
  return file;
}

/// A key that only run manifests have, where nothing else says that it is a scenario.
const Entry* manifest_key(const Node& root) {
  const auto is_scenario_key = [](std::string_view name) {
    const auto& keys = scenario_keys();
    return std::any_of(keys.begin(), keys.end(),
                       [&](const auto& key) { return key.path == name || manifest::parent_path(key.path) == name; });
  };
  const Entry* found = nullptr;
  for (const auto& entry : root.entries) {
    if (entry.key == "scenario") return nullptr;
    if (found == nullptr && manifest::find_field(entry.key) != nullptr && !is_scenario_key(entry.key)) found = &entry;
  }
  return found;
}

}  // namespace

ScenarioOutcome load_scenario(const std::string& path) {
  Report report{path, {}, SCENARIO};
  if (const auto text = manifest::read_file(path, report)) return parse_scenario(*text, path);
  return {.scenario = {}, .problems = report.take(), .text = {}};
}

ScenarioOutcome parse_scenario(std::string_view text, std::string_view source_name) {
  Report report{source_name, {}, SCENARIO};
  ScenarioOutcome outcome{.scenario = {}, .problems = {}, .text = std::string{text}};
  const auto root = manifest::read_document(text, report);
  // One answer, instead of one for each of its keys.
  if (const auto* key = manifest_key(root))
    report.add(ErrorName::ManifestUnknownKey, key->place, "this is a run manifest, and not a scenario",
               "`primectl up` starts a run of it; a scenario says what goes wrong when in a simulated one, such as "
               "manifests/scenarios/kills.yaml");
  else if (root.kind == Node::Kind::Map) outcome.scenario = read_scenario(root, report);
  if (report.empty()) return outcome;
  outcome.scenario.reset();
  outcome.problems = report.take();
  return outcome;
}

std::string render(const ScenarioOutcome& outcome) {
  const auto shown_ones = std::min(outcome.problems.size(), manifest::MAX_PROBLEMS);
  return manifest::render(std::span{outcome.problems}.first(shown_ones), outcome.problems.size() - shown_ones, outcome.text);
}

}  // namespace prime::sim

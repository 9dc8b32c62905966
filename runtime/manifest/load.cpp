#include "runtime/manifest/load.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "runtime/manifest/canonical.hpp"
#include "runtime/manifest/check.hpp"
#include "runtime/manifest/document.hpp"
#include "runtime/manifest/fields.hpp"
#include "runtime/manifest/values.hpp"

namespace prime::manifest {
namespace {

/// Walks a tree beside the field table, fills a manifest, and remembers where each key was written.
class Loader {
 public:
  explicit Loader(Report& report) : report_(report) {}

  Manifest load(const Node& root) {
    walk("", root);
    for (const auto& field : fields()) {
      if (places_.count(field.path) != 0) continue;
      if (field.required) miss(field);
      if (field.derive != nullptr) field.derive(manifest_);
    }
    for (auto& conflict : conflicts(manifest_)) report_conflict(std::move(conflict));
    return std::move(manifest_);
  }

 private:
  void walk(const std::string& section, const Node& map) {
    for (const auto& entry : map.entries) {
      const auto* field = find_field(join_path(section, entry.key));
      if (field == nullptr) {
        report_unknown(section, entry);
        continue;
      }
      places_[field->path] = entry.value.place;
      if (auto fault = store(*field, entry.value, manifest_)) {
        faulty_.insert(field->path);
        // Where nothing was written, the key is the nearest thing to show.
        const bool nothing = entry.value.kind == Node::Kind::Null && !entry.value.place.override_index;
        report_.add(ErrorName::ManifestValue, nothing ? entry.place : fault->place, "`" + std::string{field->path} + "` " + fault->message,
                    fault->hint);
      } else if (entry.value.kind == Node::Kind::Broken) {
        faulty_.insert(field->path);
      } else if (entry.value.kind == Node::Kind::Map) {
        walk(std::string{field->path}, entry.value);
      }
    }
  }

  void report_unknown(const std::string& section, const Entry& entry) {
    std::vector<std::string_view> siblings;
    for (const auto* child : children(section)) siblings.push_back(last_key(child->path));
    report_.add(ErrorName::ManifestUnknownKey, entry.place, "unknown key `" + shown(join_path(section, entry.key)) + "`",
                unknown_hint(section, entry.key, siblings));
  }

  static std::string unknown_hint(const std::string& section, const std::string& key, const std::vector<std::string_view>& siblings) {
    if (const auto meant = nearest(key, siblings)) return "did you mean `" + std::string{*meant} + "`?";
    for (const auto& field : fields())
      if (last_key(field.path) == key) return "it belongs elsewhere: `" + std::string{field.path} + "`";
    std::string known;
    for (const auto sibling : siblings) known += (known.empty() ? "`" : ", `") + std::string{sibling} + "`";
    return known.empty() ? "`" + section + "` has no keys" : "known here: " + known;
  }

  void miss(const Field& field) {
    const auto key = std::string{field.path};
    report_.add(ErrorName::ManifestMissingKey, {}, "the required key `" + key + "` is missing",
                "add `" + key + ": " + example(field) + "`");
  }

  void report_conflict(Conflict conflict) {
    const auto faulty = [&](std::string_view path) { return faulty_.count(path) != 0; };
    if (std::any_of(conflict.paths.begin(), conflict.paths.end(), faulty)) return;
    const auto written = std::find_if(conflict.paths.begin(), conflict.paths.end(), [&](auto path) { return places_.count(path) != 0; });
    const auto place = written == conflict.paths.end() ? Place{} : places_.at(*written);
    report_.add(ErrorName::ManifestValue, place, std::move(conflict.message), std::move(conflict.hint));
  }

  Report& report_;
  Manifest manifest_;
  std::map<std::string_view, Place> places_;
  std::set<std::string_view> faulty_;
};

/// The key that a scenario begins with, where nothing says that this is to be a run's manifest.
const Entry* scenario_key(const Node& root) {
  const auto key = [&](std::string_view name) {
    return std::find_if(root.entries.begin(), root.entries.end(), [&](const Entry& entry) { return entry.key == name; });
  };
  const auto found = key("scenario");
  return found != root.entries.end() && key("run") == root.entries.end() ? &*found : nullptr;
}

Result<Manifest> as_result(LoadOutcome outcome) {
  if (!outcome.manifest) return fail(first_error(outcome));
  return std::move(*outcome.manifest);
}

}  // namespace

LoadOutcome load_manifest(const std::string& path, std::span<const std::string> overrides) {
  Report report{path, overrides};
  if (const auto text = read_file(path, report)) return parse_manifest(*text, path, overrides);
  return {.manifest = {}, .problems = report.take(), .omitted = 0, .text = {}};
}

LoadOutcome parse_manifest(std::string_view text, std::string_view source_name, std::span<const std::string> overrides) {
  Report report{source_name, overrides};
  auto root = read_document(text, report);
  for (std::size_t i = 0; i < overrides.size(); ++i) apply_override(root, overrides[i], i, report);
  LoadOutcome outcome{.manifest = {}, .problems = {}, .omitted = 0, .text = std::string{text}};
  // One answer, instead of one for each of its keys.
  if (const auto* key = scenario_key(root))
    report.add(ErrorName::ManifestUnknownKey, key->place, "this is a scenario, and not a run manifest",
               "`primectl simulate` runs it; a run manifest begins with `version: 1` and `run: NAME`, such as manifests/quickstart.yaml");
  else if (root.kind == Node::Kind::Map) outcome.manifest = Loader{report}.load(root);
  if (report.empty()) return outcome;
  outcome.manifest.reset();
  outcome.problems = report.take();
  outcome.omitted = outcome.problems.size() - std::min(outcome.problems.size(), MAX_PROBLEMS);
  outcome.problems.resize(outcome.problems.size() - outcome.omitted);
  return outcome;
}

Result<Shared> parse_shared(std::string_view text) {
  const std::span<const std::string> no_overrides;
  Report report{"the run's manifest", no_overrides};
  const auto root = read_document(text, report);
  for (const auto& entry : root.entries)
    if (is_local(entry.key)) return fail(ErrorName::ManifestValue, "the run's manifest holds `local`, which only this machine may choose");
  PRIME_TRY(auto manifest, as_result(parse_manifest(text, "the run's manifest")));
  return std::move(manifest.shared);
}

Result<Manifest> parse_halves(std::string_view shared_text, std::string_view local_text) {
  PRIME_TRY(auto shared, parse_shared(shared_text));
  // The local half alone lacks what a manifest requires; the shared half's own text gives it that.
  Manifest manifest{.shared = std::move(shared), .local = {}};
  return as_result(parse_manifest(shared_yaml(manifest) + std::string{local_text}, "the manifest"));
}

Result<void> check(const Manifest& manifest) {
  // The canonical text meets every rule exactly when the values do, and says the same exactly when nothing was lost in it.
  const auto text = shared_yaml(manifest) + local_yaml(manifest);
  PRIME_TRY(const auto again, as_result(parse_manifest(text, "the manifest")));
  if (again != manifest) return fail(ErrorName::ManifestValue, "a value cannot be written as text; durations are whole milliseconds");
  return {};
}

}  // namespace prime::manifest

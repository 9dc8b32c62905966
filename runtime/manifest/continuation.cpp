#include "runtime/manifest/continuation.hpp"

#include "runtime/manifest/fields.hpp"
#include "runtime/manifest/values.hpp"

namespace prime::manifest {
namespace {

bool is_computed(const Field& field, const Manifest& manifest) {
  if (field.derive == nullptr) return false;
  auto computed = manifest;
  field.derive(computed);
  return computed == manifest;
}

}  // namespace

std::vector<StateChange> state_changes(const Shared& kept, const Shared& wanted) {
  const Manifest before{.shared = kept, .local = {}};
  const Manifest after{.shared = wanted, .local = {}};
  std::vector<StateChange> changes;
  for (const auto& field : fields()) {
    if (!field.of_state || (is_computed(field, before) && is_computed(field, after))) continue;
    auto old = print(field, before);
    auto now = print(field, after);
    if (old != now) changes.push_back({field.path, std::move(old).value_or("absent"), std::move(now).value_or("absent")});
  }
  return changes;
}

}  // namespace prime::manifest

#include "runtime/launch/readiness.hpp"

#include <cerrno>
#include <string>
#include <unistd.h>

namespace prime::launch {
void announce(int descriptor, const nlohmann::json& fields) {
  const auto line = fields.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  std::size_t written = 0;
  while (written < line.size()) {
    const auto count = ::write(descriptor, line.data() + written, line.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) break;  // whoever started us is gone; the run does not depend on it
    written += static_cast<std::size_t>(count);
  }
  ::close(descriptor);
}

void announce(int descriptor, const Error& error) {
  announce(descriptor, nlohmann::json{{"error", {{"name", info(error.name).name}, {"detail", error.detail}, {"context", error.context}}}});
}

std::optional<Result<nlohmann::json>> parse_readiness(std::string_view line) {
  auto object = nlohmann::json::parse(line, nullptr, false);
  if (!object.is_object()) return std::nullopt;
  const auto found = object.find("error");
  if (found == object.end()) return Result<nlohmann::json>{std::move(object)};
  if (!found->is_object()) return std::nullopt;
  Error error{find_error(found->value("name", std::string{})).value_or(ErrorName::InternalError), found->value("detail", std::string{})};
  error.context = found->value("context", std::vector<std::string>{});
  return Result<nlohmann::json>{fail(std::move(error))};
}

}  // namespace prime::launch

#include "runtime/launch/launch_plan.hpp"

#include <cerrno>
#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "runtime/manifest/canonical.hpp"
#include "runtime/manifest/load.hpp"
#include "runtime/store/file_io.hpp"

namespace prime::launch {
namespace {

/// Two manifests and an invite, with room to spare.
constexpr std::size_t PLAN_BYTES_MAX = 4 * manifest::MAX_MANIFEST_BYTES;

Result<nlohmann::json> parse_object(const std::string& text) {
  auto object = nlohmann::json::parse(text, nullptr, false);
  if (!object.is_object())
    return fail(ErrorName::Usage, "stdin holds no launch plan; this command is started by `primectl up` and `primectl join`");
  return object;
}

/// The shared half of an agent comes from its run; this stands in for it, so that the local half can be read as usual.
std::string stand_in_shared() {
  manifest::Manifest manifest;
  manifest.shared.run = "local";
  return manifest::shared_yaml(manifest);
}

/// Unlike what people type it may have no host: all addresses, as net::listen_towards chooses them.
Result<Endpoint> parse_listen(const std::string& text) {
  const bool all = text.starts_with(':');
  PRIME_TRY(auto endpoint, net::parse_endpoint(all ? "[::]" + text : text));
  if (all) endpoint.host.clear();
  return endpoint;
}

}  // namespace

std::string format_plan(const CoordinatorPlan& plan) {
  nlohmann::json object{{"run", plan.run},
                        {"shared", manifest::shared_yaml(plan.manifest)},
                        {"local", manifest::local_yaml(plan.manifest)},
                        {"listen", net::format_endpoint(plan.listen)},
                        {"start_quorum", plan.start_quorum},
                        {"fresh", plan.fresh},
                        {"founders", plan.founders},
                        {"invite", plan.invite},
                        {"key_check", plan.key_check}};
  if (plan.origin) object["origin"] = store::format_state(*plan.origin);
  return object.dump();
}

std::string format_standby_plan(CoordinatorPlan plan, const net::RunKey& key) {
  plan.manifest.local = {};
  plan.listen = {"127.0.0.1", 0};
  plan.invite.clear();
  plan.key_check = net::key_check(key, plan.run);
  return format_plan(plan);
}

std::string format_plan(const AgentPlan& plan) {
  manifest::Manifest manifest;
  manifest.local = plan.local;
  return nlohmann::json{{"invite", plan.invite},
                        {"name", plan.name},
                        {"local", manifest::local_yaml(manifest)},
                        {"checkpoint", plan.checkpoint},
                        {"private_state", plan.private_state},
                        {"replica", plan.replica},
                        {"shard", plan.shard},
                        {"shards", plan.shards}}
      .dump();
}

Result<CoordinatorPlan> parse_coordinator_plan(const std::string& text) {
  PRIME_TRY(const auto object, parse_object(text));
  CoordinatorPlan plan;
  plan.run = object.value("run", std::string{});
  PRIME_TRY(plan.manifest, manifest::parse_halves(object.value("shared", std::string{}), object.value("local", std::string{})));
  PRIME_TRY(plan.listen, parse_listen(object.value("listen", std::string{})));
  plan.start_quorum = object.value("start_quorum", 0U);
  plan.fresh = object.value("fresh", std::string{});
  plan.founders = object.value("founders", std::vector<std::string>{});
  plan.invite = object.value("invite", std::string{});
  plan.key_check = object.value("key_check", std::string{});
  const auto origin = object.value("origin", std::string{});
  plan.origin = store::parse_state(origin);
  if (!origin.empty() && !plan.origin) return fail(ErrorName::InternalError, "the state that the run goes on from is not one: " + origin);
  return plan;
}

Result<AgentPlan> parse_agent_plan(const std::string& text) {
  PRIME_TRY(const auto object, parse_object(text));
  PRIME_TRY(auto manifest, manifest::parse_halves(stand_in_shared(), object.value("local", std::string{})));
  return AgentPlan{object.value("invite", std::string{}),
                   object.value("name", std::string{}),
                   std::move(manifest.local),
                   object.value("checkpoint", std::string{}),
                   object.value("private_state", std::string{}),
                   object.value("replica", std::string{}),
                   object.value("shard", 0U),
                   object.value("shards", 0U)};
}

Result<std::string> take_plan_from_stdin() {
  std::string text(PLAN_BYTES_MAX, '\0');
  std::size_t filled = 0;
  while (filled < text.size()) {
    const auto count = ::read(STDIN_FILENO, text.data() + filled, text.size() - filled);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return fail(store::storage_error("read", "stdin", errno));
    if (count == 0) break;
    filled += static_cast<std::size_t>(count);
  }
  text.resize(filled);
  const store::Descriptor nothing{::open("/dev/null", O_RDONLY | O_CLOEXEC)};
  if (!nothing.open() || ::dup2(nothing.get(), STDIN_FILENO) < 0) return fail(store::storage_error("open", "/dev/null", errno));
  return text;
}

}  // namespace prime::launch

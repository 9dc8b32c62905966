// A trainer of one's own: minimises ½‖x − target‖², where every peer has another target. The run's optimum is the mean of the targets,
// which no peer could find alone. As `local.trainer_command` it serves the agent that starts it; by hand it joins the run that
// PRIMECTL_INVITE names. docs/EMBEDDING.md shows both.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <prime/session.hpp>

int complain(const prime::Error& error) {
  std::fputs(prime::render(error).c_str(), stderr);
  return 1;
}

int main() {
  const char* const invite = std::getenv("PRIMECTL_INVITE");
  const bool started_by_agent = std::getenv("PRIME_AGENT_SOCKET") != nullptr;
  auto session = started_by_agent ? prime::Session::attach() : prime::Session::join({.invite = invite != nullptr ? invite : ""});
  if (!session) return complain(session.error());

  std::vector<float> x(1000, 1.0F);
  if (auto bound = session->bind({"x", {1000}, x}); !bound) return complain(bound.error());

  prime::Digest state;
  double distance = 0;
  while (true) {
    auto step = session->next();
    if (!step) return complain(step.error());
    if (!*step) break;  // the run is done
    const auto target = static_cast<float>((*step)->rank);
    distance = 0;
    for (float& value : x) {
      const float gradient = value - target;
      distance += gradient * gradient;
      value -= 0.1F * gradient;
    }
    auto applied = session->report({.loss = distance / 2, .tokens = x.size()});  // when an outer step ends, x holds the mean of all peers
    if (!applied) return complain(applied.error());
    for (const auto& committed : *applied) {
      state = committed.state;
      std::printf("step %llu: mean over %u peers\n", static_cast<unsigned long long>(committed.step.value), committed.peers);
    }
  }
  if (auto answered = session->finish([](const prime::FinalPlan&) { return prime::FinalAnswer{}; }); !answered)
    return complain(answered.error());
  std::printf("state %s, x[0] = %.6f, distance %.6f\n", prime::to_string(state).c_str(), static_cast<double>(x[0]), std::sqrt(distance));
  return 0;
}

// A trainer for tests, as an agent starts it. Its first argument names how it misbehaves: "well" for not at all.
#include <csignal>
#include <cstdlib>
#include <prime/session.hpp>
#include <string_view>
#include <unistd.h>

#include "tests/runtime/session/quadratic.hpp"

namespace {

int run(prime::Session& session, std::string_view mode) {
  auto x = prime::test::initial_values(7, 1.0F);
  auto y = prime::test::initial_values(6, -4.0F);
  prime::test::must(session.bind({"x", {7}, x}));
  prime::test::must(session.bind({"y", {2, 3}, y}));
  session.export_file("config.json", "{\"fresh\": " + std::string(session.fresh() ? "true" : "false") + "}");
  while (true) {
    auto step = session.next();
    if (!step) return 1;
    if (!*step) break;
    if (mode == "exit") return 3;
    if (mode == "leave") return session.leave() ? 0 : 1;
    if (mode == "fail") {
      session.fail(prime::Error(prime::ErrorName::DataTooSmall, "3 bytes"));
      return 1;
    }
    const double loss = prime::test::descend(x) + prime::test::descend(y);
    if (!session.report({.loss = loss, .tokens = 10, .samples = 2, .held_out = prime::HeldOut{0.5, 64}})) return 1;
  }
  const auto answered = session.finish([](const prime::FinalPlan&) { return prime::FinalAnswer{prime::HeldOut{0.25, 8}, "once upon"}; });
  if (mode == "linger") ::pause();
  return answered ? 0 : 1;
}

}  // namespace

int main(int, char** arguments) {
  const std::string_view mode = arguments[1];
  if (mode == "stubborn") std::signal(SIGTERM, SIG_IGN);
  if (mode == "mute") ::pause();
  auto session = prime::Session::attach();
  if (!session) return 2;
  if (mode == "stubborn") {
    // Says that it has come so far, then listens to nobody.
    session->export_file("ready", "");
    while (true) ::pause();
  }
  return run(*session, mode);
}

// Owns a trainer for tests: minimises ½(x − target)² for each element, where the target is the peer's rank. Needs no torch.
//
// PRIME_QUADRATIC_ELEMENTS   elements of its one tensor (default 1000)
// PRIME_QUADRATIC_TENSORS    tensors that they are cut into (default 1), then with names of 250 characters, which JSON escapes
// PRIME_QUADRATIC_SPREAD     when it is set, values begin unequal: thirteen different ones after each other
// PRIME_QUADRATIC_DELAY_MS   time that an inner step takes (default 0), so that tests find runs in the middle of a step
// PRIME_QUADRATIC_HELD_AT    where it stays while the file PRIME_QUADRATIC_HELD_BY exists, so that what a test does meanwhile cannot
//                            come too late: `3` at the beginning of the outer step 3; `3.2` after two inner steps of it; `*.2` after two of
//                            each (default: nowhere). A file of that name with its process's number behind it says that it is there. Where
//                            the file holds a number, it stays before every outer step behind that one, too
// PRIME_QUADRATIC_SPOILS     the outer step in whose second inner step x[7] becomes NaN (default 0: none), in each life of the trainer
// PRIME_QUADRATIC_MOMENTUM   when it is set, it descends with momentum, which it binds as private beside a count and a text; `other`: and
// one
//                            more tensor
// PRIME_QUADRATIC_DIES_AT    where it is killed, once each: `2.1` in the outer step 2 after the inner step 1; `2.1r` while it writes the
// record of
//                            that boundary. Separated by commas; PRIME_QUADRATIC_DIED is a directory for what has happened already
// PRIME_QUADRATIC_TRACE      a file to which it appends a line for each inner step: its process, the outer step, the inner step
// PRIME_QUADRATIC_EVALUATES_WHILE  a file: the final evaluation lasts as long as it exists
#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <prime/session.hpp>
#include <span>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

bool is_place(std::string_view place, std::uint64_t outer_step, std::uint32_t inner) {
  const auto step = std::to_string(outer_step);
  const auto index = "." + std::to_string(inner);
  return place == step + index || place == "*" + index || (inner == 0 && place == step);
}

void stay_while_held(std::uint64_t outer_step, std::uint32_t inner) {
  const char* const file = std::getenv("PRIME_QUADRATIC_HELD_BY");
  const auto is_behind_the_last = [&] {
    std::uint64_t last = 0;
    return std::ifstream{file} >> last && outer_step > last;
  };
  while (file != nullptr && is_behind_the_last()) std::this_thread::sleep_for(std::chrono::milliseconds{5});
  const char* const place = std::getenv("PRIME_QUADRATIC_HELD_AT");
  if (file == nullptr || place == nullptr || !is_place(place, outer_step, inner)) return;
  if (std::filesystem::exists(file)) std::ofstream{std::string{file} + "." + std::to_string(::getpid())};
  while (std::filesystem::exists(file)) std::this_thread::sleep_for(std::chrono::milliseconds{5});
}

void trace(std::uint64_t outer_step, std::uint32_t inner) {
  if (const char* const file = std::getenv("PRIME_QUADRATIC_TRACE"); file != nullptr)
    std::ofstream{file, std::ios::app} << ::getpid() << ' ' << outer_step << ' ' << inner << '\n';
}

/// Killed, not ended: nothing of this process is left but what others hold.
void die_once(const std::string& place) {
  const char* const list = std::getenv("PRIME_QUADRATIC_DIES_AT");
  if (list == nullptr || ("," + std::string{list} + ",").find("," + place + ",") == std::string::npos) return;
  const auto mark = std::filesystem::path{std::getenv("PRIME_QUADRATIC_DIED")} / place;
  if (std::filesystem::exists(mark)) return;
  std::ofstream{mark};
  ::kill(::getpid(), SIGKILL);
}

/// What makes its steps depend on those before them.
struct Momentum {
  std::vector<float> velocity;
  std::vector<std::int64_t> count{0};
  std::vector<float> more{0};
  std::string text;
  std::string place;  ///< where it is, as PRIME_QUADRATIC_DIES_AT names it

  explicit Momentum(std::size_t elements) : velocity(elements) {}
  prime::Result<void> bind_to(prime::Session& session) {
    PRIME_CHECK(session.bind({"count", {}, count}, prime::Role::Private));
    PRIME_CHECK(session.bind({.name = "text",
                              .capacity = 64,
                              .save =
                                  [this] {
                                    die_once(place + "r");
                                    return text;
                                  },
                              .load = [this](std::string_view saved) -> prime::Result<void> {
                                text = saved;
                                return {};
                              }}));
    if (std::string_view{std::getenv("PRIME_QUADRATIC_MOMENTUM")} == "other")
      PRIME_CHECK(session.bind({"more", {1}, more}, prime::Role::Private));
    return session.bind({"velocity", {static_cast<std::int64_t>(velocity.size())}, velocity}, prime::Role::Private);
  }
  void descend(std::span<float> x, float target) {
    const auto drift = static_cast<float>(++count[0] % 7 + static_cast<std::int64_t>(text.size())) * 0.001F;
    for (std::size_t i = 0; i < x.size(); ++i) {
      velocity[i] = 0.8F * velocity[i] + 0.1F * (x[i] - target) + drift;
      x[i] -= velocity[i];
    }
    text = std::string(static_cast<std::size_t>(count[0] * 13 % 64), 'x');
  }
};

void evaluate_while_held(prime::Session& session) {
  const char* const file = std::getenv("PRIME_QUADRATIC_EVALUATES_WHILE");
  while (file != nullptr && std::filesystem::exists(file) && session.alive()) std::this_thread::sleep_for(std::chrono::milliseconds{5});
}

double loss_of(const std::vector<float>& x, float target) {
  double sum = 0;
  for (const float value : x) sum += 0.5 * static_cast<double>((value - target) * (value - target));
  return sum / static_cast<double>(x.size());
}

prime::Result<void> bind_tensors(prime::Session& session, std::span<float> x, std::uint64_t tensors) {
  if (tensors == 1) return session.bind({"x", {static_cast<std::int64_t>(x.size())}, x});
  for (std::uint64_t i = 0; i < tensors; ++i) {
    auto name = std::to_string(i);
    while (name.size() < 250) name += R"(\")";
    name.resize(250);
    const auto begin = x.size() * i / tensors;
    const auto values = x.subspan(begin, x.size() * (i + 1) / tensors - begin);
    PRIME_CHECK(session.bind({name, {static_cast<std::int64_t>(values.size()), 1}, values}));
  }
  return {};
}

prime::Result<void> train(prime::Session& session) {
  const std::chrono::milliseconds delay{from_environment("PRIME_QUADRATIC_DELAY_MS", 0)};
  std::vector<float> x(std::max<std::uint64_t>(1, from_environment("PRIME_QUADRATIC_ELEMENTS", 1000)), 4.0F);
  if (std::getenv("PRIME_QUADRATIC_SPREAD") != nullptr)
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += static_cast<float>(i % 13) * 0.37F;
  PRIME_CHECK(bind_tensors(session, x, std::min<std::uint64_t>(x.size(), from_environment("PRIME_QUADRATIC_TENSORS", 1))));
  std::optional<Momentum> momentum;
  if (const char* const with = std::getenv("PRIME_QUADRATIC_MOMENTUM"); with != nullptr && *with != '\0')
    PRIME_CHECK(momentum.emplace(x.size()).bind_to(session));
  for (;;) {
    PRIME_TRY(const auto step, session.next());
    if (!step) break;
    const auto target = static_cast<float>(from_environment("PRIME_QUADRATIC_TARGET", step->rank));
    prime::InnerReport report{.tokens = x.size(), .samples = 0};
    if (step->evaluate.of > 0) report.held_out = prime::HeldOut{loss_of(x, 0.0F), 1};
    stay_while_held(step->outer_step.value, step->index);
    std::this_thread::sleep_for(delay);
    trace(step->outer_step.value, step->index);
    const auto place = std::to_string(step->outer_step.value) + "." + std::to_string(step->index);
    if (momentum) {
      momentum->place = place;
      momentum->descend(x, target);
    } else {
      for (float& value : x) value -= 0.1F * (value - target);
    }
    die_once(place);
    if (step->index == 1 && step->outer_step.value == from_environment("PRIME_QUADRATIC_SPOILS", 0)) x[7] = std::nanf("");
    report.loss = loss_of(x, target);
    PRIME_CHECK(session.report(report));
  }
  return session.finish([&](const prime::FinalPlan& plan) {
    prime::FinalAnswer answer;
    if (plan.evaluate.of > 0) answer.held_out = prime::HeldOut{loss_of(x, 0.0F), 1};
    evaluate_while_held(session);
    if (plan.sample) answer.sample = "x[0] = " + std::to_string(x.front());
    return answer;
  });
}

}  // namespace

int main() {
  auto session = prime::Session::attach();
  const auto outcome = session ? train(*session) : prime::Result<void>{prime::fail(session.error())};
  if (outcome) return 0;
  if (session) session->fail(outcome.error());
  std::fputs(prime::render(outcome.error()).c_str(), stderr);
  return prime::info(outcome.error().name).exit_code;
}

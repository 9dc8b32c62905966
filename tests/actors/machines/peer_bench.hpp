// Owns the bench on which the peer's machine is tested: exact virtual times, effects by type.
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "actors/peer/peer_machine.hpp"

namespace prime::peer {

inline constexpr Digest INITIAL{1, 1};
inline constexpr Digest NEXT{2, 2};
inline constexpr OperationId OP{Epoch{1}, Sequence{1}};

struct Bench {
  Instant now{};
  State state;
  std::vector<Effect> effects;  ///< but for the probes
  std::vector<Probe> probes;

  Bench() {
    Options options;
    options.hello.peer = PeerId{1};
    options.coordinator_grace = 1min;
    auto started = start(options, now);
    state = std::move(started.state);
    effects = std::move(started.effects);
  }
  void on(const Event& event) {
    auto transition = step(std::move(state), event, now);
    state = std::move(transition.state);
    effects = std::move(transition.effects);
    probes.clear();
    for (const auto& effect : effects)
      if (const auto* probe = std::get_if<Probe>(&effect)) probes.push_back(*probe);
    std::erase_if(effects, [](const Effect& effect) { return std::holds_alternative<Probe>(effect); });
  }
  void hear(FromCoordinator message) { on(Event{std::move(message)}); }
  /// Time passes with a tick every second; the effects of all of them are kept.
  void pass(Duration duration) {
    std::vector<Effect> all;
    for (Duration left = duration; left > Duration{};) {
      const auto slice = std::min<Duration>(left, 1s);
      now += slice;
      left -= slice;
      on(Tick{});
      all.insert(all.end(), effects.begin(), effects.end());
    }
    effects = std::move(all);
  }
  /// This process was frozen: no tick for so long.
  void freeze(Duration duration) {
    now += duration;
    on(Tick{});
  }
  template <class E>
  [[nodiscard]] std::optional<E> effect() const {
    for (const auto& e : effects)
      if (const auto* found = std::get_if<E>(&e)) return *found;
    return std::nullopt;
  }
  template <class M>
  [[nodiscard]] std::optional<M> told() const {
    for (const auto& e : effects)
      if (const auto* tell = std::get_if<Tell>(&e))
        if (const auto* found = std::get_if<M>(&tell->message)) return *found;
    return std::nullopt;
  }

  static View view() { return View{Epoch{1}, {Member{PeerId{1}, "a", {}, 0}, Member{PeerId{2}, "b", {}, 1}}}; }
  Bench& seat() {
    hear(Welcome{0, ""});
    on(TrainerBound{Digest{7, 7}, 3, INITIAL, Revision{}, 1});
    return *this;
  }
  Bench& begin(bool contribute = true) {
    hear(BeginStep{view(), OuterStep{1}, Revision{}, contribute, 0, 0});
    return *this;
  }
  /// How it ended, once what it held is on the disk.
  std::optional<End> end() {
    if (state.phase == Phase::Saving) on(SaveEnded{false, std::string{"/saved"}});
    return effect<End>();
  }
  Bench& contribute() {
    on(TrainerContributed{OuterStep{1}, Revision{}, 100, 10, Real{1.0}, {}, Real{1.0}});
    return *this;
  }
  Bench& reduce(OperationId op = OP) {
    hear(StartReduce{op, OuterStep{1}, Revision{}, view(), {{PeerId{1}, 100}, {PeerId{2}, 100}}, 3, 20});
    return *this;
  }
  Bench& vote() {
    on(ReduceEnded{OP, NEXT, PeerId{}, 1, 1});
    return *this;
  }
};

}  // namespace prime::peer

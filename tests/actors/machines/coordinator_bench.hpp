// Owns the bench on which the coordinator's machine is tested: exact virtual times, effects by type.
#pragma once

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/coordinator/coordinator_state.hpp"
#include "kernels/digest/digest.hpp"

namespace prime::coordinator {

inline constexpr Digest LAYOUT{7, 7};
inline constexpr Digest INITIAL{1, 1};

/// What the last event has led to, or all that happened in the last `pass`.
struct Consequences {
  std::optional<Snapshot> decided;
  std::vector<Effect> effects;  ///< but for the probes
  std::vector<Probe> probes;
  std::string reason;

  void take(std::vector<Effect> emitted) {
    probes.clear();
    for (const auto& effect : emitted)
      if (const auto* probe = std::get_if<Probe>(&effect)) probes.push_back(*probe);
    std::erase_if(emitted, [](const Effect& effect) { return std::holds_alternative<Probe>(effect); });
    effects = std::move(emitted);
  }
  template <class Message>
  [[nodiscard]] std::vector<std::pair<std::uint64_t, Message>> sent() const {
    std::vector<std::pair<std::uint64_t, Message>> list;
    for (const auto& effect : effects)
      if (const auto* send = std::get_if<Send>(&effect))
        if (const auto* message = std::get_if<Message>(&send->message)) list.emplace_back(send->to.value, *message);
    return list;
  }
  [[nodiscard]] std::optional<ErrorName> dismissed(std::uint64_t peer) const {
    for (const auto& [to, message] : sent<Dismissed>())
      if (to == peer) return message.cause.name;
    return std::nullopt;
  }
  [[nodiscard]] const Finish* finished() const {
    for (const auto& effect : effects)
      if (const auto* finish = std::get_if<Finish>(&effect)) return finish;
    return nullptr;
  }
  template <class Event>
  [[nodiscard]] std::optional<std::size_t> position_of() const {
    for (std::size_t i = 0; i < effects.size(); ++i)
      if (const auto* event = std::get_if<JournalEvent>(&effects[i]); event != nullptr && std::holds_alternative<Event>(*event)) return i;
    return std::nullopt;
  }
  /// To whom anything of that kind was sent, in the order of their ids.
  template <class Message>
  [[nodiscard]] std::vector<std::uint64_t> told() const {
    std::vector<std::uint64_t> ids;
    for (const auto& [to, message] : sent<Message>()) ids.push_back(to);
    std::sort(ids.begin(), ids.end());
    return ids;
  }
  template <class Message>
  [[nodiscard]] Message told(std::uint64_t peer) const {
    for (const auto& [to, message] : sent<Message>())
      if (to == peer) return message;
    BOOST_FAIL("nothing of that kind was sent to " << peer);
    return {};
  }
  [[nodiscard]] std::vector<std::uint64_t> fenced() const {
    std::vector<std::uint64_t> ids;
    for (const auto& effect : effects)
      if (const auto* fence = std::get_if<Fence>(&effect)) ids.push_back(fence->peer.value);
    return ids;
  }
  template <class Event>
  [[nodiscard]] std::vector<Event> journaled() const {
    std::vector<Event> list;
    for (const auto& effect : effects)
      if (const auto* event = std::get_if<JournalEvent>(&effect); event != nullptr && std::holds_alternative<Event>(*event))
        list.push_back(std::get<Event>(*event));
    return list;
  }
};

/// The machine, and what comes to it.
struct Heard : Consequences {
  Instant now{};
  State state;
  std::optional<Snapshot> disk;  ///< what was decided last

  void on(const Event& event) {
    auto transition = step(std::move(state), event, now);
    state = std::move(transition.state);
    if (transition.decided) disk = transition.decided;
    decided = std::move(transition.decided);
    take(std::move(transition.effects));
    reason = std::move(transition.reason);
  }
  void hear(std::uint64_t peer, FromPeer message) { on(Received{PeerId{peer}, std::move(message)}); }
  void cut(std::uint64_t peer) { on(ConnectionLost{PeerId{peer}, "reset"}); }
  /// It is killed: its connection closes, and where it was its machine refuses. What follows from the latter.
  void lose(std::uint64_t peer) {
    cut(peer);
    on(ProcessGone{PeerId{peer}, "reset"});
  }
};

struct Bench : Heard {
  explicit Bench(std::uint32_t min_peers = 2, std::uint32_t quorum = 2, std::uint64_t outer_steps = 3) {
    Options options;
    options.run = "run";
    options.min_peers = min_peers;
    options.start_quorum = quorum;
    options.max_peers = 4;
    options.outer_steps = outer_steps;
    options.samples_per_peer = 10;
    state = initial(options, now);
  }

  void tick() { on(Tick{}); }
  /// Time passes and everybody but `silent` is heard.
  void pass(Duration duration, std::uint64_t silent = 0) {
    std::vector<Effect> all;
    for (Duration left = duration; left > Duration{};) {
      const auto slice = std::min<Duration>(left, 1s);
      left -= slice;
      hear_all(slice, silent, all);
    }
    effects = std::move(all);
  }
  /// The coordinator itself was frozen: no tick, nothing heard.
  void freeze(Duration duration) {
    now += duration;
    tick();
  }
  void hear_all(Duration after, std::uint64_t silent, std::vector<Effect>& all) {
    now += after;
    std::vector<PeerId> ids;
    for (const auto& [id, peer] : state.peers) ids.push_back(id);
    const auto collect = [&] { all.insert(all.end(), effects.begin(), effects.end()); };
    for (const auto id : ids) {
      if (id.value == silent) continue;
      hear(id.value, Heartbeat{});
      collect();
    }
    tick();
    collect();
  }

  static Hello hello_of(std::uint64_t peer) {
    return Hello{PROTOCOL_VERSION, "run", PeerId{peer}, "p" + std::to_string(peer), Endpoint{"h", 1}, 1};
  }
  void greet(std::uint64_t peer) { hear(peer, hello_of(peer)); }
  /// Anew, with a state of two fragments: peers 1 to `peers` take their seats with it.
  void begin_in_halves(Options options, std::uint64_t peers) {
    options.fragments = 2;
    state = initial(std::move(options), now);
    const std::vector<Digest> parts{{1, 1}, {2, 2}};
    for (std::uint64_t peer = 1; peer <= peers; ++peer) {
      greet(peer);
      hear(peer, Seated{Revision{}, kernels::digest_of_parts(parts), LAYOUT, 3, 1, {}, parts});
    }
  }
  void seat(std::uint64_t peer, Digest digest = INITIAL) {
    greet(peer);
    hear(peer, Seated{Revision{}, digest, LAYOUT, 3, 1});
  }
  void ready(std::uint64_t peer, std::uint64_t weight) {
    hear(peer, Ready{state.step(), state.revision, weight, 10, Real{1.0}, {}, Real{1.0}, 1});
  }
  void vote(std::uint64_t peer, Digest digest) { hear(peer, Vote{state.operation, digest, 1, 1}); }
  /// Makes the step that is under way with these contributors.
  void commit(const std::vector<std::uint64_t>& peers, Digest digest) {
    for (const auto peer : peers) ready(peer, 100);
    for (const auto peer : peers) vote(peer, digest);
  }
};

}  // namespace prime::coordinator

// Owns a measurement: the coordinator's machine alone, driven through outer steps with churn, in nanoseconds per event.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

#include "actors/coordinator/coordinator_state.hpp"

namespace {

using namespace prime;
using namespace prime::coordinator;

constexpr Digest LAYOUT{7, 7};
constexpr auto TICK = std::chrono::milliseconds{250};
constexpr int TICKS_PER_STEP = 40;  // ten seconds, with a heartbeat of everybody every two
constexpr int TICKS_PER_BEAT = 8;

class Crowd {
 public:
  explicit Crowd(std::uint32_t peers) {
    Options options;
    options.run = "crowd";
    options.min_peers = peers / 2;
    options.start_quorum = peers;
    options.max_peers = 2 * peers;
    options.outer_steps = 1'000'000;
    options.samples_per_peer = 10;
    state_ = initial(options, now_);
    for (std::uint32_t i = 0; i < peers; ++i) join();
    tick();
  }

  /// In the middle of the step a hundredth of the members leave without a word, and as many others come.
  void outer_step() {
    const auto revision = state_.revision;
    for (int i = 0; i < TICKS_PER_STEP; ++i) {
      if (i % TICKS_PER_BEAT == 0) everybody([&](PeerId id) { hear(id, Heartbeat{}); });
      if (i == TICKS_PER_STEP / 2) churn();
      tick();
    }
    everybody([&](PeerId id) {
      const auto& work = state_.rounds[0].work.at(id);
      if (!work.ready) hear(id, Ready{state_.step(), state_.revision, work.contributes ? 100U : 0U, 10, Real{1.0}, {}, Real{1.0}, 1});
    });
    if (state_.phase != Phase::Reducing) fail("no reduce after everybody was ready");
    const Digest next{state_.step().value, state_.step().value};
    everybody([&](PeerId id) { hear(id, Vote{state_.operation, next, 1, 1}); });
    if (state_.revision != revision.next()) fail("no commit after everybody voted");
  }

  [[nodiscard]] std::uint64_t events() const { return events_; }

 private:
  [[noreturn]] static void fail(const char* what) {
    std::fprintf(stderr, "%s\n", what);
    std::exit(1);
  }
  template <class Act>
  void everybody(Act act) {
    const auto members = state_.view.members;
    for (const auto& member : members) act(member.id);
  }
  void join() {
    const PeerId id{++last_};
    hear(id, Hello{PROTOCOL_VERSION, "crowd", id, "p" + std::to_string(last_), Endpoint{"h", 1}, 1});
    hear(id, Seated{Revision{}, Digest{1, 1}, LAYOUT, 3, 1});
    if (const auto& peer = state_.peers.at(id); peer.seat == Seat::Fetching) hear(id, Fetched{peer.fetch.revision, peer.fetch.state});
  }
  void churn() {
    const auto members = state_.view.members;
    for (std::size_t i = 0; i < members.size(); i += 100) on(ConnectionLost{members[i].id, "reset"});
    for (std::size_t i = 0; i < members.size(); i += 100) on(ProcessGone{members[i].id, "refused"});
    for (std::size_t i = 0; i < members.size(); i += 100) join();
  }
  void hear(PeerId from, FromPeer message) { on(Received{from, std::move(message)}); }
  void tick() {
    now_ += TICK;
    on(Tick{});
  }
  void on(const Event& event) {
    ++events_;
    state_ = std::move(step(std::move(state_), event, now_).state);
  }

  Instant now_{};
  State state_;
  std::uint64_t last_ = 0;
  std::uint64_t events_ = 0;
};

}  // namespace

/// PEERS STEPS: prints the nanoseconds per event, of the start and of the outer steps.
int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const auto peers = static_cast<std::uint32_t>(std::atoi(argv[1]));
  // Of the processor, since other programs run here, too.
  const auto spent_ns = [] { return static_cast<double>(std::clock()) * 1e9 / CLOCKS_PER_SEC; };
  const auto begun = spent_ns();
  Crowd crowd{peers};
  const auto started = spent_ns();
  const auto events = crowd.events();
  for (int i = 0; i < std::atoi(argv[2]); ++i) crowd.outer_step();
  const auto later = crowd.events() - events;
  std::printf("%.0f %.0f %llu\n", (started - begun) / static_cast<double>(events), (spent_ns() - started) / static_cast<double>(later),
              static_cast<unsigned long long>(later));
}

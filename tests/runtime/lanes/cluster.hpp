// Owns a cluster of lane engines in one process, and the coordinator's part of a reduce: start all, and abort all when one fails.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <set>

#include "actors/reduce_worker/schedule.hpp"
#include "kernels/reduce/reduce.hpp"
#include "runtime/lanes/engine.hpp"
#include "tests/runtime/lanes/plain_channel.hpp"

namespace prime::lanes::test {

/// Generous: only a hang reaches it.
inline constexpr auto PATIENCE = std::chrono::seconds(120);

/// Collects outcomes, and lets a test wait for them. Copies share what they collect: an engine may put one after its test has failed.
class Outcomes {
 public:
  using Map = std::map<std::size_t, ReduceOutcome>;

  void put(std::size_t rank, ReduceOutcome outcome) const {
    const std::lock_guard lock(shared_->mutex);
    if (!shared_->outcomes.emplace(rank, std::move(outcome)).second) shared_->twice = true;
    shared_->changed.notify_all();
  }
  /// True when it came true in time.
  template <class Condition>
  bool wait(Condition condition, Duration patience = PATIENCE) const {
    std::unique_lock lock(shared_->mutex);
    return shared_->changed.wait_for(lock, patience, [&] { return condition(shared_->outcomes); });
  }
  bool wait_for_all(std::size_t count) const {
    return wait([&](const auto& all) { return all.size() == count; });
  }
  [[nodiscard]] Map all() const {
    const std::lock_guard lock(shared_->mutex);
    return shared_->outcomes;
  }
  [[nodiscard]] bool any_twice() const {
    const std::lock_guard lock(shared_->mutex);
    return shared_->twice;
  }

 private:
  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
    Map outcomes;
    bool twice = false;
  };
  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
};

/// Whether the coordinator would abort the others. Where all hang, all have the same deadline: each is left to say for whom it has waited.
inline bool must_abort(const Outcomes::Map& outcomes, Duration deadline) {
  return std::ranges::any_of(outcomes, [&](const auto& entry) {
    const auto& stats = entry.second.stats;
    return !stats && (deadline < PATIENCE || stats.error().name != ErrorName::DeadlineExceeded);
  });
}

inline std::vector<float> random_values(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<float> values(count);
  for (auto& value : values) value = static_cast<float>(static_cast<std::int64_t>(random()) >> 32) * 1e-6F;
  return values;
}

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

/// In the order in which the schedule adds: by rank, or along the ring that ends at the segment's owner.
inline std::vector<float> expected_mean(const std::vector<std::vector<float>>& inputs, const std::vector<Contribution>& contributions,
                                        std::size_t elements, Schedule schedule = Schedule::Direct) {
  const auto factors = mean_factors(contributions).value();
  const auto world = inputs.size();
  std::vector<float> mean(elements);
  for (std::size_t owner = 0; owner < world; ++owner) {
    const std::size_t blocks = (elements + SEGMENT_ALIGNMENT - 1) / SEGMENT_ALIGNMENT;
    const std::size_t begin = std::min(blocks * owner / world * SEGMENT_ALIGNMENT, elements);
    const std::size_t end = std::min(blocks * (owner + 1) / world * SEGMENT_ALIGNMENT, elements);
    std::vector<kernels::WeightedInput> weighted;
    for (std::size_t step = 0; step < world; ++step) {
      const std::size_t r = schedule == Schedule::Ring ? (owner + 1 + step) % world : step;
      if (factors.relative[r] > 0) weighted.push_back({inputs[r].data() + begin, factors.relative[r]});
    }
    kernels::weighted_sum_reference(weighted, factors.scale, std::span{mean}.subspan(begin, end - begin));
  }
  return mean;
}

/// What one reduce did, seen from all ranks.
struct Reduced {
  std::map<std::size_t, ReduceOutcome> outcomes;
  bool in_time = false;  ///< all outcomes came
  bool twice = false;    ///< one came more than once
  bool inputs_intact = true;
  bool right = true;  ///< whoever says that it succeeded has the right bits
  std::size_t succeeded = 0;
  std::set<PeerId> suspects;
  [[nodiscard]] bool sound() const { return in_time && !twice && inputs_intact && right; }
  /// A failure says what became of each rank.
  [[nodiscard]] boost::test_tools::assertion_result all_succeeded() const {
    boost::test_tools::assertion_result result(sound() && succeeded == outcomes.size());
    if (result) return result;
    result.message() << (in_time ? "" : " not in time;") << (twice ? " an outcome came twice;" : "")
                     << (inputs_intact ? "" : " an input was changed;") << (right ? "" : " wrong bits;");
    for (const auto& [rank, outcome] : outcomes)
      result.message() << "\n  rank " << rank << ": " << (outcome.stats ? "succeeded" : to_string(outcome.stats.error()));
    return result;
  }
};

class Cluster {
 public:
  using Hook = std::function<void(std::size_t rank, OperationId, std::uint64_t done, std::uint64_t total)>;

  explicit Cluster(std::size_t world, std::size_t chunk_elements = 128 * 1024, std::uint32_t streams = 1)
      : engines_(world), links_(world * world) {
    for (auto& faults : faults_storage(world * world)) faults = std::make_shared<Faults>();
    view_.epoch = Epoch{1};
    // Ranks are not in the order of ids, so that a rank dials some lower and some higher ones.
    for (std::size_t r = 0; r < world; ++r) view_.members.push_back(Member{PeerId{(r * 7 + 3) % 11 + 1}, "", {}, r});
    for (std::size_t r = 0; r < world; ++r) {
      EngineOptions options;
      options.self = id(r);
      options.chunk_bytes = chunk_elements * sizeof(float);
      options.window_chunks = 3;
      options.streams = [streams] { return streams; };
      options.redial_pause = std::chrono::milliseconds(1);
      options.dial = [this, r](const Member& member, const net::DialLimit&) { return dial(r, member); };
      options.on_chunk = [this, r](OperationId op, std::uint64_t done, std::uint64_t total) {
        if (hook) hook(r, op, done, total);
      };
      auto engine = std::make_unique<LaneEngine>(std::move(options));
      const std::lock_guard lock(mutex_);
      engines_[r] = std::move(engine);
    }
  }
  ~Cluster() { end(); }
  /// All engines end.
  void end() {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
    }
    engines_.clear();
  }

  [[nodiscard]] PeerId id(std::size_t rank) const { return view_.members[rank].id; }
  [[nodiscard]] LaneEngine& engine(std::size_t rank) { return *engines_[rank]; }
  [[nodiscard]] std::size_t world() const { return engines_.size(); }
  [[nodiscard]] const View& view() const { return view_; }
  [[nodiscard]] Faults& faults(std::size_t from, std::size_t to) { return *faults_[from * world() + to]; }
  [[nodiscard]] std::size_t dials() {
    const std::lock_guard lock(mutex_);
    return dials_;
  }
  void refuse_dials(bool refuse) {
    const std::lock_guard lock(mutex_);
    refuse_ = refuse;
  }

  void cut(std::size_t a, std::size_t b) {
    const std::lock_guard lock(mutex_);
    if (const auto socket = links_[a * world() + b].lock()) socket->cut();
  }

  /// One reduce on all ranks, with fresh inputs. `elements` may differ by rank where a test wants it to.
  Reduced reduce(const std::vector<std::uint64_t>& weights, std::size_t elements, Duration deadline = PATIENCE) {
    return reduce(weights, std::vector<std::size_t>(world(), elements), deadline);
  }
  Reduced reduce(const std::vector<std::uint64_t>& weights, const std::vector<std::size_t>& elements, Duration deadline = PATIENCE) {
    const OperationId op{Epoch{1}, Sequence{++sequence_}};
    std::vector<Contribution> contributions;
    std::vector<std::vector<float>> inputs;
    std::vector<std::vector<float>> outputs;
    for (std::size_t r = 0; r < world(); ++r) {
      contributions.push_back({id(r), weights[r]});
      inputs.push_back(random_values(weights[r] == 0 ? 0 : elements[r], sequence_ * 100 + r));
      outputs.emplace_back(elements[r], -1.0F);
    }
    const auto kept = inputs;

    Outcomes outcomes;
    for (std::size_t r = 0; r < world(); ++r)
      engine(r).start(request(op, r, contributions, inputs[r], outputs[r], deadline),
                      [outcomes, r](ReduceOutcome outcome) { outcomes.put(r, std::move(outcome)); });
    Reduced reduced;
    reduced.in_time = outcomes.wait([&](const auto& all) { return all.size() == world() || must_abort(all, deadline); }, 2 * PATIENCE);
    for (std::size_t r = 0; r < world(); ++r) engine(r).abort(op, "another peer failed");
    reduced.in_time = outcomes.wait_for_all(world()) && reduced.in_time;

    reduced.outcomes = outcomes.all();
    reduced.twice = outcomes.any_twice();
    for (const auto& [rank, outcome] : reduced.outcomes) {
      if (outcome.stats) ++reduced.succeeded;
      else if (outcome.suspect != PeerId{}) reduced.suspects.insert(outcome.suspect);
      if (outcome.stats && !same_bits(outputs[rank], expected_mean(inputs, contributions, elements[rank], schedule))) reduced.right = false;
      if (!same_bits(inputs[rank], kept[rank])) reduced.inputs_intact = false;
    }
    return reduced;
  }

  ReduceRequest request(OperationId op, std::size_t rank, const std::vector<Contribution>& contributions, const std::vector<float>& input,
                        std::vector<float>& output, Duration deadline) const {
    ReduceRequest made;
    made.op = op;
    made.view = view_;
    made.self = id(rank);
    made.contributions = contributions;
    made.input = std::as_bytes(std::span{input});
    made.output = std::as_writable_bytes(std::span{output});
    made.deadline = deadline;
    made.schedule = schedule;
    made.vote = vote;
    return made;
  }

  Hook hook;  ///< changed only while no operation runs
  Schedule schedule = Schedule::Direct;
  bool vote = false;
  /// Whether a lane between two ranks can be dialed; empty: all. Changed only while nobody dials.
  std::function<bool(std::size_t, std::size_t)> reaches;

 private:
  std::vector<std::shared_ptr<Faults>>& faults_storage(std::size_t count) {
    faults_.resize(count);
    return faults_;
  }

  Result<net::ChannelPtr> dial(std::size_t from, const Member& member) {
    const std::lock_guard lock(mutex_);
    std::size_t to = 0;
    while (id(to) != member.id) ++to;
    if (closed_ || refuse_ || !engines_[to] || (reaches && !reaches(from, to))) return fail(ErrorName::RunUnreachable, "the test says so");
    ++dials_;
    auto [near, far] = tcp_pair();
    links_[from * world() + to] = links_[to * world() + from] = near;
    engines_[to]->adopt(std::make_unique<PlainChannel>(std::move(far), id(from), faults_[to * world() + from]));
    return std::make_unique<PlainChannel>(std::move(near), id(to), faults_[from * world() + to]);
  }

  View view_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<LaneEngine>> engines_;
  std::vector<std::weak_ptr<Socket>> links_;
  std::vector<std::shared_ptr<Faults>> faults_;
  std::size_t dials_ = 0;
  std::uint64_t sequence_ = 0;
  bool closed_ = false;
  bool refuse_ = false;
};

}  // namespace prime::lanes::test

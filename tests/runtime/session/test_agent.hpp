// Owns an agent of one peer for tests: a trainer host and an outer state, no network. Its mean is its own contribution.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>

#include "runtime/agent/outer_state.hpp"
#include "runtime/agent/record_store.hpp"
#include "runtime/agent/trainer_host.hpp"
#include "tests/runtime/session/quadratic.hpp"

namespace prime::test {

/// What a host's thread tells, for a test to wait for.
class EventQueue {
 public:
  void push(TrainerEvent event) {
    const std::lock_guard lock(mutex_);
    events_.push_back(std::move(event));
    arrived_.notify_all();
  }
  TrainerEvent pop() {
    std::unique_lock lock(mutex_);
    if (!arrived_.wait_for(lock, std::chrono::minutes(2), [&] { return !events_.empty(); })) throw std::runtime_error("no event came");
    auto event = std::move(events_.front());
    events_.pop_front();
    return event;
  }
  void clear() {
    const std::lock_guard lock(mutex_);
    events_.clear();
  }
  std::size_t size() {
    const std::lock_guard lock(mutex_);
    return events_.size();
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<TrainerEvent> events_;
};

inline std::string describe(const TrainerEvent& event) {
  return std::visit(overloaded{
                        [](const TrainerBound&) { return std::string("bound"); },
                        [](const TrainerExported& e) { return "exported " + e.name; },
                        [](const TrainerDescribed& e) { return "described " + e.data.summary; },
                        [](const TrainerInitial&) { return std::string("initial"); },
                        [](const TrainerInner&) { return std::string("inner"); },
                        [](const TrainerAlive&) { return std::string("alive"); },
                        [](const TrainerRecorded&) { return std::string("recorded"); },
                        [](const TrainerContributed&) { return std::string("contributed"); },
                        [](const TrainerUsedLease&) { return std::string("used its lease"); },
                        [](const TrainerFinal&) { return std::string("final"); },
                        [](const TrainerLeft&) { return std::string("left"); },
                        [](const TrainerFailed& e) { return "failed: " + to_string(e.cause); },
                        [](const TrainerLost& e) { return "lost: " + to_string(e.cause); },
                        [](const TrainerUnserved& e) { return "unserved: " + to_string(e.cause); },
                    },
                    event);
}

class TestAgent {
 public:
  static constexpr std::uint32_t TOTAL_STEPS = 4;
  static constexpr std::uint32_t INNER_STEPS = 3;
  static constexpr std::uint32_t BATCH = 4;
  static constexpr std::uint32_t ENDLESS = 1'000'000'000;

  [[nodiscard]] TrainerEventHandler handler() {
    return [this](TrainerEvent event) { events.push(std::move(event)); };
  }
  void start(const TrainerCommand& command, TrainerHostOptions options = {}) {
    host = TrainerHost::start(command, options, handler()).value();
    greet();
  }
  void adopt(PacketSocket socket, TrainerHostOptions options = {}) {
    host = TrainerHost::adopt(std::move(socket), options, handler()).value();
    greet();
  }
  void greet() {
    wire::Welcome welcome{"test", PeerId{7}, "calm-heron", "run: test\n", "device: cpu\n", !state.has_value()};
    must(host->welcome(welcome));
  }
  /// The next event, which must be a T; progress is skipped.
  template <class T>
  T expect() {
    while (true) {
      auto event = events.pop();
      if (const auto* recorded = std::get_if<TrainerRecorded>(&event)) keep(*recorded);
      if (auto* wanted = std::get_if<T>(&event)) return std::move(*wanted);
      if (std::holds_alternative<TrainerRecorded>(event)) continue;
      if (!std::holds_alternative<TrainerInner>(event)) throw std::runtime_error("not the expected event: " + describe(event));
    }
  }
  void accept_layout() {
    const auto bound = expect<TrainerBound>();
    if (!state) state.emplace(OuterState::create(make_layout(bound.layout.tensors(), division).value(), {}).value());
    std::vector<DataType> types;
    for (const auto& tensor : bound.tensors)
      if (tensor.role == Role::Averaged) types.push_back(tensor.type);
    must(state->begin_life(std::move(types), bound.shared.get()));
    const auto layout = make_record_layout(bound.tensors, record_every > 0).value();
    if (!records && layout.bytes > 0) records.emplace(RecordStore::create(layout).value());
    const auto numbers = state->descriptors();
    std::vector<int> descriptors(numbers.begin(), numbers.end());
    if (records) descriptors.push_back(records->descriptor());
    wire::Segments segments{.elements = bound.layout.elements(), .division = division};
    segments.record_bytes = layout.bytes;
    segments.record_every = record_every;
    segments.record_place = records ? records->next() : 0;
    segments.in_place = bound.shared != nullptr;
    host->segments(segments, descriptors);
    resumes = true;
    record_layout = layout;
    shares = bound.shared != nullptr;
  }
  /// Of a record within an outer step; what was published is kept when it is committed.
  void keep(const TrainerRecorded& recorded) {
    if (recorded.record) record = Kept{records->keep(recorded.record->totals), true};
    host->recorded({records->next()});
  }
  void accept_initial() {
    expect<TrainerInitial>();
    if (!state->initialized()) must(state->initialize());
    if (record_layout.copied_bytes > 0) brought = {records->memory().begin(), records->memory().begin() + record_layout.copied_bytes};
  }
  void seat() {
    accept_layout();
    accept_initial();
  }
  [[nodiscard]] OuterStep next_step() const { return state->fragments().back().version.next(); }
  void begin(std::uint32_t inner_steps = INNER_STEPS) {
    const wire::StepPlan plan{.step = next_step(),
                              .base = state->counters().revision,
                              .first_sample = state->counters().next_sample,
                              .batch = BATCH,
                              .inner_steps = inner_steps,
                              .total_steps = TOTAL_STEPS,
                              .evaluate = {0, 1}};
    std::optional<wire::Resume> resume;
    if (std::exchange(resumes, false) && record) {
      resume = wire::Resume{record->content->block->number, {}};
      if (record->within) resume->within = record->content->totals;
    }
    if (!copied.empty()) std::ranges::copy(copied, records->memory().begin());
    const bool told = !std::exchange(copied, {}).empty();
    host->begin({plan, state->digest(), state->places(), records ? records->next() : 0, resume, told});
  }
  /// Takes the contribution, "reduces" it with nobody, and commits.
  Committed commit(const wire::Contribute& contribution) {
    (void)state->take_contribution().value();
    if (contribution.recorded) record = Kept{records->keep({}), false};
    const StepGain gain{state->counters().next_sample + contribution.samples};
    for (std::uint32_t fragment = 0; fragment < division.count; ++fragment) {
      const OperationId operation{Epoch{1}, Sequence{state->counters().revision.value + 1}};
      std::ranges::copy(state->input(fragment), state->result(fragment).begin());
      (void)state->prepare(operation, fragment, gain).value();
      must(state->commit(operation, state->counters().tokens + (fragment + 1 == division.count ? contribution.weight : 0)));
    }
    const Committed committed{contribution.step, state->counters().revision, state->digest(), 1};
    host->committed({committed, state->places()});
    return committed;
  }
  wire::Contribute step() {
    begin();
    const auto contribution = expect<TrainerContributed>().contribution;
    commit(contribution);
    return contribution;
  }
  void finish() {
    host->finish({{{0, 1}, true}, state->fragments().front().version, state->counters().revision, state->digest(), state->places()});
  }

  EventQueue events;
  struct Kept {
    std::shared_ptr<const trainer_life::RecordContent> content;
    bool within = false;
  };

  Division division;
  std::uint32_t record_every = 0;
  std::optional<OuterState> state;
  std::optional<RecordStore> records;
  std::optional<Kept> record;
  RecordLayout record_layout;
  std::vector<std::byte> brought;     ///< copied tensors, as the trainer had them first
  std::vector<std::byte> copied;      ///< to be told with the next begin
  bool shares = false;                ///< the trainer publishes where its tensors lie
  bool resumes = false;               ///< the next begin is the first of a life
  std::unique_ptr<TrainerHost> host;  ///< last, so that it ends before what its thread uses
};

}  // namespace prime::test

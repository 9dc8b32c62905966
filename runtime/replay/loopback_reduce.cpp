#include "runtime/replay/loopback_reduce.hpp"

#include <algorithm>
#include <memory>
#include <random>
#include <utility>

#include "messages/assert.hpp"
#include "runtime/lanes/operation.hpp"

namespace prime::replay {
namespace {

/// No time passes: nothing of this is ever late.
constexpr Instant NOW{};

class Loopback {
 public:
  Loopback(const ReduceRequest& terms, std::span<const Brought> brought, std::size_t elements, std::uint64_t turns)
      : turns_(turns), outputs_(brought.size(), std::vector<float>(elements)), losses_(brought.size()) {
    for (std::uint32_t from = 0; from < brought.size(); ++from)
      for (std::uint32_t to = 0; to < brought.size(); ++to)
        if (from != to) ways_.emplace_back(from, to);
    view_.epoch = terms.op.epoch;
    for (const auto& [peer, weight] : terms.contributions) view_.members.push_back(Member{peer, {}, {}, 0});
  }

  Result<void> start(const ReduceRequest& terms, std::span<const Brought> brought) {
    for (std::size_t rank = 0; rank < brought.size(); ++rank) {
      auto request = terms;
      request.view = view_;
      request.self = terms.contributions[rank].peer;
      request.input = std::as_bytes(brought[rank].values);
      request.output = std::as_writable_bytes(std::span{outputs_[rank]});
      losses_[rank].resize(brought[rank].residual.size());
      request.residual = brought[rank].residual;
      request.next_residual = losses_[rank];
      request.deadline = Duration::max() / 2;
      PRIME_TRY(auto made, lanes::Operation::make(
                               std::move(request), {.pool = &pool_}, [](std::uint64_t, std::uint64_t) {}, [] { return NOW; }));
      operations_.push_back(std::move(made));
    }
    return {};
  }

  Result<void> run() {
    while (true) {
      bool moved = false;
      if (turns_ != 0) std::ranges::shuffle(ways_, draw_);
      for (const auto& [from, to] : ways_) {
        PRIME_TRY(const bool one, hand_over(from, to));
        moved = moved || one;
      }
      for (const auto& operation : operations_)
        while (operation->combine_one()) moved = true;
      PRIME_TRY(const bool over, is_over());
      if (over) return {};
      if (!moved) return fail(ErrorName::InternalError, "a reduce among operations of one process stands still");
    }
  }

  Result<std::vector<float>> take_result() {
    const auto digest = operations_.front()->outcome(NOW)->value().digest;
    for (const auto& operation : operations_)
      if (operation->outcome(NOW)->value().digest != digest)
        return fail(ErrorName::InternalError, "law 3: members of one reduce are left with different bits");
    return std::move(outputs_.front());
  }

 private:
  /// The next frame from one rank to another one, if there is one.
  Result<bool> hand_over(std::uint32_t from, std::uint32_t to) {
    const auto frame = operations_[from]->next(to);
    if (!frame) return false;
    PRIME_TRY(auto reception, operations_[to]->expect(from, frame->header));
    PRIME_ASSERT(reception.into.size() == frame->payload.size(), "what is sent has room where it arrives");
    std::ranges::copy(frame->payload, reception.into.begin());
    PRIME_CHECK(operations_[to]->received(from, std::move(reception), NOW));
    operations_[from]->sent(to, frame->header);
    return true;
  }

  [[nodiscard]] Result<bool> is_over() const {
    bool over = true;
    for (const auto& operation : operations_) {
      const auto outcome = operation->outcome(NOW);
      if (outcome && !*outcome) return fail(outcome->error());
      over = over && outcome;
    }
    return over;
  }

  std::uint64_t turns_;
  std::mt19937_64 draw_{turns_};
  View view_;
  std::vector<std::vector<float>> outputs_;
  std::vector<std::vector<float>> losses_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> ways_;
  lanes::ChunkPool pool_{lanes::CHUNK_BYTES};  // as those of agents: a ring is cut by it
  std::vector<std::unique_ptr<lanes::Operation>> operations_;
};

}  // namespace

Result<std::vector<float>> reduce(const ReduceRequest& terms, std::span<const Brought> brought, std::uint64_t turns) {
  std::size_t elements = 0;
  for (const auto& each : brought) elements = std::max(elements, each.values.size());
  if (brought.size() != terms.contributions.size() || elements == 0)
    return fail(ErrorName::ReduceMismatch, "nothing is brought, or by others than the members");
  Loopback loopback{terms, brought, elements, turns};
  PRIME_CHECK(loopback.start(terms, brought));
  PRIME_CHECK(loopback.run());
  return loopback.take_result();
}

}  // namespace prime::replay

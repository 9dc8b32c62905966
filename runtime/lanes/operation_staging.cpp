// Owns what a reduce of device tensors does besides: inputs come to the host ahead of their use, results go back as they become final.
#include <algorithm>

#include "runtime/lanes/operation.hpp"

namespace prime::lanes {

void Operation::plan_fetches() {
  staging_ = std::make_unique<Staging>(request_, *limits_.staging, limits_.tell);
  for (std::uint32_t segment = 0; segment < plan_.segments(); ++segment) {
    const Route& route = plan_.route(segment);
    Fetching fetching;
    fetching.combined_here = std::ranges::find(route.order, plan_.rank()) != route.order.end();
    fetching.uses = route.give.size() + (fetching.combined_here ? 1 : 0);
    fetching_.push_back(fetching);
  }
}

Staging::Chunk Operation::staged(const Piece& piece) const {
  const auto range = plan_.chunk(piece.segment, piece.chunk);
  const std::size_t size = arithmetic_.element_bytes();
  return {piece, number_of(piece), range.begin * size, range.count * size};
}

/// A chunk of each segment in turn, as they are sent. What is small enough to be exchanged whole waits for no window.
void Operation::fetch_ahead(std::uint32_t most) {
  staged_window_ = std::min(most, limits_.window_chunks);
  const std::uint32_t window = plan_.schedule() == Schedule::Whole ? 1 : staged_window_;
  for (bool more = true; more;) {
    more = false;
    for (std::uint32_t step = 1; step <= plan_.segments(); ++step) {
      const std::uint32_t segment = (plan_.rank() + step) % plan_.segments();
      Fetching& fetching = fetching_[segment];
      if (fetching.uses == 0 || fetching.begun == plan_.chunk_count(segment) || fetching.begun - fetching.used >= window) continue;
      staging_->fetch(staged(Piece{PieceKind::Input, segment, fetching.begun++}), fetching.uses);
      more = true;
    }
  }
}

void Operation::input_used(const Piece& piece) {
  if (!staging_->used(number_of(piece))) return;
  ++fetching_[piece.segment].used;
  fetch_ahead(staged_window_);
}

void Operation::write_back(Piece piece, const ChunkPool::Buffer& buffer) {
  if (!staging_) return;
  piece.kind = PieceKind::Result;
  staging_->store(staged(piece), buffer);
}

void Operation::copied(const CopyEnd& end) {
  if (auto error = staging_->ended(end)) return give_up(std::move(*error), std::nullopt, false);
  if (end.piece.kind == PieceKind::Result) {
    if (results_missing_ == 0) obey_completion();
  } else if (fetching_[end.piece.segment].combined_here) {
    note_gathered(gathering_of(end.piece), end.piece);
  }
}

}  // namespace prime::lanes

// Owns what lies between a device's memory and the lanes.
#include "runtime/lanes/staging.hpp"

#include <utility>

namespace prime::lanes {

Staging::Staging(const ReduceRequest& request, ChunkPool& pool, Tell tell)
    : op_(request.op), memory_(request.memory), input_(request.input), output_(request.output), pool_(pool), tell_(std::move(tell)) {}

/// It may be the last that the device knows of this reduce: it holds nothing that ends with it.
kernels::DeviceMemory::Copied Staging::teller(const Chunk& chunk) const {
  return [tell = tell_, end = CopyEnd{op_, chunk.piece, chunk.number, std::nullopt}](std::optional<std::string> fault) mutable {
    end.fault = std::move(fault);
    tell(std::move(end));
  };
}

void Staging::fetch(const Chunk& chunk, std::size_t uses) {
  const auto& fetched = inputs_[chunk.number] = Fetched{chunk, pool_.take(), uses, false};
  ++fetching_;
  memory_->fetch(input_.subspan(chunk.offset, chunk.bytes), fetched.buffer.get(), teller(chunk));
}

ChunkPool::Buffer Staging::input(std::uint64_t number) const {
  const auto found = inputs_.find(number);
  return found == inputs_.end() || !found->second.here ? nullptr : found->second.buffer;
}

bool Staging::used(std::uint64_t number) {
  const auto found = inputs_.find(number);
  if (--found->second.uses > 0) return false;
  inputs_.erase(found);
  return true;
}

ChunkPool::Buffer Staging::take() {
  auto buffer = pool_.take();
  std::byte* const memory = buffer.get();
  ++*results_;
  return {memory, [held = std::move(buffer), results = results_](std::byte*) mutable {
            held.reset();
            --*results;
          }};
}

void Staging::store(const Chunk& chunk, ChunkPool::Buffer buffer) {
  const std::span<const std::byte> from{buffer.get(), chunk.bytes};
  stores_.emplace(chunk.number, Stored{chunk, std::move(buffer)});
  memory_->store(from, output_.data() + chunk.offset, teller(chunk));
}

std::optional<Error> Staging::ended(const CopyEnd& end) {
  if (end.piece.kind == PieceKind::Input) {
    auto& fetched = inputs_.at(end.number);
    --fetching_;
    fetched.here = !end.fault;
    if (end.fault) return failure(fetched.chunk, *end.fault);
    return std::nullopt;
  }
  const auto stored = stores_.extract(end.number);
  if (end.fault) return failure(stored.mapped().chunk, *end.fault);
  return std::nullopt;
}

Error Staging::failure(const Chunk& chunk, const std::string& fault) const {
  const bool out = chunk.piece.kind == PieceKind::Input;
  return Error{ErrorName::DeviceUnusable, "copying " + std::to_string(chunk.bytes) + " bytes at offset " + std::to_string(chunk.offset) +
                                              (out ? " of the input from " : " of the result to ") + memory_->name() + " failed: " + fault};
}

}  // namespace prime::lanes

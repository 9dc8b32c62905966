// Owns the progress of one reduce.
#include "runtime/lanes/operation.hpp"

#include <algorithm>
#include <string>
#include <tuple>

#include "kernels/reduce/reduce.hpp"
#include "messages/assert.hpp"

namespace prime::lanes {
namespace {

template <class T>
std::span<T> part(std::span<T> all, const ElementRange& range) {
  return all.subspan(range.begin, range.count);
}

/// All that must be equal on all ranks before the first element means anything.
std::uint64_t agreement_of(const ReduceRequest& request, std::size_t chunk_elements) {
  std::vector<std::uint64_t> words{request.output.size(), chunk_elements};
  for (const auto& contribution : request.contributions) words.insert(words.end(), {contribution.peer.value, contribution.weight});
  return checksum(std::as_bytes(std::span{words}));
}

Result<std::uint32_t> own_rank(const ReduceRequest& request) {
  const auto& members = request.view.members;
  const auto same = [](const Member& member, const Contribution& contribution) { return member.id == contribution.peer; };
  if (!std::equal(members.begin(), members.end(), request.contributions.begin(), request.contributions.end(), same))
    return fail(ErrorName::ReduceMismatch, "the contributions are not those of the members, in rank order");
  const auto own = std::find_if(members.begin(), members.end(), [&](const Member& member) { return member.id == request.self; });
  if (own == members.end()) return fail(ErrorName::ReduceMismatch, "this peer is not a member of the view");
  const auto rank = static_cast<std::uint32_t>(own - members.begin());
  if (request.contributions[rank].weight > 0 && request.input.size() != request.output.size())
    return fail(ErrorName::ReduceMismatch,
                "the input has " + std::to_string(request.input.size()) + " elements, agreed are " + std::to_string(request.output.size()));
  return rank;
}

}  // namespace

ChunkPool::Buffer ChunkPool::take() {
  if (free_.empty()) return std::make_unique_for_overwrite<float[]>(chunk_elements_);
  auto buffer = std::move(free_.back());
  free_.pop_back();
  return buffer;
}

Result<std::unique_ptr<Operation>> Operation::make(ReduceRequest request, std::uint32_t window_chunks, ChunkPool& pool, Observer observer,
                                                   Instant now) {
  PRIME_TRY(const std::uint32_t rank, own_rank(request));
  PRIME_TRY(auto factors, mean_factors(request.contributions));
  ReduceShape shape{request.output.size(), rank, {}, pool.chunk_elements()};
  for (const auto& contribution : request.contributions) shape.contributes.push_back(contribution.weight > 0);
  PRIME_TRY(auto plan, ReducePlan::make(std::move(shape)));
  auto operation = std::unique_ptr<Operation>(
      new Operation(std::move(request), std::move(plan), std::move(factors), window_chunks, pool, std::move(observer), now));
  if (operation->ranks_.size() != operation->plan_.world()) return fail(ErrorName::ReduceMismatch, "a peer is a member twice");
  return operation;
}

Operation::Operation(ReduceRequest request, ReducePlan plan, MeanFactors factors, std::uint32_t window_chunks, ChunkPool& pool,
                     Observer observer, Instant now)
    : request_(std::move(request)),
      plan_(std::move(plan)),
      factors_(std::move(factors)),
      window_chunks_(window_chunks),
      pool_(&pool),
      observer_(std::move(observer)),
      started_(now),
      agreement_(agreement_of(request_, pool.chunk_elements())),
      exchanges_(plan_.world()),
      arrived_(plan_.world()) {
  for (std::uint32_t rank = 0; rank < plan_.world(); ++rank) {
    ranks_.emplace(member(rank).id, rank);
    exchanges_[rank].last_progress = now;
  }
  result_checksums_.reserve(plan_.chunk_count(plan_.rank()));
}

Operation::~Operation() {
  for (auto& exchange : exchanges_) {
    if (exchange.receiving) pool_->give_back(std::move(exchange.receiving));
    for (auto& buffer : exchange.inputs) pool_->give_back(std::move(buffer));
  }
}

std::optional<std::uint32_t> Operation::rank_of(PeerId peer) const {
  const auto found = ranks_.find(peer);
  if (found == ranks_.end() || found->second == plan_.rank()) return std::nullopt;
  return found->second;
}

bool Operation::needs(std::uint32_t rank) const {
  return exchanges_[rank].sent < plan_.send_count(rank) || exchanges_[rank].received < plan_.receive_count(rank);
}

bool Operation::finished() const {
  for (std::uint32_t rank = 0; rank < plan_.world(); ++rank)
    if (rank != plan_.rank() && needs(rank)) return false;
  return result_checksums_.size() == plan_.chunk_count(plan_.rank());
}

FrameHeader Operation::header_of(const Piece& piece) const {
  FrameHeader header;
  header.kind = piece.kind;
  header.world = static_cast<std::uint16_t>(plan_.world());
  header.segment = static_cast<std::uint16_t>(piece.segment);
  header.op = request_.op;
  header.elements = plan_.elements();
  header.agreement = agreement_;
  header.chunk = piece.chunk;
  header.payload_bytes = static_cast<std::uint32_t>(piece.range.count * sizeof(float));
  return header;
}

Result<Operation::Reception> Operation::expect(std::uint32_t from, const FrameHeader& header) {
  auto& exchange = exchanges_[from];
  if (header.elements != plan_.elements() || header.world != plan_.world() || header.agreement != agreement_)
    return fail(ErrorName::ReduceMismatch, "peer " + to_string(member(from).id) + " reduces " + std::to_string(header.elements) +
                                               " elements among " + std::to_string(header.world) + " peers, we " +
                                               std::to_string(plan_.elements()) + " among " + std::to_string(plan_.world()) +
                                               (header.elements == plan_.elements() ? "; members, weights or chunk sizes differ" : ""));
  if (exchange.received == plan_.receive_count(from)) return fail(ErrorName::ProtocolViolation, "a frame after the last one");
  const Piece piece = plan_.receive(from, exchange.received);
  auto planned = header_of(piece);
  planned.payload_checksum = header.payload_checksum;
  if (header != planned)
    return fail(ErrorName::ProtocolViolation, "chunk " + std::to_string(header.chunk) + " of segment " + std::to_string(header.segment) +
                                                  " came instead of chunk " + std::to_string(piece.chunk) + " of " +
                                                  std::to_string(piece.segment));
  exchange.expected = header;
  switch (piece.kind) {
    case PieceKind::Begin: exchange.into = {}; break;
    case PieceKind::Input:
      if (exchange.inputs.size() >= window_chunks_) return Reception{true, {}};
      exchange.receiving = pool_->take();
      exchange.into = std::as_writable_bytes(std::span{exchange.receiving.get(), piece.range.count});
      break;
    case PieceKind::Result: exchange.into = std::as_writable_bytes(part(request_.output, piece.range)); break;
  }
  return Reception{false, exchange.into};
}

Result<void> Operation::received(std::uint32_t from, Instant now) {
  auto& exchange = exchanges_[from];
  if (checksum(exchange.into) != exchange.expected.payload_checksum)
    return fail(ErrorName::LaneBroken, "chunk " + std::to_string(exchange.expected.chunk) + " came damaged");
  exchange.last_progress = now;
  ++exchange.received;
  stats_.wire_bytes_received += HEADER_BYTES + exchange.into.size();
  if (exchange.expected.kind == PieceKind::Input) {
    exchange.inputs.push_back(std::move(exchange.receiving));
    ++arrived_[from];
  }
  if (exchange.expected.kind != PieceKind::Begin) step();
  return {};
}

std::optional<Operation::Frame> Operation::next(std::uint32_t to) const {
  const auto index = exchanges_[to].sent;
  if (index == plan_.send_count(to)) return std::nullopt;
  const Piece piece = plan_.send(to, index);
  if (!ReducePlan::sendable(piece, static_cast<std::uint32_t>(result_checksums_.size()))) return std::nullopt;
  Frame frame{header_of(piece), {}};
  if (piece.kind == PieceKind::Input) frame.payload = std::as_bytes(part(request_.input, piece.range));
  if (piece.kind == PieceKind::Result) frame.payload = std::as_bytes(part(request_.output, piece.range));
  frame.header.payload_checksum = piece.kind == PieceKind::Result ? result_checksums_[piece.chunk] : checksum(frame.payload);
  return frame;
}

void Operation::sent(std::uint32_t to, Instant now) {
  auto& exchange = exchanges_[to];
  stats_.wire_bytes_sent += HEADER_BYTES + plan_.send(to, exchange.sent).range.count * sizeof(float);
  ++exchange.sent;
  exchange.last_progress = now;
}

bool Operation::sum_one() {
  const auto chunk = static_cast<std::uint32_t>(result_checksums_.size());
  if (!plan_.summable(chunk, arrived_)) return false;
  const ElementRange range = plan_.chunk(plan_.rank(), chunk);
  std::vector<kernels::WeightedInput> inputs(plan_.world());
  for (std::uint32_t rank = 0; rank < plan_.world(); ++rank) {
    if (!plan_.contributes(rank)) continue;
    const float* values = rank == plan_.rank() ? part(request_.input, range).data() : exchanges_[rank].inputs.front().get();
    inputs[rank] = kernels::WeightedInput{values, factors_.relative[rank]};
  }
  const auto result = part(request_.output, range);
  kernels::weighted_sum(inputs, factors_.scale, result);
  result_checksums_.push_back(checksum(std::as_bytes(result)));
  for (auto& exchange : exchanges_) {
    if (exchange.inputs.empty()) continue;
    pool_->give_back(std::move(exchange.inputs.front()));
    exchange.inputs.pop_front();
  }
  step();
  return true;
}

bool Operation::restart(std::uint32_t rank) {
  auto& exchange = exchanges_[rank];
  if (exchange.received > 0 || exchange.restarted) return false;
  exchange.restarted = true;
  exchange.sent = 0;
  return true;
}

PeerId Operation::most_overdue(const std::function<bool(PeerId)>& we_make_it_wait) const {
  // A result may be late because its owner waits for others; a missing input is its sender's own fault.
  std::optional<std::tuple<bool, Instant, PeerId>> worst;
  for (std::uint32_t rank = 0; rank < plan_.world(); ++rank) {
    if (rank == plan_.rank() || !needs(rank) || we_make_it_wait(member(rank).id)) continue;
    const auto& exchange = exchanges_[rank];
    const bool may_wait_itself =
        exchange.received == plan_.receive_count(rank) || plan_.receive(rank, exchange.received).kind == PieceKind::Result;
    const std::tuple candidate{may_wait_itself, exchange.last_progress, member(rank).id};
    if (!worst || candidate < *worst) worst = candidate;
  }
  return worst ? std::get<PeerId>(*worst) : PeerId{};
}

ReduceStats Operation::stats(Instant now) const {
  auto stats = stats_;
  stats.elapsed = now - started_;
  return stats;
}

}  // namespace prime::lanes

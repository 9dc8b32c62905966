// Owns the progress of one reduce.
#include "runtime/lanes/operation.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <xxhash.h>

#include "messages/assert.hpp"
#include "runtime/lanes/known_members.hpp"

namespace prime::lanes {
namespace {

/// All that must be equal on all ranks before the first element means anything.
std::uint64_t agreement_of(const ReduceRequest& request, const ReducePlan& plan, std::uint32_t window_chunks) {
  std::vector<std::uint64_t> words{plan.elements(), plan.chunk_elements(), window_chunks, std::uint64_t{request.vote}};
  if (const auto of_result = request.result_codec.value_or(request.codec); of_result != request.codec)
    words.push_back(static_cast<std::uint64_t>(of_result));
  words.insert(words.end(), {static_cast<std::uint64_t>(request.type), static_cast<std::uint64_t>(request.combine),
                             static_cast<std::uint64_t>(request.codec), static_cast<std::uint64_t>(plan.schedule())});
  for (const auto& contribution : request.contributions) words.insert(words.end(), {contribution.peer.value, contribution.weight});
  return checksum(std::as_bytes(std::span{words}));
}

/// Those of the operation, in its order: a view may have others, and another one.
Result<std::vector<const Member*>> members_of(const ReduceRequest& request) {
  const auto& view = request.view.members;
  std::unordered_map<PeerId, const Member*> elsewhere;  // than at its rank
  std::vector<const Member*> members;
  members.reserve(request.contributions.size());
  for (std::size_t rank = 0; rank < request.contributions.size(); ++rank) {
    const auto id = request.contributions[rank].peer;
    const Member* member = rank < view.size() && view[rank].id == id ? &view[rank] : nullptr;
    if (member == nullptr) {
      if (elsewhere.empty())
        for (const auto& each : view) elsewhere.emplace(each.id, &each);
      const auto found = elsewhere.find(id);
      if (found == elsewhere.end())
        return fail(ErrorName::ReduceMismatch, "peer " + to_string(id) + " is to contribute and is no member of the view");
      member = found->second;
    }
    members.push_back(member);
  }
  return members;
}

Result<std::uint32_t> own_rank(const ReduceRequest& request, const std::vector<const Member*>& members) {
  const auto own = std::ranges::find(members, request.self, [](const Member* member) { return member->id; });
  if (own == members.end()) return fail(ErrorName::ReduceMismatch, "this peer is not a member of the operation");
  const auto rank = static_cast<std::uint32_t>(own - members.begin());
  if (request.contributions[rank].weight > 0 && request.input.size() != request.output.size())
    return fail(ErrorName::ReduceMismatch,
                "the input has " + std::to_string(request.input.size()) + " bytes, agreed are " + std::to_string(request.output.size()));
  return rank;
}

}  // namespace

Result<std::unique_ptr<Operation>> Operation::make(ReduceRequest request, Limits limits, Observer observer, Clock clock) {
  PRIME_TRY(auto members, members_of(request));
  PRIME_TRY(const std::uint32_t rank, own_rank(request, members));
  const bool good_ring = request.measured_ring && fits_ring(request);
  const Schedule schedule = choose_schedule(request.schedule, request.codec, request.output.size(), limits.pool->chunk_bytes(), good_ring);
  PRIME_TRY(auto arithmetic, Arithmetic::make(request, schedule));
  const std::size_t size = arithmetic.element_bytes();
  if (request.output.size() % size != 0) return fail(ErrorName::ReduceMismatch, "the output holds a part of an element");
  ReduceShape shape{request.output.size() / size, rank, {}, limits.pool->chunk_bytes() / size, schedule, arithmetic.alignment()};
  for (const auto& contribution : request.contributions) shape.contributes.push_back(contribution.weight > 0);
  // Every payload is received into a buffer of the pool.
  const std::size_t largest = std::max({arithmetic.wire_bytes(shape.chunk_elements), arithmetic.result_bytes(shape.chunk_elements),
                                        sizeof(Digest), shape.contributes.size()});
  if (largest > limits.pool->chunk_bytes())
    return fail(ErrorName::ReduceMismatch,
                "chunks of " + std::to_string(limits.pool->chunk_bytes()) + " bytes are too small for this reduce");
  // It comes before its operation has begun here, perhaps: then there is a bound for what is kept.
  if (const auto bytes = arithmetic.wire_bytes(shape.elements); schedule == Schedule::Whole && bytes > WHOLE_BYTES)
    return fail(ErrorName::ReduceMismatch, std::to_string(bytes) + " bytes are too many to be exchanged whole, which is for " +
                                               std::to_string(WHOLE_BYTES) + " at most");
  PRIME_TRY(auto plan, ReducePlan::make(std::move(shape)));
  auto operation = std::unique_ptr<Operation>(new Operation(std::move(request), std::move(members), std::move(plan), std::move(arithmetic),
                                                            std::move(limits), std::move(observer), std::move(clock)));
  if (operation->ranks_.size() != operation->plan_.world()) return fail(ErrorName::ReduceMismatch, "a peer is a member twice");
  return operation;
}

Operation::Operation(ReduceRequest request, std::vector<const Member*> members, ReducePlan plan, Arithmetic arithmetic, Limits limits,
                     Observer observer, Clock clock)
    : request_(std::move(request)),
      members_(std::move(members)),
      plan_(std::move(plan)),
      arithmetic_(std::move(arithmetic)),
      limits_(std::move(limits)),
      observer_(std::move(observer)),
      clock_(std::move(clock)),
      started_(clock_()),
      deadline_(started_ + request_.deadline),
      agreement_(agreement_of(request_, plan_, limits_.window_chunks)),
      exchanges_(plan_.world()),
      result_checksums_(plan_.chunks()),
      have_result_(plan_.chunks()),
      results_(plan_.segments()),
      results_missing_(plan_.chunks()),
      vote_(vote::start(plan_.rank(), plan_.world())) {
  for (std::uint32_t rank = 0; rank < plan_.world(); ++rank) {
    ranks_.emplace(member(rank).id, rank);
    exchanges_[rank].last_heard = started_;
  }
  count_chunks();
  if (request_.memory) plan_fetches();
  // Who brings nothing loses nothing.
  if (!plan_.contributes(plan_.rank())) std::ranges::copy(request_.residual, request_.next_residual.begin());
  if (results_missing_ == 0) obey_completion();
}

void Operation::count_chunks() {
  std::uint64_t taken = 0;
  for (std::uint32_t segment = 0; segment < plan_.segments(); ++segment) {
    const Route& route = plan_.route(segment);
    const std::uint32_t chunks = plan_.chunk_count(segment);
    for (const auto rank : route.give) {
      exchanges_[rank].give.push_back(segment);
      exchanges_[rank].given.push_back(0);
      exchanges_[rank].to_send += chunks;
    }
    for (const auto rank : route.take) exchanges_[rank].inputs_missing += chunks;
    if (route.pass) exchanges_[*route.pass].to_send += chunks;
    if (route.result_from) exchanges_[*route.result_from].results_missing += chunks;
    for (const auto rank : route.result_to) exchanges_[rank].to_send += chunks;
    first_taken_.push_back(taken);
    taken += route.take.size() * chunks;
  }
  taken_.resize(taken);
  for (std::uint32_t rank = 0; rank < plan_.world(); ++rank) {
    auto& exchange = exchanges_[rank];
    // Two that are no neighbours in a ring need no lane; there may be none.
    const auto distance = (rank + plan_.world() - plan_.rank()) % plan_.world();
    const bool apart = plan_.schedule() == Schedule::Ring && !request_.vote && distance > 1 && distance + 1 < plan_.world();
    exchange.begun = apart && exchange.to_send == 0 && exchange.inputs_missing == 0 && exchange.results_missing == 0;
    // A whole exchange says by its first input that it has begun.
    exchange.begin_claimed = exchange.begun || (plan_.schedule() == Schedule::Whole && exchange.to_send > 0);
    if (!exchange.begin_claimed) ++exchange.to_send;
  }
}

std::optional<std::uint32_t> Operation::rank_of(PeerId peer) const {
  const auto found = ranks_.find(peer);
  if (found == ranks_.end() || found->second == plan_.rank()) return std::nullopt;
  return found->second;
}

bool Operation::needs(std::uint32_t rank) const {
  const auto& exchange = exchanges_[rank];
  if (request_.vote) return vote::needs(vote_, rank);
  return !exchange.begun || exchange.to_send > 0 || exchange.inputs_missing > 0 || exchange.results_missing > 0;
}

bool Operation::moved_everything() const {
  if (results_missing_ > 0 || (staging_ && staging_->copying())) return false;
  for (std::uint32_t rank = 0; rank < plan_.world(); ++rank)
    if (rank != plan_.rank() && needs(rank)) return false;
  return true;
}

std::optional<Result<ReduceStats>> Operation::outcome(Instant now) const {
  if (error_) return prime::fail(*error_);
  if (!(request_.vote ? vote::is_over(vote_) : moved_everything())) return std::nullopt;
  if (vote_.phase == vote::Phase::Aborted) return prime::fail(vote_.named ? waited_for(*vote_.named) : *vote_.cause);
  auto stats = stats_;
  stats.elapsed = now - started_;
  stats.digest = digest();
  return Result<ReduceStats>(stats);
}

/// Of the chunks' checksums: whoever sent, received or combined a chunk has read all its bytes already.
Digest Operation::digest() const {
  const auto hash = XXH3_128bits_withSeed(result_checksums_.data(), result_checksums_.size() * sizeof(std::uint64_t), agreement_);
  return Digest{hash.high64, hash.low64};
}

FrameHeader Operation::header_of(const Piece& piece, std::size_t payload_bytes) const {
  FrameHeader header;
  header.kind = piece.kind;
  header.world = static_cast<std::uint16_t>(plan_.world());
  header.segment = static_cast<std::uint16_t>(piece.segment);
  header.op = request_.op;
  header.agreement = agreement_;
  header.chunk = piece.chunk;
  header.payload_bytes = static_cast<std::uint32_t>(payload_bytes);
  return header;
}

Operation::Landing Operation::output_of(const Piece& piece) {
  const auto range = plan_.chunk(piece.segment, piece.chunk);
  const std::size_t size = arithmetic_.element_bytes();
  if (!staging_) return {request_.output.subspan(range.begin * size, range.count * size), nullptr};
  auto buffer = staging_->take();
  return {{buffer.get(), range.count * size}, std::move(buffer)};
}

std::span<const std::byte> Operation::input_of(const Piece& piece) const {
  const auto range = plan_.chunk(piece.segment, piece.chunk);
  const std::size_t size = arithmetic_.element_bytes();
  if (!staging_) return request_.input.subspan(range.begin * size, range.count * size);
  return {staging_->input(number_of(piece)).get(), range.count * size};
}

std::size_t Operation::payload_of(const Piece& piece) const {
  switch (piece.kind) {
    case PieceKind::Input: return arithmetic_.wire_bytes(plan_.chunk(piece.segment, piece.chunk).count);
    case PieceKind::Result: return arithmetic_.result_bytes(plan_.chunk(piece.segment, piece.chunk).count);
    case PieceKind::Vote: return sizeof(Digest);
    case PieceKind::Doubt: return plan_.world();
    case PieceKind::Begin:
    case PieceKind::Committed:
    case PieceKind::Aborted:
    case PieceKind::Greeting:
    case PieceKind::Probe:
    case PieceKind::Probed: return 0;
  }
  return 0;
}

std::optional<Piece> Operation::next_combinable() {
  if (!combinable_.empty()) {
    const Piece piece = combinable_.front();
    combinable_.pop_front();
    return piece;
  }
  const std::uint32_t own = plan_.schedule() == Schedule::Whole ? 0 : plan_.rank();
  const Route& route = plan_.route(own);
  if (staging_ || !route.finishes || !route.take.empty() || alone_ == plan_.chunk_count(own)) return std::nullopt;
  return Piece{PieceKind::Input, own, alone_++};
}

bool Operation::combine_one() {
  if (waits_for_room()) return false;
  const auto piece = next_combinable();
  if (!piece) return false;
  const Route& route = plan_.route(piece->segment);
  const auto number = plan_.chunk_number(piece->segment, piece->chunk);
  const auto gathering = gatherings_.extract(number);
  operands_.clear();
  for (const auto rank : route.order) {
    if (rank == plan_.rank()) {
      operands_.push_back({input_of(*piece).data(), own_residual(*piece), rank, true, false});
      continue;
    }
    const auto at = static_cast<std::size_t>(std::find(route.take.begin(), route.take.end(), rank) - route.take.begin());
    operands_.push_back({gathering.mapped().inputs[at].get(), nullptr, rank, false, route.takes_sums});
  }
  if (route.finishes) {
    const auto out = output_of(*piece);
    arithmetic_.combine(operands_, true, out.bytes);
    have_result_[number] = true;
    finish_chunk(*piece, out);
  } else {
    auto buffer = limits_.pool->take();
    const std::span<std::byte> sum{buffer.get(), payload_of(*piece)};
    arithmetic_.combine(operands_, false, sum);
    exchanges_[*route.pass].ready.push_back(Frame{header_of(*piece, sum.size()), sum, std::move(buffer)});
  }
  if (staging_ && fetching_[piece->segment].combined_here) input_used(*piece);
  step();
  return true;
}

/// What of the own residual a chunk that is combined here takes in whole.
const float* Operation::own_residual(const Piece& piece) {
  if (request_.residual.empty()) return nullptr;
  const auto range = plan_.chunk(piece.segment, piece.chunk);
  std::ranges::fill(request_.next_residual.subspan(range.begin, range.count), 0.0F);
  return request_.residual.data() + range.begin;
}

/// The result as it travels; encoded once, and what the others decode lies here as well.
void Operation::finish_chunk(const Piece& piece, const Landing& out) {
  if (!arithmetic_.result_encoded()) {
    write_back(piece, out.buffer);
    return queue_result(piece, checksum(out.bytes), out.bytes, out.buffer);
  }
  auto buffer = limits_.pool->take();
  const std::span<std::byte> wire{buffer.get(), payload_of(Piece{PieceKind::Result, piece.segment, piece.chunk})};
  if (auto good = arithmetic_.encode_result(out.bytes, plan_.chunk(piece.segment, piece.chunk).begin, wire); !good)
    return give_up(std::move(good).error().with_context("in the result"), std::nullopt, false);
  arithmetic_.decode_result(wire, out.bytes);
  write_back(piece, out.buffer);
  queue_result(piece, checksum(wire), wire, buffer);
}

void Operation::queue_result(Piece piece, std::uint64_t checksum, std::span<const std::byte> payload, const ChunkPool::Buffer& buffer) {
  piece.kind = PieceKind::Result;
  for (const auto rank : plan_.route(piece.segment).result_to) {
    Frame frame{header_of(piece, payload.size()), payload, buffer};
    frame.header.payload_checksum = checksum;
    exchanges_[rank].ready.push_back(std::move(frame));
  }
  result_checksums_[plan_.chunk_number(piece.segment, piece.chunk)] = checksum;
  ++results_[piece.segment];
  if (--results_missing_ == 0) obey_completion();
}

void Operation::obey_completion() {
  if (!request_.vote || (staging_ && staging_->copying())) return;
  const auto why_late = late();
  obey(vote::complete(std::move(vote_), digest(), why_late));
}

/// The clock is read again: this thread may have been frozen since it was read last.
std::optional<Error> Operation::late() {
  if (vote_.looks > 0 || clock_() < deadline_) return std::nullopt;
  return stands_still();
}

void Operation::moved(std::uint32_t rank, bool came, Instant now) {
  if (came) exchanges_[rank].last_heard = now;
  // Where the members commit by themselves, one that was frozen must find its deadline passed: the others may have given it up.
  if (!request_.vote) deadline_ = now + request_.deadline;
}

/// What people need to tell a slow link from a dead one.
Error Operation::stands_still() const {
  const auto what = request_.vote ? "the reduce has lasted " : "nothing of the reduce moved for ";
  return Error{ErrorName::DeadlineExceeded, what + format_duration(request_.deadline) + ", after " +
                                                format_byte_count(stats_.wire_bytes_sent) + " sent, " +
                                                format_byte_count(stats_.wire_bytes_received) + " received and " +
                                                std::to_string(steps_done_) + " of " + std::to_string(plan_.steps()) + " chunks done"};
}

void Operation::looked(Instant now) {
  last_look_ = now;
  deadline_ = now + vote::LOOK_EVERY;
}

void Operation::obey(vote::Transition transition) {
  vote_ = std::move(transition.state);
  if (vote_.looks > 0 && last_look_ == Instant{}) looked(clock_());
  for (const auto& saying : transition.sayings)
    for (const auto rank : plan_.peers())
      if (saying.to ? *saying.to == rank : !vote_.lost[rank]) exchanges_[rank].control.push_back(frame_of(saying.word));
}

Frame Operation::frame_of(vote::Word word) const {
  std::vector<std::byte> payload;
  PieceKind kind = PieceKind::Vote;
  switch (word) {
    case vote::Word::Vote: {
      const auto bytes = std::as_bytes(std::span{&vote_.own, 1});
      payload.assign(bytes.begin(), bytes.end());
      break;
    }
    case vote::Word::Doubt:
      kind = PieceKind::Doubt;
      for (const bool lost : vote_.lost) payload.push_back(lost ? std::byte{1} : std::byte{0});
      payload[plan_.rank()] = vote::asks(vote_) ? std::byte{1} : std::byte{0};  // nobody loses itself
      break;
    case vote::Word::Committed: kind = PieceKind::Committed; break;
    case vote::Word::Aborted: kind = PieceKind::Aborted; break;
  }
  Frame frame{header_of(Piece{kind, 0, 0}, payload.size()), {}, ChunkPool::Buffer(new std::byte[payload.size()])};
  std::copy(payload.begin(), payload.end(), frame.buffer.get());
  frame.payload = {frame.buffer.get(), payload.size()};
  frame.header.payload_checksum = checksum(frame.payload);
  return frame;
}

void Operation::give_up(Error error, std::optional<std::uint32_t> suspect, bool lost) {
  blame(suspect);
  if (!request_.vote) {
    if (!error_) error_ = std::move(error);
    return;
  }
  obey(lost ? vote::lost(std::move(vote_), *suspect, std::move(error)) : vote::fail(std::move(vote_), std::move(error)));
}

void Operation::cancel(Error error) {
  if (!request_.vote) return give_up(std::move(error), std::nullopt, false);
  obey(vote::cancel(std::move(vote_), std::move(error)));
}

Error Operation::waited_for(std::optional<std::uint32_t> rank) const {
  auto error = stands_still();
  if (rank) error.detail += "; it waited for " + peer_text(member(*rank));
  return error;
}

void Operation::blame(std::optional<std::uint32_t> rank) {
  if (rank && suspect_ == PeerId{}) suspect_ = member(*rank).id;
}

void Operation::deadline_passed(Instant now) {
  vote::Ranks heard(plan_.world());
  for (std::uint32_t rank = 0; rank < plan_.world(); ++rank) heard[rank] = exchanges_[rank].last_heard > last_look_;
  if (request_.vote) {
    obey(vote::look(std::move(vote_), heard, stands_still()));
    blame(vote_.named);
  } else if (!error_) {
    const auto overdue = most_overdue(plan_.schedule(), awaited());
    blame(overdue);
    error_ = waited_for(overdue);
  }
  looked(now);
}

std::vector<Awaited> Operation::awaited() const {
  std::vector<Awaited> others(plan_.world());
  for (std::uint32_t rank = 0; rank < plan_.world(); ++rank) {
    const auto& exchange = exchanges_[rank];
    const bool owes = exchange.inputs_missing > 0 || exchange.results_missing > 0;
    others[rank] = {exchange.begun, holds_up(rank), owes, exchange.ready.empty() && exchange.sending == 0, exchange.last_heard};
  }
  others[plan_.rank()].begun = others[plan_.rank()].takes = true;
  return others;
}

bool Operation::restart(std::uint32_t rank) {
  auto& exchange = exchanges_[rank];
  if (exchange.begun || exchange.restarted || vote_.asking || plan_.schedule() == Schedule::Whole) return false;
  exchange.restarted = true;
  exchange.begin_claimed = false;
  exchange.to_send += exchange.begin_sent ? 1 : 0;
  exchange.begin_sent = false;
  exchange.sending = 0;
  exchange.control.clear();
  // What was expected on the old lane has not come.
  for (std::uint32_t segment = 0; segment < plan_.segments(); ++segment) {
    const Route& route = plan_.route(segment);
    const auto from = std::find(route.take.begin(), route.take.end(), rank);
    for (std::uint32_t chunk = 0; chunk < plan_.chunk_count(segment); ++chunk) {
      if (from != route.take.end()) taken_[taken_index(segment, chunk, static_cast<std::size_t>(from - route.take.begin()))] = false;
      if (route.result_from == rank) have_result_[plan_.chunk_number(segment, chunk)] = false;
    }
  }
  if (vote_.phase == vote::Phase::Voted) exchange.control.push_back(frame_of(vote::Word::Vote));
  if (vote_.phase == vote::Phase::Doubting) exchange.control.push_back(frame_of(vote::Word::Doubt));
  return true;
}

bool Operation::holds_up(std::uint32_t rank) const {
  const std::uint32_t own = plan_.schedule() == Schedule::Whole ? 0 : plan_.rank();
  const auto& take = plan_.route(own).take;
  const auto at = std::find(take.begin(), take.end(), rank);
  std::uint32_t next = 0;  // chunks of several streams overtake each other
  while (next < plan_.chunk_count(own) && have_result_[plan_.chunk_number(own, next)]) ++next;
  if (at == take.end() || next == plan_.chunk_count(own)) return false;
  const auto gathering = gatherings_.find(plan_.chunk_number(own, next));
  return gathering == gatherings_.end() || !gathering->second.inputs[static_cast<std::size_t>(at - take.begin())];
}

}  // namespace prime::lanes

// Owns the frames of a reduce: which may come, where their bytes go, and which is next.
#include <algorithm>
#include <cstring>
#include <string>

#include "runtime/lanes/known_members.hpp"
#include "runtime/lanes/operation.hpp"

namespace prime::lanes {

// --- receiving -------------------------------------------------------------------------------------------------------

Result<Operation::Place> Operation::place_of(std::uint32_t from, const FrameHeader& header) const {
  const auto violation = [&](const std::string& what) {
    return prime::fail(ErrorName::ProtocolViolation, what + " (chunk " + std::to_string(header.chunk) + " of segment " +
                                                         std::to_string(header.segment) + ", " + std::to_string(header.payload_bytes) +
                                                         " bytes)");
  };
  const auto& exchange = exchanges_[from];
  const Piece piece{header.kind, header.segment, header.chunk};
  const bool is_chunk = header.kind == PieceKind::Input || header.kind == PieceKind::Result;
  if (is_chunk && (header.segment >= plan_.segments() || header.chunk >= plan_.chunk_count(header.segment)))
    return violation("no such chunk");
  if (header.payload_bytes != payload_of(piece)) return violation("a payload of another size");
  Place place;
  switch (header.kind) {
    case PieceKind::Begin:
      // Its lane broke before it had heard anything: it begins anew over the next one, also with who needed nothing more of it.
      if (exchange.begin_came) return prime::fail(ErrorName::LaneBroken, "what was sent to the peer was lost with its lane");
      return place;
    case PieceKind::Input: {
      const auto& take = plan_.route(header.segment).take;
      const auto found = std::find(take.begin(), take.end(), from);
      if (found == take.end()) return violation("an input that goes elsewhere");
      place.index = taken_index(header.segment, header.chunk, static_cast<std::size_t>(found - take.begin()));
      if (taken_[place.index]) return violation("an input that was here before");
      if (plan_.schedule() == Schedule::Direct && header.chunk >= results_[header.segment] + limits_.window_chunks)
        return violation("an input beyond the window");
      return place;
    }
    case PieceKind::Result:
      if (plan_.route(header.segment).result_from != from) return violation("a result that comes from elsewhere");
      place.index = plan_.chunk_number(header.segment, header.chunk);
      if (have_result_[place.index]) return violation("a result that was here before");
      return place;
    case PieceKind::Vote:
    case PieceKind::Doubt:
    case PieceKind::Committed:
    case PieceKind::Aborted:
      if (!request_.vote) return violation("a vote where there is none");
      return place;
    case PieceKind::Greeting: return violation("a greeting");
    case PieceKind::Probe:
    case PieceKind::Probed: return violation("a measurement");
  }
  return place;
}

Result<Reception> Operation::expect(std::uint32_t from, const FrameHeader& header, bool lendable) {
  if (header.world != plan_.world() || header.agreement != agreement_)
    return prime::fail(ErrorName::ReduceMismatch,
                       peer_text(member(from)) + " means another reduce by operation " + to_string(header.op) +
                           ": size, type, operator, codec, schedule, weights or members differ from ours (" +
                           std::to_string(plan_.elements()) + " elements of " + std::string(to_string(request_.type)) + ", " +
                           std::string(to_string(request_.combine)) + ", codec " + std::string(to_string(request_.codec)) + ", " +
                           std::string(to_string(plan_.schedule())) + ", among " + std::to_string(plan_.world()) + ")");
  PRIME_TRY(const Place place, place_of(from, header));
  Reception reception{header, {}, nullptr, lendable && header.kind == PieceKind::Input};
  const Piece piece{header.kind, header.segment, header.chunk};
  switch (header.kind) {
    case PieceKind::Result:
      have_result_[place.index] = true;
      if (!arithmetic_.result_encoded()) {
        auto landing = output_of(piece);
        reception.into = landing.bytes;
        reception.buffer = std::move(landing.buffer);
        return reception;
      }
      break;
    case PieceKind::Input: taken_[place.index] = true; break;
    case PieceKind::Begin:
    case PieceKind::Vote:
    case PieceKind::Doubt:
    case PieceKind::Committed:
    case PieceKind::Aborted:
    case PieceKind::Greeting:
    case PieceKind::Probe:
    case PieceKind::Probed: break;
  }
  if (header.payload_bytes > 0 && !reception.lent) {
    reception.buffer = limits_.pool->take();
    reception.into = {reception.buffer.get(), header.payload_bytes};
  }
  return reception;
}

Result<void> Operation::received(std::uint32_t from, Reception reception, Instant now) {
  const FrameHeader& header = reception.header;
  const bool vouched = reception.vouched && header.kind == PieceKind::Input;
  if (!vouched && checksum(reception.into) != header.payload_checksum)
    return prime::fail(ErrorName::LaneBroken,
                       "chunk " + std::to_string(header.chunk) + " of segment " + std::to_string(header.segment) + " came damaged");
  moved(from, true, now);
  auto& exchange = exchanges_[from];
  exchange.begun = true;
  stats_.wire_bytes_received += HEADER_BYTES + body_bytes(header);
  const Piece piece{header.kind, header.segment, header.chunk};
  switch (header.kind) {
    case PieceKind::Begin: exchange.begin_came = true; break;
    case PieceKind::Input: take_input(from, piece, std::move(reception.buffer)); break;
    case PieceKind::Result:
      --exchange.results_missing;
      take_result(piece, header.payload_checksum, reception);
      break;
    case PieceKind::Vote: {
      Digest digest;
      std::memcpy(&digest, reception.into.data(), sizeof(Digest));
      const auto why_late = late();
      obey(vote::vote_from(std::move(vote_), from, digest, why_late));
      break;
    }
    case PieceKind::Doubt: {
      vote::Ranks lost(plan_.world());
      for (std::uint32_t rank = 0; rank < plan_.world(); ++rank) lost[rank] = reception.into[rank] != std::byte{0};
      const bool asks = lost[from];
      lost[from] = false;
      obey(vote::doubt_from(std::move(vote_), from, std::move(lost), asks));
      break;
    }
    case PieceKind::Committed: obey(vote::committed_by(std::move(vote_), from)); break;
    case PieceKind::Aborted: obey(vote::aborted_by(std::move(vote_), from)); break;
    case PieceKind::Greeting:
    case PieceKind::Probe:
    case PieceKind::Probed: break;
  }
  return {};
}

Operation::Gathering& Operation::gathering_of(const Piece& piece) {
  const auto [at, made] = gatherings_.try_emplace(plan_.chunk_number(piece.segment, piece.chunk));
  if (made) {
    const auto others = plan_.route(piece.segment).take.size();
    at->second.inputs.resize(others);
    at->second.missing = others + (staging_ && fetching_[piece.segment].combined_here ? 1 : 0);
  }
  return at->second;
}

ChunkPool::Buffer& Operation::gathered(std::uint32_t from, const Piece& piece) {
  const auto& take = plan_.route(piece.segment).take;
  return gathering_of(piece).inputs[static_cast<std::size_t>(std::find(take.begin(), take.end(), from) - take.begin())];
}

void Operation::note_gathered(Gathering& gathering, const Piece& piece) {
  if (--gathering.missing == 0) combinable_.push_back(piece);
}

void Operation::keep(std::uint32_t from, const FrameHeader& header) {
  auto& lent = gathered(from, Piece{header.kind, header.segment, header.chunk});
  auto own = limits_.pool->take();
  std::memcpy(own.get(), lent.get(), header.payload_bytes);
  lent = std::move(own);
}

bool Operation::lacks(const FrameHeader& header, std::uint32_t rank) const {
  const auto& take = plan_.route(header.segment).take;
  const auto at = std::find(take.begin(), take.end(), rank);
  const auto gathering = gatherings_.find(plan_.chunk_number(header.segment, header.chunk));
  return at != take.end() && gathering != gatherings_.end() && !gathering->second.inputs[static_cast<std::size_t>(at - take.begin())];
}

void Operation::take_input(std::uint32_t from, const Piece& piece, ChunkPool::Buffer buffer) {
  gathered(from, piece) = std::move(buffer);
  --exchanges_[from].inputs_missing;
  note_gathered(gathering_of(piece), piece);
  step();
}

void Operation::take_result(const Piece& piece, std::uint64_t checksum, const Reception& reception) {
  step();
  if (arithmetic_.result_encoded()) {
    const auto out = output_of(piece);
    arithmetic_.decode_result(reception.into, out.bytes);
    write_back(piece, out.buffer);
  } else {
    write_back(piece, reception.buffer);
  }
  queue_result(piece, checksum, reception.into, reception.buffer);
}

// --- sending ---------------------------------------------------------------------------------------------------------

std::optional<Frame> Operation::next(std::uint32_t to, std::uint32_t most, bool vouched) {
  auto frame = next_frame(to, most);
  if (!frame) return std::nullopt;
  ++exchanges_[to].sending;
  if (frame->header.kind == PieceKind::Input && !vouched) frame->header.payload_checksum = checksum(frame->payload);
  return frame;
}

std::optional<Frame> Operation::next_frame(std::uint32_t to, std::uint32_t most) {
  auto& exchange = exchanges_[to];
  if (!exchange.begin_claimed) {
    exchange.begin_claimed = true;
    Frame begin{header_of(Piece{}, 0), {}, nullptr};
    begin.header.payload_checksum = checksum({});
    return begin;
  }
  if (!exchange.begun && plan_.schedule() != Schedule::Whole) return std::nullopt;
  if (!exchange.ready.empty()) {
    auto frame = std::move(exchange.ready.front());
    exchange.ready.pop_front();
    return frame;
  }
  return next_input(to, std::min(most, limits_.window_chunks));
}

bool Operation::begun_by_all() const {
  for (std::uint32_t rank = 0; rank < plan_.world(); ++rank)
    if (rank != plan_.rank() && !exchanges_[rank].begun) return false;
  return true;
}

std::optional<Frame> Operation::next_input(std::uint32_t to, std::uint32_t window) {
  auto& exchange = exchanges_[to];
  for (std::size_t tried = 0; tried < exchange.give.size(); ++tried) {
    const std::size_t at = (exchange.giving + tried) % exchange.give.size();
    const std::uint32_t segment = exchange.give[at];
    const std::uint32_t chunk = exchange.given[at];
    if (chunk == plan_.chunk_count(segment)) continue;
    if (plan_.schedule() != Schedule::Whole && chunk >= results_[segment] + window) continue;
    const Piece piece{PieceKind::Input, segment, chunk};
    if (staging_ && !staging_->input(number_of(piece))) continue;
    ++exchange.given[at];
    exchange.giving = at + 1;
    Frame frame{header_of(piece, payload_of(piece)), input_of(piece), staging_ ? staging_->input(number_of(piece)) : nullptr};
    if (arithmetic_.encoded()) {
      frame.buffer = limits_.pool->take();
      const std::span<std::byte> wire{frame.buffer.get(), payload_of(piece)};
      if (auto good = encode_input(piece, wire); !good) {
        give_up(std::move(good).error(), std::nullopt, false);
        return std::nullopt;
      }
      frame.payload = wire;
    }
    if (staging_) input_used(piece);
    return frame;
  }
  return std::nullopt;
}

Result<void> Operation::encode_input(const Piece& piece, std::span<std::byte> wire) {
  const auto range = plan_.chunk(piece.segment, piece.chunk);
  if (request_.residual.empty()) return arithmetic_.encode(input_of(piece), range.begin, wire);
  return arithmetic_.encode(
      input_of(piece), range.begin, wire,
      {request_.residual.subspan(range.begin, range.count), request_.next_residual.subspan(range.begin, range.count)});
}

void Operation::sent(std::uint32_t to, const FrameHeader& header) {
  moved(to, false, clock_());
  auto& exchange = exchanges_[to];
  stats_.wire_bytes_sent += HEADER_BYTES + body_bytes(header);
  --exchange.to_send;
  --exchange.sending;
  if (header.kind == PieceKind::Begin) exchange.begin_sent = true;
}

}  // namespace prime::lanes

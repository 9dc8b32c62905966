// Owns what the lane thread does with bytes: whose frame is written next, and where one goes that has come.
#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include "runtime/lanes/lane_thread.hpp"

namespace prime::lanes {
namespace {

/// So long an input that is lent waits for those of the other ranks: with fewer cores than ranks they come when those have had their turn.
constexpr Duration LENT_FOR = 1ms;
/// Steps of one stream in one turn: enough for a frame and the next header, few enough to be fair to the others.
constexpr int STEPS_PER_TURN = 4;
/// So many operations have their whole windows; more share what those have,
constexpr std::uint32_t WINDOWS_IN_ALL = 2;
/// and of many only so many, each at least a chunk.
constexpr std::uint32_t SHARES_AT_MOST = 8;
/// Frames of operations that have not begun here, of at most WHOLE_BYTES each. Beyond it lanes are not read.
constexpr std::size_t MAX_PARKED_FRAMES = 1024;
/// Of a lane that has lost a stream: enough to read what its others hold, and to answer with a vote.
constexpr std::uint32_t LAST_TURNS = 256;

}  // namespace

/// What is under way has a bound for all operations together: it is memory, and beyond the caches it is slow. Of many, the oldest have a
/// share of those that everybody has begun. All see the same ones as such before long, so at least one of them goes on everywhere.
void LaneThread::share_windows() {
  const auto count = static_cast<std::uint32_t>(operations_.size());
  if (count == 0) return;
  const auto share = std::clamp(WINDOWS_IN_ALL * window() / std::min(count, SHARES_AT_MOST), 1U, window());
  std::uint32_t given = 0;
  for (auto& [op, running] : operations_) {
    const bool has_one = count <= WINDOWS_IN_ALL || (given < SHARES_AT_MOST && running.operation->begun_by_all());
    running.window = has_one ? share : 0;
    running.operation->stage(running.window);
    if (has_one) ++given;
  }
}

void LaneThread::move_bytes() {
  share_windows();
  // Each peer begins with another one, so that not all serve the same peer first.
  const auto middle = lanes_.upper_bound(options_.self);
  const auto serve = [&](Lane& lane) {
    for (const auto& stream : lane.streams) {
      if (!stream->error()) write_to(lane, *stream);
      if (!stream->error()) read_from(*stream);
      note_moved(*stream);
      if (stream->may_read() || stream->may_write()) busy_ = true;
    }
  };
  for (auto at = middle; at != lanes_.end(); ++at) serve(at->second);
  for (auto at = lanes_.begin(); at != middle; ++at) serve(at->second);
  std::vector<std::pair<PeerId, Error>> lost;
  for (auto& [peer, lane] : lanes_)
    if (auto error = loss_of(lane)) lost.emplace_back(peer, std::move(*error));
  for (const auto& [peer, error] : lost) drop(peer, error);
}

std::optional<Error> LaneThread::loss_of(Lane& lane) {
  const auto broken = std::find_if(lane.streams.begin(), lane.streams.end(), [](const auto& stream) { return stream->error(); });
  if (broken != lane.streams.end()) {
    Error error = *(*broken)->error();
    if (broken == lane.streams.begin() || error.name != ErrorName::LaneBroken || lane.lost) return error;
    lane.lost = std::move(error);
    lane.last_turns = LAST_TURNS;
    lane.streams.erase(broken);
    busy_ = true;
  }
  if (!lane.lost || (busy_ && lane.last_turns-- > 0)) return std::nullopt;
  return lane.lost;
}

void LaneThread::read_from(Stream& stream) {
  if (stream.lends()) {
    if (options_.now() < stream.lent_until) return;
    keep_lent(stream);
  }
  if (stream.held) decide_on_header(stream);
  for (int step = 0; step < STEPS_PER_TURN && stream.may_read() && !stream.error(); ++step) {
    switch (stream.read(bin_)) {
      case Stream::ReadStep::Header: decide_on_header(stream); break;
      case Stream::ReadStep::Payload:
        deliver(stream, stream.received());
        busy_ = true;
        if (stream.lends()) {  // whatever is read next may overwrite it
          stream.lent_until = options_.now() + LENT_FOR;
          return;
        }
        break;
      case Stream::ReadStep::Dropped: break;
      case Stream::ReadStep::Blocked:
      case Stream::ReadStep::Lost: return;
    }
  }
}

/// What could not be combined soon is copied: what comes after it may be what the others wait for.
void LaneThread::keep_lent(const Stream& stream) {
  Operation* const operation = find(stream.header().op);
  operation->keep(*operation->rank_of(stream.peer()), stream.header());
}

/// Of several reduces, one rank's input may wait for what lies behind another one's, which waits in turn: of those that are waited for,
/// the lanes are made free.
void LaneThread::keep_what_blocks() {
  if (busy_) return;
  std::vector<Stream*> lending;
  each_stream([&](Stream& stream) {
    if (stream.lends()) lending.push_back(&stream);
  });
  const auto is_waited_for = [&](const Stream* blocking) {
    return std::ranges::any_of(lending, [&](const Stream* waiting) {
      const Operation* const operation = find(waiting->header().op);
      const auto rank = operation->rank_of(blocking->peer());
      return rank && operation->lacks(waiting->header(), *rank);
    });
  };
  std::erase_if(lending, [&](const Stream* stream) { return !is_waited_for(stream); });
  for (const Stream* stream : lending) keep_lent(*stream);
  busy_ = !lending.empty();
}

void LaneThread::decide_on_header(Stream& stream) {
  const FrameHeader& header = stream.header();
  if (header.kind == PieceKind::Greeting) return stream.lose(other_streams(header.world));
  if (header.kind == PieceKind::Begin) note_begin(stream);
  if (header.kind == PieceKind::Probe || header.kind == PieceKind::Probed) return take_probe(stream);
  Operation* const operation = find(header.op);
  if (operation == nullptr) return park_or_drop(stream);
  const auto from = operation->rank_of(stream.peer());
  if (!from) return stream.lose(Error{ErrorName::ProtocolViolation, "a frame from a peer that is not a member"});
  stream.held = operation->holds(header);
  if (stream.held) return;
  auto reception = operation->expect(*from, header, stream.can_lend());
  if (reception) {
    reception->vouched = stream.vouches();
    return stream.receive(std::move(*reception));
  }
  // A peer that means another reduce, or begins anew, still speaks the protocol: its lane stays.
  if (reception.error().name == ErrorName::ProtocolViolation) return stream.lose(std::move(reception).error());
  operation->give_up(std::move(reception).error(), from, false);
  stream.discard();
}

void LaneThread::take_probe(Stream& stream) {
  const FrameHeader& header = stream.header();
  if (header.kind == PieceKind::Probed) probes_.answered(stream.peer(), header);
  else if (auto answer = probes_.came(stream.peer(), header, options_.now()))
    lanes_.at(stream.peer()).control.push_back(std::move(*answer));
  stream.discard();
  busy_ = true;
}

void LaneThread::park_or_drop(Stream& stream) {
  const FrameHeader& header = stream.header();
  if (is_past(header.op)) {
    answer_for_past(stream);
    return stream.discard();
  }
  if (header.payload_bytes > WHOLE_BYTES)
    return stream.lose(Error{ErrorName::ProtocolViolation, "a chunk of operation " + to_string(header.op) + ", which has not begun here"});
  stream.held = parked_frames_ >= MAX_PARKED_FRAMES;
  if (stream.held) return;
  Reception reception{header, {}, ChunkPool::Buffer(new std::byte[header.payload_bytes])};
  reception.vouched = stream.vouches();
  reception.parked = true;
  reception.into = {reception.buffer.get(), header.payload_bytes};
  stream.receive(std::move(reception));
}

/// How an operation ended is told to who asks, and to who has begun it only now: it may have ended here before there was a lane.
void LaneThread::answer_for_past(const Stream& stream) {
  const FrameHeader& header = stream.header();
  const auto known = std::find_if(ended_.begin(), ended_.end(), [&](const auto& each) { return each.first == header.op; });
  if (known == ended_.end()) return;
  const bool asks =
      header.kind == PieceKind::Doubt || header.kind == PieceKind::Begin || (header.kind == PieceKind::Input && !known->second);
  if (!asks) return;
  Frame answer{header, {}, nullptr};
  answer.header.kind = known->second ? PieceKind::Committed : PieceKind::Aborted;
  answer.header.payload_bytes = 0;
  answer.header.payload_checksum = checksum({});
  answer.header.elsewhere = false;
  lanes_.at(stream.peer()).control.push_back(std::move(answer));
  busy_ = true;
}

void LaneThread::deliver(Stream& stream, Reception reception) {
  Operation* const operation = find(reception.header.op);
  if (reception.parked) {
    if (operation == nullptr && is_past(reception.header.op)) return;
    ++parked_frames_;
    parked_[reception.header.op].emplace_back(stream.peer(), std::move(reception));
    if (operation != nullptr) replay(*operation);  // started since its header came
    return;
  }
  const auto from = operation->rank_of(stream.peer());
  const bool elsewhere = reception.header.elsewhere;
  const Error given_up{ErrorName::LaneBroken, known_.text_of(stream.peer()) + " has given the reduce up, or written to its tensors"};
  auto good = reception.gone ? fail(given_up) : operation->received(*from, std::move(reception), options_.now());
  if (good) return;
  // Who has given a reduce up may use its memory for something else before its word of that is here. That says nothing of the lane.
  if (elsewhere) operation->give_up(given_up, from, false);
  else stream.lose(std::move(good).error());
}

/// Gives an operation what came before it was started.
void LaneThread::replay(Operation& operation) {
  const auto parked = parked_.extract(operation.id());
  if (!parked) return;
  parked_frames_ -= parked.mapped().size();
  for (const auto& [peer, early] : parked.mapped()) {
    const auto from = operation.rank_of(peer);
    if (!from) continue;
    auto reception = operation.expect(*from, early.header);
    if (!reception) {
      operation.give_up(std::move(reception).error(), from, false);
      continue;
    }
    reception->vouched = early.vouched;
    std::copy(early.into.begin(), early.into.end(), reception->into.begin());
    const auto lane = lanes_.find(peer);
    if (auto good = operation.received(*from, std::move(*reception), options_.now()); !good && lane != lanes_.end())
      lane->second.streams.front()->lose(std::move(good).error());
  }
}

/// Small payloads are sooner moved than found. With a vote alone: whoever has ended well then has everybody's vote, and with it the word
/// that nobody reads here any more. After another end it does not matter what they read: without this rank's vote it commits nowhere.
std::shared_ptr<const net::SharedRegion> LaneThread::region_of(const Operation& operation, const Frame& frame) const {
  if (!operation.votes() || frame.payload.size() <= WHOLE_BYTES) return nullptr;
  const std::less_equal<const std::byte*> up_to;
  const auto holds = [&](std::span<const std::byte> all) {
    return up_to(all.data(), frame.payload.data()) && up_to(frame.payload.data() + frame.payload.size(), all.data() + all.size());
  };
  // Only what is in use is locked, so that nobody's last holder goes here.
  const auto at = std::ranges::find_if(regions_, [&](const auto& each) { return holds(each.bytes) && !each.region.expired(); });
  return at == regions_.end() ? nullptr : at->region.lock();
}

/// Operations take turns, a frame each.
bool LaneThread::next_frame(Lane& lane, Stream& stream) {
  if (!lane.control.empty() && &stream == lane.streams.front().get()) {
    stream.send(std::move(lane.control.front()));
    lane.control.pop_front();
    return true;
  }
  if (lane.lost) return false;
  const std::size_t count = operations_.size();
  if (count == 0) {
    auto probe = probes_.next(stream.peer(), options_.now());
    if (probe) stream.send(std::move(*probe));
    return probe.has_value();
  }
  auto at = std::next(operations_.begin(), static_cast<std::ptrdiff_t>(lane.turn % count));
  for (std::size_t tried = 0; tried < count; ++tried) {
    auto& [operation, done, window] = at->second;
    if (++at == operations_.end()) at = operations_.begin();
    const auto to = operation->rank_of(stream.peer());
    // What is given in a ring bridges the time of all of its links.
    const auto most = operation->plan().schedule() == Schedule::Ring ? window : std::min(window, stream.window);
    auto frame = to ? operation->next(*to, most, stream.vouches()) : std::nullopt;
    if (!frame) continue;
    lane.turn = static_cast<std::size_t>(std::distance(operations_.begin(), at));
    if (frame->header.kind == PieceKind::Begin) frame->header.chunk = stream.own_port;
    const auto region = region_of(*operation, *frame);
    stream.send(std::move(*frame), region);
    return true;
  }
  return false;
}

void LaneThread::write_to(Lane& lane, Stream& stream) {
  for (int step = 0; step < STEPS_PER_TURN; ++step) {
    if (!stream.sending() && !next_frame(lane, stream)) return;
    if (!stream.may_write()) return;
    const FrameHeader header = stream.sending_header();
    if (stream.write() != Stream::WriteStep::Written) return;
    busy_ = true;
    Operation* const operation = find(header.op);
    const bool control = header.kind >= PieceKind::Vote;
    if (operation == nullptr || control) continue;
    if (const auto to = operation->rank_of(stream.peer())) operation->sent(*to, header);
  }
}

/// A slow link is not a dead one: what has moved of a frame counts, long before the frame is whole. A frame of a reduce that is void keeps
/// those behind it waiting, and moves for each of them.
void LaneThread::note_moved(Stream& stream) {
  const auto come = stream.take_come();
  const auto gone = stream.take_gone();
  if (come + gone == 0) return;
  bytes_moved_.fetch_add(come + gone, std::memory_order_relaxed);
  const auto note = [&](OperationId op, bool came) {
    const auto now = options_.now();
    const bool is_void = find(op) == nullptr;
    for (auto& [id, running] : operations_) {
      if (!is_void && id != op) continue;
      if (const auto rank = running.operation->rank_of(stream.peer())) running.operation->moved(*rank, came, now);
    }
  };
  if (come > 0 && stream.receiving()) note(stream.header().op, true);
  if (gone == 0) return;
  (void)stream.take_confirmed();  // what moves later than this is news
  if (stream.sending()) note(stream.sending_header().op, false);
}

}  // namespace prime::lanes

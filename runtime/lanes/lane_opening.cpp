// Owns how the lanes of the lane thread come and go: dialed or accepted, greeted, joined, broken, forgotten.
#include <algorithm>
#include <string>
#include <tuple>
#include <utility>

#include "runtime/lanes/lane_thread.hpp"
#include "runtime/lanes/link_options.hpp"
#include "runtime/net/congestion.hpp"

namespace prime::lanes {
namespace {

/// A lane whose other end has acknowledged nothing for so long is not trusted with the next operation. One that is merely slow, or
/// frozen, has a kernel that does.
constexpr Duration SILENCE = 3s;
/// To who is on this machine. Chunks under way bridge the time of a round trip; here there is none, and those that wait fall out of the
/// caches. That nobody stands between, a proxy to who is far, a Begin tells: by the port that its sender has, which is the one seen here.
constexpr std::uint32_t WINDOW_HERE = 3;

}  // namespace

std::unique_ptr<Stream> LaneThread::set_up(net::ChannelPtr channel) const {
  (void)apply_link_options(channel->fd(), options_.streams() > 1);
  const bool shares_memory = !channel->over_network();
  const auto ports = net::is_here(channel->fd()) ? net::ports_of(channel->fd()) : std::pair<std::uint16_t, std::uint16_t>{};
  auto stream = std::make_unique<Stream>(std::move(channel));
  std::tie(stream->own_port, stream->other_port) = ports;
  if (shares_memory) stream->window = WINDOW_HERE * options_.streams();
  return stream;
}

void LaneThread::note_begin(const Stream& stream) {
  if (stream.other_port == 0 || stream.header().chunk != stream.other_port) return;
  for (const auto& each : lanes_.at(stream.peer()).streams) each->window = WINDOW_HERE * options_.streams();
}

void LaneThread::obey(AdoptCommand command) {
  auto stream = set_up(std::move(command.channel));
  if (options_.streams() == 1) {
    (void)join(stream, 0, 0);
    return;
  }
  const auto of_this_peer = [&](const auto& each) { return each->peer() == stream->peer(); };
  // Those of a lane that came to nothing make room.
  if (std::count_if(arriving_.begin(), arriving_.end(), of_this_peer) >= 2 * std::int64_t{options_.streams()})
    arriving_.erase(std::find_if(arriving_.begin(), arriving_.end(), of_this_peer));
  arriving_.push_back(std::move(stream));
}

void LaneThread::obey(DialedCommand command) {
  Dialed& dialed = command.dialed;
  if (dialed.index == 0 && dialing_now_.erase(dialed.peer) == 0) return;  // forgotten meanwhile
  if (!dialed.channel) {
    if (!lanes_.contains(dialed.peer)) give_up_on(dialed.peer, dialed.channel.error());
    return;
  }
  auto stream = set_up(std::move(*dialed.channel));
  if (options_.streams() > 1) {
    Frame greeting;
    greeting.header.kind = PieceKind::Greeting;
    greeting.header.world = static_cast<std::uint16_t>(options_.streams());
    greeting.header.op.tag = Tag{dialed.bundle};
    greeting.header.chunk = dialed.index;
    greeting.header.payload_checksum = checksum({});
    stream->send(std::move(greeting));
  }
  if (dialed.index == 0) note_way(dialed.peer, dialed.through);
  (void)join(stream, dialed.bundle, dialed.index);
}

void LaneThread::note_way(PeerId peer, PeerId through) {
  const auto known = relayed_.find(peer);
  const bool changed = through != (known == relayed_.end() ? PeerId{} : known->second);
  if (through == PeerId{}) relayed_.erase(peer);
  else relayed_[peer] = through;
  if (changed && options_.on_way) options_.on_way(peer, through);
}

Error LaneThread::of_lane(Error error, PeerId peer) const {
  if (const auto relayed = relayed_.find(peer); relayed != relayed_.end())
    error.detail += ", relayed by " + known_.text_of(relayed->second);
  return std::move(error).with_context("on the lane to " + known_.text_of(peer));
}

void LaneThread::give_up_on(PeerId peer, const Error& error) {
  probes_.fail(peer, error);
  for (auto& [op, running] : operations_)
    if (const auto rank = running.operation->rank_of(peer); rank && running.operation->needs(*rank))
      running.operation->give_up(error, rank, true);
  busy_ = true;
}

void LaneThread::connect(const Member& member) {
  if (lanes_.contains(member.id)) return;
  if (options_.self < member.id && dialing_now_.insert(member.id).second) dialing_.dial(member);
}

bool LaneThread::join(std::unique_ptr<Stream>& stream, std::uint64_t bundle, std::uint32_t index) {
  const PeerId peer = stream->peer();
  if (index > 0) {
    const auto at = lanes_.find(peer);
    if (at == lanes_.end() || at->second.bundle != bundle || at->second.streams.size() == options_.streams()) return false;
    if (at->second.lost) return false;
    at->second.streams.push_back(std::move(stream));
    busy_ = true;
    return true;
  }
  if (lanes_.contains(peer)) {
    probes_.fail(peer, Error{ErrorName::Interrupted, "the peer opened another lane"});
    (void)close_lane(peer, Error{ErrorName::LaneBroken, "the peer opened another one"});
    finish_what_is_done();  // what that has ended is past before the first frame of the new lane is read, and its sender is told
  }
  Lane lane;
  lane.bundle = bundle;
  lane.streams.push_back(std::move(stream));
  lanes_.emplace(peer, std::move(lane));
  met_.insert(peer);
  unlike_.erase(peer);
  for (auto& [op, running] : operations_)
    if (const auto rank = running.operation->rank_of(peer)) running.operation->reconnect_by(*rank, std::nullopt);
  busy_ = true;
  return true;
}

void LaneThread::greet_arrivals() {
  for (auto at = arriving_.begin(); at != arriving_.end();) at = greet(*at) ? arriving_.erase(at) : at + 1;
}

bool LaneThread::greet(std::unique_ptr<Stream>& stream) {
  if (stream->error()) return true;  // reset while it waited for its lane
  if (!stream->held && !stream->may_read()) return false;
  switch (stream->read(bin_)) {
    case Stream::ReadStep::Header: break;
    case Stream::ReadStep::Blocked: busy_ = busy_ || stream->may_read(); return false;
    case Stream::ReadStep::Payload:
    case Stream::ReadStep::Dropped:
    case Stream::ReadStep::Lost: return true;
  }
  const FrameHeader greeting = stream->header();
  const bool greets = greeting.kind == PieceKind::Greeting;
  if (!greets || greeting.world != options_.streams()) {
    const Error error = other_streams(greets ? greeting.world : 1);
    unlike_.insert_or_assign(stream->peer(), error);
    give_up_on(stream->peer(), error);
    return true;
  }
  Stream& joining = *stream;
  // One that finds no lane stays: the first stream of its lane may still be on its way.
  joining.held = !join(stream, greeting.op.tag.value, greeting.chunk);
  if (joining.held) return false;
  joining.discard();
  return true;
}

Error LaneThread::other_streams(std::uint32_t theirs) const {
  return Error{ErrorName::ReduceMismatch,
               "its lanes have " + std::to_string(theirs) + " streams, ours have " + std::to_string(options_.streams())};
}

void LaneThread::drop(PeerId peer, const Error& error) {
  if (!close_lane(peer, error)) return;
  for (auto& [op, running] : operations_) {
    const auto rank = running.operation->rank_of(peer);
    if (!rank || !running.operation->needs(*rank)) continue;
    running.operation->reconnect_by(*rank, options_.now() + options_.reconnect_grace);
    connect(running.operation->member(*rank));
  }
}

bool LaneThread::close_lane(PeerId peer, const Error& error) {
  lanes_.erase(peer);
  probes_.fail(peer, error);
  probes_.forget(peer);
  forget_parked(peer);
  if (error.name == ErrorName::ReduceMismatch) unlike_.insert_or_assign(peer, error);
  bool wanted = false;
  for (auto& [op, running] : operations_) {
    const auto rank = running.operation->rank_of(peer);
    if (!rank || !running.operation->needs(*rank)) continue;
    if (error.name == ErrorName::LaneBroken && running.operation->restart(*rank)) wanted = true;
    else running.operation->give_up(of_lane(error, peer), rank, true);
  }
  busy_ = true;
  return wanted;
}

/// Who sent them has heard nothing of their operation from here, and begins it anew over another lane, or gives it up.
void LaneThread::forget_parked(PeerId peer) {
  for (auto& [op, early] : parked_) parked_frames_ -= std::erase_if(early, [&](const auto& each) { return each.first == peer; });
  std::erase_if(parked_, [](const auto& each) { return each.second.empty(); });
}

std::vector<PeerId> LaneThread::silent_lanes(const Operation& operation) const {
  std::vector<PeerId> silent;
  if (operation.votes()) return silent;  // who doubts asks on the same lane
  for (const auto rank : operation.plan().peers()) {
    const auto lane = lanes_.find(operation.member(rank).id);
    if (lane == lanes_.end()) continue;
    if (std::ranges::any_of(lane->second.streams, [](const auto& stream) { return unacknowledged_for(stream->fd()) >= SILENCE; }))
      silent.push_back(lane->first);
  }
  return silent;
}

}  // namespace prime::lanes

#include "runtime/lanes/link_probe.hpp"

#include <algorithm>
#include <array>

namespace prime::lanes {
namespace {

/// Not all zeros: something on the way may compress.
const std::array<std::byte, PROBE_BYTES>& probe_payload() {
  static const auto payload = [] {
    std::array<std::byte, PROBE_BYTES> bytes{};
    std::uint32_t x = 1;
    for (auto& byte : bytes) byte = static_cast<std::byte>((x = x * 1664525U + 1013904223U) >> 24U);
    return bytes;
  }();
  return payload;
}

std::uint64_t probe_checksum() {
  static const auto sum = checksum(probe_payload());
  return sum;
}

std::uint64_t rate(std::uint64_t frames, Duration took) {
  const auto bytes = static_cast<double>(frames * (HEADER_BYTES + PROBE_BYTES));
  return static_cast<std::uint64_t>(std::max(1.0, bytes / std::chrono::duration<double>(took).count()));
}

}  // namespace

void LinkProbes::begin(PeerId to, MeasureDone done, Instant now) {
  fail(to, Error{ErrorName::Interrupted, "measured anew"});
  outgoing_.emplace(to, Outgoing{std::move(done), now + MEASURE_LIMIT, ++rounds_, FIRST_PROBES, 0, {}, {}});
}

std::optional<Frame> LinkProbes::next(PeerId to, Instant now) {
  const auto at = outgoing_.find(to);
  if (at == outgoing_.end() || at->second.sent == at->second.count) return std::nullopt;
  Frame frame;
  frame.header.kind = PieceKind::Probe;
  frame.header.world = 1;
  frame.header.op.tag = Tag{at->second.number};
  frame.header.op.sequence = Sequence{at->second.count};
  frame.header.payload_bytes = PROBE_BYTES;
  frame.header.payload_checksum = probe_checksum();
  frame.payload = probe_payload();
  if (at->second.sent++ == 0) at->second.since = now;
  return frame;
}

void LinkProbes::answered(PeerId by, const FrameHeader& header) {
  const auto at = outgoing_.find(by);
  if (at == outgoing_.end() || header.op.tag.value != at->second.number) return;
  auto& [done, until, number, count, sent, since, before] = at->second;
  const auto took = std::chrono::nanoseconds(std::max<std::uint64_t>(header.agreement, 1));
  const auto speed = rate(count - 1, took);
  if (before || count == MAX_PROBES) return end(at, std::min(speed, before.value_or(speed)));
  if (took < LONG_ENOUGH) count *= PROBES_GROW;
  else before = speed;
  number = ++rounds_;
  sent = 0;
}

void LinkProbes::fail(PeerId to, const Error& error) {
  if (const auto at = outgoing_.find(to); at != outgoing_.end()) end(at, prime::fail(error));
}

void LinkProbes::interrupt(const Error& why, Instant now) {
  while (!outgoing_.empty()) {
    const auto at = outgoing_.begin();
    const auto& round = at->second;
    if (round.sent > 0 && now - round.since >= LONG_WITHOUT_ANSWER) end(at, rate(round.count, now - round.since));
    else end(at, prime::fail(why));
  }
}

void LinkProbes::expire(Instant now, const std::function<bool(PeerId)>& is_met) {
  for (auto at = outgoing_.begin(); at != outgoing_.end();) {
    const auto each = at++;
    if (now < each->second.until) continue;
    if (is_met(each->first)) end(each, std::uint64_t{1});
    else end(each, prime::fail(ErrorName::DeadlineExceeded, "no lane to peer " + to_string(each->first)));
  }
}

std::optional<Instant> LinkProbes::next_deadline() const {
  std::optional<Instant> next;
  for (const auto& [to, measurement] : outgoing_) next = std::min(next.value_or(measurement.until), measurement.until);
  return next;
}

void LinkProbes::end(std::map<PeerId, Outgoing>::iterator at, Result<std::uint64_t> speed) {
  const auto done = std::move(at->second.done);
  outgoing_.erase(at);
  done(std::move(speed));
}

std::optional<Frame> LinkProbes::came(PeerId from, const FrameHeader& header, Instant now) {
  auto& round = incoming_[from];
  if (round.number != header.op.tag.value) round = Incoming{header.op.tag.value, 0, now};
  if (++round.came < header.op.sequence.value) return std::nullopt;
  Frame answer;
  answer.header.kind = PieceKind::Probed;
  answer.header.world = 1;
  answer.header.op = header.op;
  answer.header.agreement = static_cast<std::uint64_t>(std::chrono::nanoseconds(now - round.since).count());
  answer.header.payload_checksum = checksum({});
  incoming_.erase(from);
  return answer;
}

}  // namespace prime::lanes

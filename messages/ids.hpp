// Owns the strong identifiers of the protocol: none converts to another, all print as one fixed text.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace prime {

/// A number that means one thing. `Tag` keeps kinds apart; `value` is public because it is plain data.
template <class Tag>
struct Number {
  std::uint64_t value = 0;
  friend auto operator<=>(const Number&, const Number&) = default;
  [[nodiscard]] Number next() const { return Number{value + 1}; }
};

template <class Inspector, class Tag>
auto inspect(Inspector& f, Number<Tag>& x) {
  return f(x.value);
}

/// One incarnation of a peer: 64 random bits, drawn anew at every start of an agent.
using PeerId = Number<struct PeerIdTag>;
/// Counts the departures of a run's members, from 1 on: within an epoch members only come. A departure ends what it was a part of, a joiner
/// ends nothing.
using Epoch = Number<struct EpochTag>;
/// Numbers the attempted operations of a run, or of one tag of a group.
using Sequence = Number<struct SequenceTag>;
/// Keeps operations apart that run at once; operations of one tag follow each other.
using Tag = Number<struct TagTag>;
/// Counts committed outer steps; step n leads from revision n-1 to revision n.
using OuterStep = Number<struct OuterStepTag>;
/// The version of the shared state; 0 is the initial one.
using Revision = Number<struct RevisionTag>;

/// 128-bit digest of a state or buffer (XXH3; guards against faults, not against forgers).
struct Digest {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  friend auto operator<=>(const Digest&, const Digest&) = default;
};

template <class Inspector>
auto inspect(Inspector& f, Digest& x) {
  return f(x.high, x.low);
}

/// Names one attempt of one collective: (run and group are implied by the connection, DESIGN law 1).
struct OperationId {
  Epoch epoch;
  Sequence sequence;
  Tag tag{};
  friend auto operator<=>(const OperationId&, const OperationId&) = default;
};

template <class Inspector>
auto inspect(Inspector& f, OperationId& x) {
  return f(x.epoch, x.sequence, x.tag);
}

/// 16 hexadecimal digits.
std::string to_string(PeerId id);
/// 32 hexadecimal digits.
std::string to_string(const Digest& digest);
/// "epoch.sequence", and "#tag" unless that is 0.
std::string to_string(const OperationId& op);

std::optional<PeerId> parse_peer_id(std::string_view text);
std::optional<Digest> parse_digest(std::string_view text);

/// A readable name for an id, such as "brave-otter"; the same on every machine. Not unique: the id is.
std::string readable_name(PeerId id);

}  // namespace prime

template <class Tag>
struct std::hash<prime::Number<Tag>> {
  std::size_t operator()(const prime::Number<Tag>& x) const noexcept { return std::hash<std::uint64_t>{}(x.value); }
};

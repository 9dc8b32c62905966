// Owns what peers and the coordinator say about membership: hello, welcome, seats, views, heartbeats, farewells.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "messages/data_identity.hpp"
#include "messages/errors.hpp"
#include "messages/ids.hpp"
#include "messages/shared_list.hpp"

namespace prime {

/// Changes with every incompatible change of a message, frame or the trainer socket.
inline constexpr std::uint32_t PROTOCOL_VERSION = 28;
/// The largest view that is believed, whoever says so.
inline constexpr std::uint32_t MAX_PEERS = 1024;
/// Peers that hold the parts of one model together.
inline constexpr std::uint32_t MAX_SHARDS = 64;
/// Coordinators of one run, the one that leads it and those that stand by.
inline constexpr std::size_t MAX_COORDINATORS = 8;

struct Endpoint {
  std::string host;
  std::uint16_t port = 0;
  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};
template <class Inspector>
auto inspect(Inspector& f, Endpoint& x) {
  return f(x.host, x.port);
}

/// For people and journals.
inline std::string text_of(const Endpoint& endpoint) { return endpoint.host + ":" + std::to_string(endpoint.port); }

/// Of one process, as it tells them.
inline constexpr std::size_t MAX_ADDRESSES = 6;
/// Under which one process may be reached, the likeliest first: a machine has several addresses, and which of them leads there depends on
/// who asks. Who dials tries them all.
struct Addresses {
  std::vector<Endpoint> list;

  Addresses() = default;
  Addresses(Endpoint only) : list{std::move(only)} {}                     // NOLINT(google-explicit-constructor)
  Addresses(std::vector<Endpoint> several) : list(std::move(several)) {}  // NOLINT(google-explicit-constructor)
  friend bool operator==(const Addresses&, const Addresses&) = default;
};
template <class Inspector>
auto inspect(Inspector& f, Addresses& x) {
  return f(x.list);
}
inline std::string text_of(const Addresses& addresses) {
  std::string text;
  for (const auto& each : addresses.list) text += (text.empty() ? "" : ",") + text_of(each);
  return text;
}
inline std::vector<std::string> texts_of(const std::vector<Addresses>& all) {
  std::vector<std::string> texts;
  texts.reserve(all.size());
  for (const auto& each : all) texts.push_back(text_of(each));
  return texts;
}

/// Peer → coordinator, first message: who I am. Answered by Welcome or an Error.
struct Hello {
  std::uint32_t protocol = PROTOCOL_VERSION;
  std::string run;  ///< run id from the invite
  PeerId peer;
  std::string name;          ///< readable, for people only
  Addresses lanes;           ///< where this peer accepts lanes; at most MAX_ADDRESSES
  std::uint32_t pid = 0;     ///< of the agent, for `status`
  bool returning = false;    ///< has been a member, and lost the coordinator since
  std::uint32_t shard = 0;   ///< which part of the model it holds, where `membership.shards` has several
  std::string replica = {};  ///< then: names the model, shared by the peers that hold the parts of the same one; else empty
};
template <class Inspector>
auto inspect(Inspector& f, Hello& x) {
  return f(x.protocol, x.run, x.peer, x.name, x.lanes, x.pid, x.returning, x.shard, x.replica);
}

/// Coordinator → peer: you may take a seat. Carries the shared half of the manifest, which is the run's configuration.
struct Welcome {
  std::uint64_t ordinal = 0;  ///< order of arrival; ranks follow it
  std::string manifest;       ///< shared half, canonical YAML, below 48 KiB
};
template <class Inspector>
auto inspect(Inspector& f, Welcome& x) {
  return f(x.ordinal, x.manifest);
}

/// Peer → coordinator: the trainer has bound its tensors; I hold this state.
struct Seated {
  Revision revision;
  Digest state;   ///< digest of the whole shared state at that revision
  Digest layout;  ///< digest of names, shapes, dtypes; must equal the run's
  std::uint64_t elements = 0;
  std::uint32_t trainer_pid = 0;
  DataIdentity data = {};          ///< must equal the run's, where both are told
  std::vector<Digest> parts = {};  ///< of each fragment; empty: there is one
};
template <class Inspector>
auto inspect(Inspector& f, Seated& x) {
  return f(x.revision, x.state, x.layout, x.elements, x.trainer_pid, x.data, x.parts);
}

/// Joiner → coordinator: the state is here and its digest is right.
struct Fetched {
  Revision revision;
  Digest state;
  std::vector<Digest> parts = {};  ///< as Seated has them
};
template <class Inspector>
auto inspect(Inspector& f, Fetched& x) {
  return f(x.revision, x.state, x.parts);
}

/// Joiner → coordinator: the donor could not serve it (gone, moved on, damaged).
struct FetchFailed {
  PeerId donor;
  Revision revision;
  Error error;
};
template <class Inspector>
auto inspect(Inspector& f, FetchFailed& x) {
  return f(x.donor, x.revision, x.error);
}

struct Member {
  PeerId id;
  std::string name;
  Addresses lanes;
  std::uint64_t ordinal = 0;
  friend bool operator==(const Member&, const Member&) = default;
};
template <class Inspector>
auto inspect(Inspector& f, Member& x) {
  return f(x.id, x.name, x.lanes, x.ordinal);
}

/// Members that are named to a joiner, to pass its fetch on.
inline constexpr std::size_t MAX_FETCH_RELAYS = 4;

/// Coordinator → joiner: fetch this revision from that peer. Answered by Fetched or FetchFailed.
struct FetchState {
  PeerId donor;
  Addresses lanes;
  Revision revision;
  Digest state;
  std::vector<Member> relays = {};             ///< who may reach the donor where the joiner does not; at most MAX_FETCH_RELAYS
  std::vector<Digest> parts = {};              ///< of each fragment: what the joiner holds of them it need not fetch; empty: not known
  OuterStep step = {};                         ///< the last one that all fragments have made then
  std::uint64_t tokens = 0;                    ///< trained on by all peers by then
  std::uint64_t next_sample = 0;               ///< the data cursor then
  std::vector<std::uint64_t> given_back = {};  ///< as Commit has them
};
template <class Inspector>
auto inspect(Inspector& f, FetchState& x) {
  return f(x.donor, x.lanes, x.revision, x.state, x.relays, x.parts, x.step, x.tokens, x.next_sample, x.given_back);
}

/// The agreed list of peers. A member's rank is its index: who came later ranks later, unless the links say otherwise.
struct View {
  Epoch epoch;
  SharedList<Member> members;
  friend bool operator==(const View&, const View&) = default;
};
template <class Inspector>
auto inspect(Inspector& f, View& x) {
  return f(x.epoch, on_wire<Inspector>(x.members));
}

/// Coordinator → member: measure how fast bytes reach another one. Answered by LinkMeasured.
struct MeasureLink {
  Member to;
};
template <class Inspector>
auto inspect(Inspector& f, MeasureLink& x) {
  return f(x.to);
}

/// Member → coordinator.
struct LinkMeasured {
  PeerId to;
  bool known = true;              ///< false: something came between, such as a reduce
  std::uint64_t bytes_per_s = 0;  ///< 0: it cannot be reached
};
template <class Inspector>
auto inspect(Inspector& f, LinkMeasured& x) {
  return f(x.to, x.known, x.bytes_per_s);
}

/// Member → coordinator: my lane to this one is passed on by a third, or no longer.
struct LaneRelayed {
  PeerId to;
  PeerId through;  ///< 0: it leads there directly
};
template <class Inspector>
auto inspect(Inspector& f, LaneRelayed& x) {
  return f(x.to, x.through);
}

/// Coordinator → peer, after the welcome and whenever they change: where the run is served, and where it may be served next.
struct Coordinators {
  std::vector<Addresses> addresses;  ///< at most MAX_COORDINATORS
};
template <class Inspector>
auto inspect(Inspector& f, Coordinators& x) {
  return f(x.addresses);
}

/// Coordinator → peer of a replica that is not whole: for whom it waits. Told again whenever that changes, and when the wait is over.
struct ReplicaLacks {
  std::string missing;  ///< "shard 1", "shards 0, 2", for people only; empty: the replica is whole
};
template <class Inspector>
auto inspect(Inspector& f, ReplicaLacks& x) {
  return f(x.missing);
}

/// Peer → coordinator, every `membership.heartbeat.every`; judged on the receiver's monotonic clock.
struct Heartbeat {
  std::uint64_t inner_steps = 0;  ///< done in this outer step
  std::uint64_t moved_bytes = 0;  ///< sent and received so far over lanes and of the state: more of them is progress
};
template <class Inspector>
auto inspect(Inspector& f, Heartbeat& x) {
  return f(x.inner_steps, x.moved_bytes);
}

/// Coordinator → peer: the answer to a heartbeat; its absence is how a peer notices a frozen coordinator.
struct HeartbeatSeen {
  Epoch epoch;
};
template <class Inspector>
auto inspect(Inspector& f, HeartbeatSeen& x) {
  return f(x.epoch);
}

/// Peer → coordinator, the last message: I go, and why.
struct Deathrattle {
  bool graceful = true;  ///< a `leave`; otherwise `cause` says what failed
  Error cause;
};
template <class Inspector>
auto inspect(Inspector& f, Deathrattle& x) {
  return f(x.graceful, x.cause);
}

/// Coordinator → peer: you are no longer (or never were) a member, and why.
struct Dismissed {
  Error cause;
};
template <class Inspector>
auto inspect(Inspector& f, Dismissed& x) {
  return f(x.cause);
}

}  // namespace prime

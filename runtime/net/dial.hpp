// Owns dialing: from an endpoint to an authenticated channel, within a deadline, in the caller's thread.
#pragma once

#include "messages/membership.hpp"
#include "messages/result.hpp"
#include "messages/units.hpp"
#include "runtime/net/address_race.hpp"
#include "runtime/net/channel.hpp"
#include "runtime/net/credentials.hpp"
#include "runtime/net/protocol.hpp"
#include "runtime/net/socket.hpp"

namespace prime::net {

/// Of a dial: how long it may take, and what ends it sooner, as the end of who dials.
struct DialLimit {
  template <class Rep, class Period>
  DialLimit(std::chrono::duration<Rep, Period> time, const StopSignal* ends = nullptr) : timeout(time), stop(ends) {}
  Duration timeout;
  const StopSignal* stop;
};

/// Resolves, connects, proves the run key at both ends and waits for the go-ahead; all of it within `limit`. All addresses are tried,
/// those that `memory` knows first (address_race.hpp).
///   RunUnreachable   nobody answers, the time is up, or somebody other than `who` answers: the detail says which and where
///   KeyRefused       the other end holds another run key
///   WrongRun         another run answers there
///   VersionMismatch  the other end does not speak this version of `protocol`
///   Interrupted      `limit` stopped it
Result<ChannelPtr> dial(const Addresses& addresses, Protocol protocol, const Credentials& credentials, const Expectation& who,
                        DialLimit limit, Transport transport = Transport::Tls, AddressMemory* memory = nullptr);

/// To a process of this machine, through shared memory: lanes only. RunUnreachable when `peer` does not listen in this network
/// namespace, whatever the reason; at once, so that the network can be tried next.
Result<ChannelPtr> dial_memory(const Credentials& credentials, PeerId peer, DialLimit limit);

/// To a peer that cannot be dialed: `through`, which listens at `addresses`, passes the bytes on (relay.hpp). The handshake of the lane, or
/// of the state's transfer, runs from end to end, so the errors are those of `dial`; RunUnreachable also when `through` cannot or will not
/// pass it on.
Result<ChannelPtr> dial_through(const Addresses& addresses, PeerId through, Protocol protocol, const Credentials& credentials, PeerId peer,
                                DialLimit limit, Transport transport = Transport::Tls, AddressMemory* memory = nullptr);

/// Connects to what listens there, and no more.
Result<SocketPtr> connect_to(const Addresses& addresses, Instant until, const StopSignal* stop = nullptr);

}  // namespace prime::net

// Owns the transfer of a shared state from a donor to a joiner, over a channel of its own: request, offer, ask, chunks.
//
// All figures are little-endian. Request: magic u32, version u32, revision u64, fragments u64 (bit i: fragment i is wanted). Offer: status
// u32 (0 here, 1 moved on, 2 busy), pad u32, revision, total_bytes as u64, then the version of each wanted fragment as u64. Ask: first
// chunk u64. Chunk: index u64, length u64, its digest of 16 bytes, bytes. Chunks are those of kernels/digest over the parameters, then over
// the momentum, of one wanted fragment after the other, and then over the copied tensors. A joiner that lost the connection asks again from
// the first chunk that is missing; recovery_machine.hpp decides.
#pragma once

#include <atomic>
#include <functional>
#include <memory>

#include "messages/membership.hpp"
#include "messages/result.hpp"
#include "messages/units.hpp"
#include "runtime/agent/outer_state.hpp"
#include "runtime/net/channel.hpp"
#include "runtime/net/session_threads.hpp"

namespace prime {

/// Joiners served at once; further ones are told "busy" and come back.
inline constexpr std::size_t MAX_STATE_SESSIONS = 4;
/// A partner that moves no byte for so long is given up.
inline constexpr Duration STATE_SILENCE_LIMIT = 20s;

/// The donor's side: one thread for each session.
class StateServer {
 public:
  /// `snapshot` is called from session threads, once a request was read and only for the revision that is held now; it may return null
  /// while there is no state yet, or when too much is held already.
  explicit StateServer(std::function<std::shared_ptr<const Snapshot>()> snapshot) : snapshot_(std::move(snapshot)) {}
  /// Serves one joiner; returns at once.
  void serve(net::ChannelPtr channel);

 private:
  std::function<std::shared_ptr<const Snapshot>()> snapshot_;
  /// A crowd beyond even the busy answers is dropped at once: each answer costs a thread.
  net::SessionThreads sessions_{4 * MAX_STATE_SESSIONS};
};

/// Fetches fragments of `revision` straight to where they are to lie, and puts down their versions; their digests are the caller's to
/// compare. `copied` takes the copied tensors. `dial` makes a channel to the donor; `channel_opened` lets a canceller see it; `moved`
/// counts bytes as they come.
Result<void> fetch_state(Revision revision, std::vector<OuterState::Incoming>& into, std::span<std::byte> copied,
                         const std::function<Result<net::ChannelPtr>()>& dial, const std::function<void(net::Channel*)>& channel_opened,
                         std::atomic<std::uint64_t>& moved);

}  // namespace prime

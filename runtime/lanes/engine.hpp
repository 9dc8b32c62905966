// Owns LaneEngine: the data plane of one process. One thread moves the chunks of all reduces over one lane for each peer.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "actors/ports.hpp"
#include "messages/ids.hpp"
#include "messages/membership.hpp"
#include "messages/result.hpp"
#include "messages/units.hpp"
#include "runtime/clock.hpp"
#include "runtime/lanes/frame.hpp"
#include "runtime/net/channel.hpp"
#include "runtime/net/dial.hpp"

namespace prime::lanes {

/// Connects to a member within the limit given; may block. Runs on the engine's dialing thread.
using Dialer = std::function<Result<net::ChannelPtr>(const Member&, net::DialLimit)>;
/// The same through a third member that passes the bytes on.
using RelayDialer = std::function<Result<net::ChannelPtr>(const Member& through, const Member&, net::DialLimit)>;
/// Called on the lane thread after each chunk that was received or summed: `done` of `total`. Must be cheap; may call the engine.
using ChunkObserver = std::function<void(OperationId, std::uint64_t done, std::uint64_t total)>;

class LaneThread;

struct EngineOptions {
  PeerId self;
  Dialer dial;
  RelayDialer dial_through;  ///< tried after `dial`; empty: who cannot be dialed cannot be reached
  /// Called on the lane thread when a lane that was opened here leads another way than the last one to that peer; 0: directly.
  std::function<void(PeerId to, PeerId through)> on_way;
  std::function<Instant()> now = monotonic_now;
  ChunkObserver on_chunk;                 ///< may be empty
  std::size_t chunk_bytes = CHUNK_BYTES;  ///< equal on all peers; at most MAX_PAYLOAD_BYTES
  std::uint32_t window_chunks = 8;        ///< equal on all peers: chunks given of one segment whose results are not here yet
  /// Connections that make up one lane, equal on all peers: more than one for links on which a single one does not get all the bandwidth.
  std::function<std::uint32_t()> streams = [] { return 1; };  ///< called on both of the engine's threads
  Duration dial_timeout = 5s;                                 ///< of one attempt, relays included
  std::uint32_t dial_attempts = 3;
  Duration redial_pause = 100ms;  ///< between attempts
  /// How long an operation waits for a peer whose lane broke before it sent anything, or before the operation began.
  Duration reconnect_grace = 2s;
};

/// For each pair the peer with the smaller id dials. Operations of different tags run at once; those of one tag follow each other: a
/// start ends an older one of its tag, and all of an older epoch. Channels outlive operations, also aborted ones. All calls but
/// `start_and_drive` return at once, from any thread.
class LaneEngine final : public ReducePort {
 public:
  explicit LaneEngine(EngineOptions options);
  /// Ends a running operation with an error, and a dial that is under way.
  ~LaneEngine() override;
  LaneEngine(const LaneEngine&) = delete;
  LaneEngine& operator=(const LaneEngine&) = delete;

  /// `done` is called on the lane thread; after it no byte of the request's spans is touched.
  void start(ReduceRequest request, std::function<void(ReduceOutcome)> done) override;
  /// The same, but this call does the lane thread's work until the operation is over, so that nothing waits for a change of threads.
  /// Returns at once where another caller does that already. All that is called on the lane thread may be called on this one; never from
  /// what is called there.
  void start_and_drive(ReduceRequest request, std::function<void(ReduceOutcome)> done);
  void abort(OperationId op, const std::string& reason) override;
  [[nodiscard]] std::uint64_t bytes_moved() const override;
  void measure(const Member& member, std::function<void(Result<std::uint64_t>)> done) override;
  /// Memory of its own that it has taken, at most.
  [[nodiscard]] std::size_t peak_bytes() const;

  /// Lanes to processes that can map this region do not move what lies in it, in the reduces that start after this call: the other end
  /// reads it there, once it has said that it can.
  void share(const std::shared_ptr<const net::SharedRegion>& region);

  /// Of these some may pass the lane to another one on. A reduce tells its members by itself.
  void know(const View& view);
  [[nodiscard]] std::optional<Member> member(PeerId id) const;
  /// Whether it has been one, and is none any more.
  [[nodiscard]] bool is_gone(PeerId id) const;

  /// Takes an accepted channel; the first of a lane replaces an older lane of the same peer.
  void adopt(net::ChannelPtr channel);
  /// Closes the channel of a peer that is no longer a member; an operation that needs it fails.
  void forget(PeerId peer);

 private:
  std::unique_ptr<LaneThread> thread_;
};

}  // namespace prime::lanes

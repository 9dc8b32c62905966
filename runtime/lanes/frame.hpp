// Owns the frame of a lane: a header of 64 bytes, little-endian, then the payload, or the place where the other end finds it. Nothing in it
// is believed before it is checked.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "actors/reduce_worker/schedule.hpp"
#include "messages/ids.hpp"
#include "messages/result.hpp"
#include "runtime/net/channel.hpp"

namespace prime::lanes {

inline constexpr std::size_t HEADER_BYTES = 64;
inline constexpr std::size_t MAX_PAYLOAD_BYTES = 512 * 1024;
/// Of a tensor, in one frame, unless an engine is told another size.
inline constexpr std::size_t CHUNK_BYTES = 256 * 1024;
inline constexpr std::uint8_t FRAME_VERSION = 7;

using HeaderBytes = std::array<std::byte, HEADER_BYTES>;

struct FrameHeader {
  PieceKind kind = PieceKind::Begin;
  std::uint16_t world = 0;
  std::uint16_t segment = 0;
  OperationId op;
  std::uint64_t agreement = 0;  ///< hash of all that peers must agree on before the first element (members, weights, types, chunks)
  std::uint32_t chunk = 0;      ///< of a Begin: the port of its sender's end, if that is on one machine with the other end; else 0
  std::uint32_t payload_bytes = 0;
  std::uint64_t payload_checksum = 0;  ///< none of an input where the channel vouches for it
  bool elsewhere = false;              ///< what follows is the payload's place in memory that the sender shares; inputs and results only
  friend bool operator==(const FrameHeader&, const FrameHeader&) = default;
};

HeaderBytes encode(const FrameHeader& header);
/// Fails with VersionMismatch for a peer of another version, else with LaneBroken for bytes that are no header. What it returns
/// is within bounds (kind, payload, world), but says nothing yet about the running operation.
Result<FrameHeader> decode(std::span<const std::byte, HEADER_BYTES> bytes);

/// Of what follows the header.
inline std::size_t body_bytes(const FrameHeader& header) {
  return header.elsewhere ? sizeof(net::Channel::RegionPlace) : header.payload_bytes;
}

/// XXH3-64.
std::uint64_t checksum(std::span<const std::byte> bytes);

}  // namespace prime::lanes

// Owns the bytes of a frame header.
#include "runtime/lanes/frame.hpp"

#include <bit>
#include <concepts>
#include <cstring>
#include <string>
#if defined(__x86_64__)
#include <xxh_x86dispatch.h>  // the same values by the widest vectors that the processor has: 2.5 times the rate
#else
#include <xxhash.h>
#endif

namespace prime::lanes {
namespace {

// Offsets: magic 0, version 2, kind 3 (its highest bit: the payload lies elsewhere), world 4, segment 6, epoch 8, sequence 16, tag 24,
// agreement 32, chunk 40, payload bytes 44, payload checksum 48, checksum of all before 56.
constexpr std::uint16_t MAGIC = 0x4C50;  // "PL"
constexpr std::size_t CHECKSUM_OFFSET = 56;
constexpr std::uint8_t ELSEWHERE = 0x80;

static_assert(std::endian::native == std::endian::little, "frames are copied as they lie in memory");

template <std::unsigned_integral T>
void put(HeaderBytes& bytes, std::size_t offset, T value) {
  std::memcpy(bytes.data() + offset, &value, sizeof value);
}

template <std::unsigned_integral T>
T get(std::span<const std::byte, HEADER_BYTES> bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

}  // namespace

std::uint64_t checksum(std::span<const std::byte> bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

HeaderBytes encode(const FrameHeader& header) {
  HeaderBytes bytes{};
  put(bytes, 0, MAGIC);
  put(bytes, 2, FRAME_VERSION);
  put(bytes, 3, static_cast<std::uint8_t>(static_cast<unsigned>(header.kind) | (header.elsewhere ? ELSEWHERE : 0U)));
  put(bytes, 4, header.world);
  put(bytes, 6, header.segment);
  put(bytes, 8, header.op.epoch.value);
  put(bytes, 16, header.op.sequence.value);
  put(bytes, 24, header.op.tag.value);
  put(bytes, 32, header.agreement);
  put(bytes, 40, header.chunk);
  put(bytes, 44, header.payload_bytes);
  put(bytes, 48, header.payload_checksum);
  put(bytes, CHECKSUM_OFFSET, checksum(std::span{bytes}.first(CHECKSUM_OFFSET)));
  return bytes;
}

Result<FrameHeader> decode(std::span<const std::byte, HEADER_BYTES> bytes) {
  if (get<std::uint16_t>(bytes, 0) != MAGIC) return fail(ErrorName::LaneBroken, "a frame does not begin as one");
  // Before the checksum: another version may compute it in another way.
  if (const auto version = get<std::uint8_t>(bytes, 2); version != FRAME_VERSION)
    return fail(ErrorName::VersionMismatch, "frame version " + std::to_string(version) + ", ours is " + std::to_string(FRAME_VERSION));
  if (get<std::uint64_t>(bytes, CHECKSUM_OFFSET) != checksum(bytes.first(CHECKSUM_OFFSET)))
    return fail(ErrorName::LaneBroken, "a frame header is damaged");

  const auto kind = static_cast<std::uint8_t>(get<std::uint8_t>(bytes, 3) & ~ELSEWHERE);
  if (kind > static_cast<std::uint8_t>(PieceKind::Probed)) return fail(ErrorName::LaneBroken, "frame kind " + std::to_string(kind));
  FrameHeader header;
  header.kind = static_cast<PieceKind>(kind);
  header.elsewhere = kind != get<std::uint8_t>(bytes, 3);
  if (header.elsewhere && header.kind != PieceKind::Input && header.kind != PieceKind::Result)
    return fail(ErrorName::LaneBroken, "a frame of kind " + std::to_string(kind) + " whose payload lies elsewhere");
  header.world = get<std::uint16_t>(bytes, 4);
  header.segment = get<std::uint16_t>(bytes, 6);
  header.op = OperationId{Epoch{get<std::uint64_t>(bytes, 8)}, Sequence{get<std::uint64_t>(bytes, 16)}, Tag{get<std::uint64_t>(bytes, 24)}};
  header.agreement = get<std::uint64_t>(bytes, 32);
  header.chunk = get<std::uint32_t>(bytes, 40);
  header.payload_bytes = get<std::uint32_t>(bytes, 44);
  header.payload_checksum = get<std::uint64_t>(bytes, 48);
  if (header.payload_bytes > MAX_PAYLOAD_BYTES)
    return fail(ErrorName::LaneBroken, "a frame of " + std::to_string(header.payload_bytes) + " bytes, at most " +
                                           std::to_string(MAX_PAYLOAD_BYTES) + " are allowed");
  if (header.world == 0 || header.world > MAX_PEERS || header.segment >= header.world)
    return fail(ErrorName::LaneBroken, "segment " + std::to_string(header.segment) + " among " + std::to_string(header.world) + " peers");
  return header;
}

}  // namespace prime::lanes

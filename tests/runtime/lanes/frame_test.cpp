// Owns the tests of the frame header: what is encoded is decoded, what is damaged is refused, and no bytes do harm.
#include "runtime/lanes/frame.hpp"

#include <boost/test/unit_test.hpp>
#include <cstring>
#include <random>
#include <rapidcheck.h>

BOOST_AUTO_TEST_SUITE(frame)

using namespace prime;
using namespace prime::lanes;

namespace {

FrameHeader any_header(std::mt19937_64& random) {
  FrameHeader header;
  header.kind = static_cast<PieceKind>(random() % 7);
  header.world = static_cast<std::uint16_t>(1 + random() % MAX_PEERS);
  header.segment = static_cast<std::uint16_t>(random() % header.world);
  header.op = OperationId{Epoch{random()}, Sequence{random()}};
  header.op.tag = Tag{random()};
  header.agreement = random();
  header.chunk = static_cast<std::uint32_t>(random());
  header.payload_bytes = static_cast<std::uint32_t>(random() % (MAX_PAYLOAD_BYTES + 1));
  header.payload_checksum = random();
  header.elsewhere = random() % 2 == 0 && (header.kind == PieceKind::Input || header.kind == PieceKind::Result);
  return header;
}

}  // namespace

BOOST_AUTO_TEST_CASE(what_is_encoded_is_decoded) {
  BOOST_TEST(rc::check([](std::uint64_t seed) {
    std::mt19937_64 random(seed);
    const auto header = any_header(random);
    RC_ASSERT(decode(encode(header)).value() == header);
  }));
}

BOOST_AUTO_TEST_CASE(the_layout_is_fixed) {
  FrameHeader header;
  header.kind = PieceKind::Result;
  header.world = 0x0201;
  header.segment = 0x0103;
  header.chunk = 0x04030201;
  const auto bytes = encode(header);
  BOOST_TEST(std::memcmp(bytes.data(), "PL\x07\x02\x01\x02\x03\x01", 8) == 0);
  header.elsewhere = true;
  BOOST_TEST((encode(header)[3] == std::byte{0x82}));
  BOOST_TEST(std::memcmp(bytes.data() + 40, "\x01\x02\x03\x04", 4) == 0);
}

BOOST_AUTO_TEST_CASE(every_flipped_bit_is_found) {
  std::mt19937_64 random(1);
  const auto good = encode(any_header(random));
  for (std::size_t bit = 0; bit < HEADER_BYTES * 8; ++bit) {
    auto bytes = good;
    bytes[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    BOOST_TEST(!decode(bytes).has_value(), "bit " << bit);
  }
}

BOOST_AUTO_TEST_CASE(another_version_is_named_as_such) {
  std::mt19937_64 random(1);
  auto bytes = encode(any_header(random));
  bytes[2] = std::byte{FRAME_VERSION + 1};
  BOOST_TEST((decode(bytes).error().name == ErrorName::VersionMismatch));
}

BOOST_AUTO_TEST_CASE(values_out_of_bounds_are_refused_though_the_checksum_is_right) {
  std::mt19937_64 random(1);
  const auto refused = [&](auto change) {
    auto header = any_header(random);
    change(header);
    const auto decoded = decode(encode(header));
    return !decoded && decoded.error().name == ErrorName::LaneBroken;
  };
  BOOST_TEST(refused([](FrameHeader& h) { h.payload_bytes = MAX_PAYLOAD_BYTES + 1; }));
  BOOST_TEST(refused([](FrameHeader& h) { h.payload_bytes = ~0U; }));
  BOOST_TEST(refused([](FrameHeader& h) { h.world = 0; }));
  BOOST_TEST(refused([](FrameHeader& h) {
    h.kind = PieceKind::Vote;
    h.elsewhere = true;
  }));
  BOOST_TEST(refused([](FrameHeader& h) { h.world = MAX_PEERS + 1; }));
  BOOST_TEST(refused([](FrameHeader& h) { h.segment = h.world; }));
  BOOST_TEST(refused([](FrameHeader& h) { h.kind = static_cast<PieceKind>(10); }));
}

BOOST_AUTO_TEST_CASE(random_and_mutated_bytes_are_refused) {
  std::mt19937_64 random(2);
  std::size_t accepted = 0;
  for (int tries = 0; tries < 200'000; ++tries) {
    HeaderBytes bytes;
    if (tries % 2 == 0) {
      for (auto& byte : bytes) byte = static_cast<std::byte>(random());
    } else {
      bytes = encode(any_header(random));
      for (auto changes = 1 + random() % 4; changes > 0; --changes)
        bytes[random() % bytes.size()] ^= static_cast<std::byte>(1 + random() % 255);
    }
    // A later change can undo an earlier one; then the header is good again.
    if (const auto decoded = decode(bytes); decoded && encode(*decoded) != bytes) ++accepted;
    else if (decoded && tries % 2 == 0) ++accepted;
  }
  BOOST_TEST(accepted == 0U);
}

BOOST_AUTO_TEST_SUITE_END()

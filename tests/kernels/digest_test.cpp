// Owns the tests of digests: parallel equals serial, and every bit counts.
#include "kernels/digest/digest.hpp"

#include <boost/test/unit_test.hpp>

#include "kernels/digest/digest_lane.hpp"
#include "tests/kernels/support.hpp"

BOOST_AUTO_TEST_SUITE(digest)

using namespace prime;
using namespace prime::kernels;

namespace {

std::vector<std::byte> random_bytes(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> bytes(count);
  for (auto& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

const std::vector<std::size_t> DIGEST_SIZES{
    0, 1, DIGEST_CHUNK_BYTES - 1, DIGEST_CHUNK_BYTES, DIGEST_CHUNK_BYTES + 1, 3 * DIGEST_CHUNK_BYTES, 5 * DIGEST_CHUNK_BYTES + 17};

}  // namespace

BOOST_AUTO_TEST_CASE(a_digest_by_many_threads_is_the_reference_digest) {
  for (const auto size : DIGEST_SIZES) {
    const auto bytes = random_bytes(size, size);
    const auto expected = digest_tensor_reference(bytes);
    for (const unsigned threads : {0U, 1U, 2U, 3U, 16U})
      BOOST_TEST((digest_tensor(bytes, threads) == expected), size << " bytes, " << threads);
  }
}

BOOST_AUTO_TEST_CASE(chunk_digests_combine_to_the_digest_of_the_whole) {
  for (const auto size : DIGEST_SIZES) {
    const auto bytes = random_bytes(size, size);
    const auto chunks = chunk_digests(bytes);
    BOOST_TEST(chunks.size() == (size + DIGEST_CHUNK_BYTES - 1) / DIGEST_CHUNK_BYTES);
    BOOST_TEST((combine_digests(chunks, size) == digest_tensor(bytes, 2)));
  }
}

BOOST_AUTO_TEST_CASE(one_flipped_bit_anywhere_changes_the_digest_and_only_its_chunk) {
  auto bytes = random_bytes(3 * DIGEST_CHUNK_BYTES + 5, 7);
  const auto whole = digest_tensor(bytes);
  const auto chunks = chunk_digests(bytes);
  for (const std::size_t at : {std::size_t{0}, DIGEST_CHUNK_BYTES - 1, DIGEST_CHUNK_BYTES, 2 * DIGEST_CHUNK_BYTES + 77, bytes.size() - 1}) {
    for (unsigned bit = 0; bit < 8; ++bit) {
      bytes[at] ^= static_cast<std::byte>(1U << bit);
      BOOST_TEST((digest_tensor(bytes) != whole));
      const auto changed = chunk_digests(bytes);
      for (std::size_t chunk = 0; chunk < chunks.size(); ++chunk)
        BOOST_TEST((changed[chunk] != chunks[chunk]) == (chunk == at / DIGEST_CHUNK_BYTES));
      bytes[at] ^= static_cast<std::byte>(1U << bit);
    }
  }
}

BOOST_AUTO_TEST_CASE(the_length_counts_also_where_the_bytes_are_alike) {
  const std::vector<std::byte> zeros(2 * DIGEST_CHUNK_BYTES);
  const std::span all{zeros};
  BOOST_TEST((digest_tensor(all.first(0)) != digest_tensor(all.first(1))));
  BOOST_TEST((digest_tensor(all.first(DIGEST_CHUNK_BYTES)) != digest_tensor(all.first(DIGEST_CHUNK_BYTES + 1))));
  BOOST_TEST((digest_tensor(all.first(DIGEST_CHUNK_BYTES)) != digest_tensor(all)));
}

BOOST_AUTO_TEST_CASE(a_digest_is_the_same_on_every_machine_and_in_every_version) {
  std::vector<std::byte> bytes(DIGEST_CHUNK_BYTES + 3);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 31);
  BOOST_TEST(to_string(digest_tensor(bytes)) == "19779dbe19be45d89d4ccd1f2e72f0e1");
}

BOOST_AUTO_TEST_CASE(eight_lanes_apart_make_the_digest_of_the_library) {
  // What a GPU does with eight threads, done here one after another.
  const auto secret = digest_secret();
  std::mt19937_64 random(17);
  for (const std::size_t size : {241U, 255U, 256U, 1023U, 1024U, 1025U, 1088U, 1089U, 2048U, 4097U, 100003U, 1U << 20}) {
    std::vector<std::byte> bytes(size);
    for (auto& byte : bytes) byte = static_cast<std::byte>(random());
    std::array<std::uint64_t, DIGEST_LANES> sums{};
    for (std::size_t lane = 0; lane < DIGEST_LANES; ++lane) sums[lane] = lane_sum<1>(bytes.data(), size, secret.data(), lane);
    const prime::Digest digest{digest_high(sums.data(), size, secret.data()), digest_low(sums.data(), size, secret.data())};
    BOOST_TEST((digest == digest_bytes(bytes)), "size " << size);
  }
}

BOOST_AUTO_TEST_SUITE_END()

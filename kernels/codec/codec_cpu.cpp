#include <algorithm>
#include <array>
#include <cstring>

#include "kernels/codec/codec_reference.hpp"
#include "kernels/codec/codec_vector.hpp"
#include "kernels/reduce/reduce.hpp"

namespace prime::kernels {
namespace {

// An output of this size leaves the caches before anybody reads it, so writing past them saves fetching it first.
constexpr std::size_t STREAM_BYTES = std::size_t{16} << 20;
constexpr std::size_t STREAM_ALIGNMENT = 64;

using Group = std::array<float, GROUP_VALUES>;
using GroupBytes = std::array<std::byte, GROUP_BYTES_MAXIMUM>;

std::optional<Unencodable> first_refused(const Encoding& encoding, std::span<const float> values, std::size_t begin) {
  for (std::size_t i = 0; i < values.size(); ++i)
    if ((std::bit_cast<std::uint32_t>(values[i]) & ~SIGN_BIT) >= refused_bits(encoding.codec)) return Unencodable{begin + i, values[i]};
  return std::nullopt;
}

// The rest of a tensor, shorter than a group, is encoded inside one: repeating its last value changes no block's range.
bool encode_rest(const Encoding& encoding, EncodeGroups encode_groups, std::span<const float> rest, std::byte* out) {
  Group padded;
  padded.fill(rest.back());
  std::ranges::copy(rest, padded.begin());
  GroupBytes encoded;
  if (encode_groups(encoding, padded.data(), 1, encoded.data()) == 0) return false;
  const std::size_t bytes = encoded_bytes(encoding.codec, rest.size());
  if (block_layout(encoding.codec).bits == 4 && rest.size() % 2 == 1) encoded[bytes - 1] &= std::byte{0x0F};
  std::memcpy(out, encoded.data(), bytes);
  return true;
}

}  // namespace

std::optional<Unencodable> encode(const Encoding& encoding, std::span<const float> values, std::span<std::byte> out) {
  if (encoding.codec == Codec::None) {
    const std::size_t first = first_non_finite(values);
    if (first != values.size()) return Unencodable{first, values[first]};
    if (!values.empty()) std::memcpy(out.data(), values.data(), values.size_bytes());
    return std::nullopt;
  }
  const auto encode_groups = kernels::encode_groups(encoding.codec, encoding.rounding);
  if (encode_groups == nullptr || encoding.first_index % CODEC_ALIGNMENT != 0) return encode_reference(encoding, values, out);
  const std::size_t whole = values.size() / GROUP_VALUES * GROUP_VALUES;
  const std::size_t encoded = encode_groups(encoding, values.data(), whole / GROUP_VALUES, out.data()) * GROUP_VALUES;
  if (encoded != whole) return first_refused(encoding, values.subspan(encoded, GROUP_VALUES), encoded);
  const auto rest = values.subspan(whole);
  if (rest.empty()) return std::nullopt;
  std::byte* const to = out.data() + encoded_bytes(encoding.codec, whole);
  if (encode_rest(at_index(encoding, encoding.first_index + whole), encode_groups, rest, to)) return std::nullopt;
  return first_refused(encoding, rest, whole);
}

std::optional<Unencodable> encode_with_feedback(const Encoding& encoding, const FeedbackBuffers& buffers) {
  Group sums;
  Group decoded;
  for (std::size_t begin = 0; begin < buffers.values.size(); begin += GROUP_VALUES) {
    const std::size_t count = std::min(GROUP_VALUES, buffers.values.size() - begin);
    const std::size_t offset = encoded_bytes(encoding.codec, begin);
    const auto bytes = buffers.out.subspan(offset, encoded_bytes(encoding.codec, count));
    const auto values = buffers.values.subspan(begin, count);
    const auto residual = buffers.residual.subspan(begin, count);
    const auto next = buffers.next_residual.subspan(begin, count);
    for (std::size_t i = 0; i < count; ++i) sums[i] = values[i] + residual[i];
    if (const auto refused = encode(at_index(encoding, encoding.first_index + begin), {sums.data(), count}, bytes))
      return Unencodable{begin + refused->index, refused->value};
    decode(encoding.codec, {bytes, {decoded.data(), count}});
    for (std::size_t i = 0; i < count; ++i) next[i] = sums[i] - decoded[i];
  }
  return std::nullopt;
}

void decode(Codec codec, const DecodeBuffers& buffers) {
  const auto& [bytes, out] = buffers;
  const bool streams = out.size_bytes() >= STREAM_BYTES && std::bit_cast<std::uintptr_t>(out.data()) % STREAM_ALIGNMENT == 0;
  const std::size_t groups = out.size() / GROUP_VALUES;
  const auto decode_groups = kernels::decode_groups(codec, streams ? Placement::Stream : Placement::Store);
  if (decode_groups == nullptr) return decode_reference(codec, buffers);
  decode_groups(bytes.data(), groups, out.data());
  const auto rest = out.subspan(groups * GROUP_VALUES);
  if (rest.empty()) return;
  Group values{};
  GroupBytes encoded{};
  std::ranges::copy(bytes.subspan(encoded_bytes(codec, groups * GROUP_VALUES)), encoded.begin());
  kernels::decode_groups(codec, Placement::Store)(encoded.data(), 1, values.data());
  std::copy_n(values.begin(), rest.size(), rest.begin());
}

}  // namespace prime::kernels

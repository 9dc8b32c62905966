#include "kernels/codec/codec_reference.hpp"

#include <algorithm>
#include <vector>

namespace prime::kernels {
namespace {

std::uint32_t magnitude_bits(float value) { return std::bit_cast<std::uint32_t>(value) & ~SIGN_BIT; }

BlockRange range_of(std::span<const float> values) {
  BlockRange range{values.front(), values.front(), 0};
  for (const float value : values) {
    range.minimum = std::min(range.minimum, value);
    range.maximum = std::max(range.maximum, value);
    range.magnitude = std::max(range.magnitude, magnitude_bits(value));
  }
  return range;
}

void store_code(std::size_t bits, std::size_t position, std::uint32_t code, std::byte* out) {
  if (bits == 32) std::memcpy(out + 4 * position, &code, 4);
  if (bits == 16) std::memcpy(out + 2 * position, &code, 2);
  if (bits == 8) out[position] = static_cast<std::byte>(code);
  if (bits == 4)
    out[position / 2] = position % 2 == 0 ? static_cast<std::byte>(code) : out[position / 2] | static_cast<std::byte>(code << 4);
}

std::uint32_t load_code(std::size_t bits, std::size_t position, const std::byte* bytes) {
  std::uint32_t code = 0;
  if (bits == 4) return std::to_integer<std::uint32_t>(bytes[position / 2] >> (position % 2 == 0 ? 0 : 4)) & 0xFU;
  std::memcpy(&code, bytes + position * bits / 8, bits / 8);
  return code;
}

}  // namespace

std::size_t encoded_bytes(Codec codec, std::size_t elements) {
  const auto layout = block_layout(codec);
  const std::size_t rest = elements % layout.values;
  return elements / layout.values * block_bytes(layout, layout.values) + (rest == 0 ? 0 : block_bytes(layout, rest));
}

std::optional<Unencodable> encode_block_reference(const Encoding& encoding, std::span<const float> values, std::uint64_t index,
                                                  std::byte* out) {
  for (std::size_t i = 0; i < values.size(); ++i)
    if (magnitude_bits(values[i]) >= refused_bits(encoding.codec)) return Unencodable{i, values[i]};
  const auto layout = block_layout(encoding.codec);
  const auto scale = block_scale(encoding.codec, encoding.rounding, range_of(values));
  store_head(encoding.codec, scale, out);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto random = encoding.rounding == Rounding::Stochastic ? random_bits(encoding.seed, encoding.version, index + i) : 0;
    store_code(layout.bits, i, code_of(encoding.codec, encoding.rounding, scale, values[i], random), out + layout.head_bytes);
  }
  return std::nullopt;
}

std::optional<Unencodable> encode_reference(const Encoding& encoding, std::span<const float> values, std::span<std::byte> out) {
  const auto layout = block_layout(encoding.codec);
  std::byte* to = out.data();
  for (std::size_t begin = 0; begin < values.size(); begin += layout.values) {
    const auto block = values.subspan(begin, std::min(layout.values, values.size() - begin));
    const auto refused = encode_block_reference(encoding, block, encoding.first_index + begin, to);
    if (refused) return Unencodable{begin + refused->index, refused->value};
    to += block_bytes(layout, block.size());
  }
  return std::nullopt;
}

std::optional<Unencodable> encode_with_feedback_reference(const Encoding& encoding, const FeedbackBuffers& buffers) {
  std::vector<float> sums(buffers.values.size());
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] = buffers.values[i] + buffers.residual[i];
  if (const auto refused = encode_reference(encoding, sums, buffers.out)) return refused;
  std::vector<float> decoded(sums.size());
  decode_reference(encoding.codec, {buffers.out, decoded});
  for (std::size_t i = 0; i < sums.size(); ++i) buffers.next_residual[i] = sums[i] - decoded[i];
  return std::nullopt;
}

void decode_reference(Codec codec, const DecodeBuffers& buffers) {
  const auto layout = block_layout(codec);
  const std::byte* from = buffers.bytes.data();
  for (std::size_t begin = 0; begin < buffers.out.size(); begin += layout.values) {
    const auto block = buffers.out.subspan(begin, std::min(layout.values, buffers.out.size() - begin));
    const auto scale = load_head(codec, from);
    for (std::size_t i = 0; i < block.size(); ++i) block[i] = value_of(codec, scale, load_code(layout.bits, i, from + layout.head_bytes));
    from += block_bytes(layout, block.size());
  }
}

}  // namespace prime::kernels

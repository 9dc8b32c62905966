// Owns the choice of kernels for a reduce.
#include "runtime/lanes/arithmetic.hpp"

#include <algorithm>
#include <string>

namespace prime::lanes {
namespace {

/// Of values that are decoded and added while they are warm: a multiple of every codec's block.
constexpr std::size_t BLOCK = 8 * kernels::CODEC_ALIGNMENT;

std::span<float> floats(std::span<std::byte> bytes) { return {reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float)}; }
std::span<const float> floats(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float)};
}

bool is_f32_sum(DataType type, ReduceOperator op) {
  return type == DataType::F32 && (op == ReduceOperator::Sum || op == ReduceOperator::Average);
}

}  // namespace

bool fits_ring(const ReduceRequest& request) {
  if (request.codec != Codec::None) return false;
  if (request.type == DataType::F32 || request.type == DataType::F64) return true;
  if (request.type == DataType::F16 || request.type == DataType::BF16) return false;
  return request.combine != ReduceOperator::Average;
}

Result<Arithmetic> Arithmetic::make(const ReduceRequest& request, Schedule schedule) {
  const std::string what = std::string(to_string(request.combine)) + " of " + std::string(to_string(request.type)) + " with codec " +
                           std::string(to_string(request.codec));
  if (request.codec != Codec::None && !is_f32_sum(request.type, request.combine))
    return fail(ErrorName::ReduceMismatch, what + " does not exist: codecs carry f32 to be summed or averaged");
  if (request.codec == Codec::None && request.result_codec.value_or(Codec::None) != Codec::None)
    return fail(ErrorName::ReduceMismatch, "a codec of the result alone does not exist: what members bring needs one, too");
  if (schedule == Schedule::Ring && !fits_ring(request))
    return fail(ErrorName::ReduceMismatch, what + " does not exist as a ring; use direct");
  if (schedule == Schedule::Whole && request.codec != Codec::None)
    return fail(ErrorName::ReduceMismatch, what + " is not exchanged whole: each rank would add its own values unencoded");
  if (request.residual.size() != request.next_residual.size() || (!request.residual.empty() && request.codec == Codec::None))
    return fail(ErrorName::ReduceMismatch, "error feedback needs a codec and two residuals of one size");
  if (!request.residual.empty() && request.residual.size_bytes() != request.output.size())
    return fail(ErrorName::ReduceMismatch, "a residual of " + std::to_string(request.residual.size()) + " elements");
  Arithmetic arithmetic;
  arithmetic.type_ = request.type;
  arithmetic.operator_ = request.combine;
  arithmetic.encoding_.codec = request.codec;
  arithmetic.result_codec_ = request.result_codec.value_or(request.codec);
  arithmetic.encoding_.rounding = request.stochastic ? kernels::Rounding::Stochastic : kernels::Rounding::Nearest;
  arithmetic.encoding_.seed = request.seed;
  arithmetic.encoding_.version = request.version;
  PRIME_TRY(arithmetic.factors_, mean_factors(request.contributions));
  if (request.combine != ReduceOperator::Average) {
    for (float& factor : arithmetic.factors_.relative) factor = factor > 0 ? 1.0F : 0.0F;
    arithmetic.factors_.scale = 1;
  }
  return arithmetic;
}

std::size_t Arithmetic::wire_bytes(Codec codec, std::size_t elements) const {
  return codec != Codec::None ? kernels::encoded_bytes(codec, elements) : elements * element_bytes();
}

kernels::Encoding Arithmetic::encoding_at(std::uint64_t first_index) const {
  kernels::Encoding encoding = encoding_;
  // Only random bits depend on the place in the tensor.
  if (encoding.rounding == kernels::Rounding::Stochastic) encoding.first_index = first_index;
  return encoding;
}

Result<void> Arithmetic::judge(const std::optional<kernels::Unencodable>& refused, Codec codec, std::uint64_t first_index) {
  if (!refused) return {};
  return fail(ErrorName::NonFiniteValue, "element " + std::to_string(first_index + refused->index) + " is " +
                                             std::to_string(refused->value) + ", which " + std::string(to_string(codec)) + " cannot carry");
}

Result<void> Arithmetic::encode(std::span<const std::byte> elements, std::uint64_t first_index, std::span<std::byte> wire) const {
  return judge(kernels::encode(encoding_at(first_index), floats(elements), wire), encoding_.codec, first_index);
}

Result<void> Arithmetic::encode_result(std::span<const std::byte> elements, std::uint64_t first_index, std::span<std::byte> wire) const {
  auto encoding = encoding_at(first_index);
  encoding.codec = result_codec_;
  return judge(kernels::encode(encoding, floats(elements), wire), result_codec_, first_index);
}

Result<void> Arithmetic::encode(std::span<const std::byte> elements, std::uint64_t first_index, std::span<std::byte> wire,
                                Feedback feedback) const {
  const kernels::FeedbackBuffers buffers{floats(elements), feedback.residual, wire, feedback.next_residual};
  return judge(kernels::encode_with_feedback(encoding_at(first_index), buffers), encoding_.codec, first_index);
}

void Arithmetic::decode_result(std::span<const std::byte> wire, std::span<std::byte> elements) const {
  kernels::decode(result_codec_, {wire, floats(elements)});
}

void Arithmetic::combine(std::span<const Operand> operands, bool last, std::span<std::byte> out) {
  const float scale = last ? factors_.scale : 1.0F;
  if (encoded()) {
    combine_encoded(operands, scale, floats(out));
  } else if (is_f32_sum(type_, operator_)) {
    weighted_inputs_.clear();
    for (const Operand& each : operands) weighted_inputs_.push_back({reinterpret_cast<const float*>(each.bytes), weight_of(each)});
    kernels::weighted_sum(weighted_inputs_, scale, floats(out));
  } else {
    typed_inputs_.clear();
    for (const Operand& each : operands) typed_inputs_.push_back({each.bytes, weight_of(each)});
    kernels::reduce_typed({operator_, type_, scale}, typed_inputs_, out);
  }
}

/// As what is not encoded, a block of each rank at a time: those that travelled are decoded into memory that stays in the caches.
void Arithmetic::combine_encoded(std::span<const Operand> operands, float scale, std::span<float> out) {
  decoded_.resize(operands.size() * BLOCK);
  for (std::size_t begin = 0; begin < out.size(); begin += BLOCK) {
    const auto part = out.subspan(begin, std::min(BLOCK, out.size() - begin));
    weighted_inputs_.clear();
    float* decoded = decoded_.data();
    for (const Operand& each : operands) {
      const std::span values{decoded, part.size()};
      decoded += BLOCK;
      if (!each.own) {
        kernels::decode(encoding_.codec, {{each.bytes + wire_bytes(begin), wire_bytes(part.size())}, values});
        weighted_inputs_.push_back({values.data(), weight_of(each)});
        continue;
      }
      const float* const own = reinterpret_cast<const float*>(each.bytes) + begin;
      if (each.residual != nullptr)
        for (std::size_t i = 0; i < values.size(); ++i) values[i] = own[i] + each.residual[begin + i];
      weighted_inputs_.push_back({each.residual == nullptr ? own : values.data(), weight_of(each)});
    }
    kernels::weighted_sum(weighted_inputs_, scale, part);
  }
}

}  // namespace prime::lanes

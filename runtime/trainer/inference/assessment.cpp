// Owns going through sequences in batches of about equal lengths.
#include "runtime/trainer/inference/assessment.hpp"

#include <algorithm>
#include <numeric>

namespace prime::trainer {
namespace {

using Sequences = std::vector<std::vector<std::uint32_t>>;

struct Batch {
  at::Tensor ids;  ///< [sequences, longest]
  std::vector<std::int64_t> lengths;
};

Batch batch_of(const Sequences& sequences, std::span<const std::size_t> numbers, std::int64_t context) {
  Batch batch;
  for (const auto number : numbers) batch.lengths.push_back(std::min<std::int64_t>(std::ssize(sequences[number]), context));
  batch.ids = at::zeros({std::ssize(numbers), *std::ranges::max_element(batch.lengths)}, at::kLong);
  for (std::size_t row = 0; row < numbers.size(); ++row)
    std::copy_n(sequences[numbers[row]].begin(), batch.lengths[row],
                batch.ids.mutable_data_ptr<std::int64_t>() + static_cast<std::int64_t>(row) * batch.ids.size(1));
  return batch;
}

Assessed assessed(const Decoder& decoder, const at::Tensor& hidden, const at::Tensor& ids) {
  const std::int64_t told = ids.size(0) - 1;
  const at::Tensor likely = at::log_softmax(decoder.logits(hidden.narrow(0, 0, told)), 1);
  const double sum = likely.gather(1, ids.narrow(0, 1, told).unsqueeze(1)).sum(at::kDouble).item<double>();
  const at::Tensor mean = hidden.narrow(0, 1, told).to(at::kFloat).mean(0).cpu().contiguous();
  const float* values = mean.const_data_ptr<float>();
  return {-sum, static_cast<std::uint64_t>(told), {values, values + mean.numel()}};
}

}  // namespace

Result<void> assess(const Decoder& decoder, const Sequences& sequences, std::uint32_t batch,
                    const std::function<void(std::size_t, const Assessed&)>& hear,
                    const std::function<void(std::uint64_t, std::uint64_t)>& progress) {
  const at::InferenceMode no_graph;
  std::vector<std::size_t> order;
  for (std::size_t number = 0; number < sequences.size(); ++number) {
    for (const auto id : sequences[number])
      if (id >= decoder.config().vocab)
        return fail(ErrorName::ModelUnsupported,
                    "token " + std::to_string(id) + " is none of the model's " + std::to_string(decoder.config().vocab));
    if (sequences[number].size() > 1) order.push_back(number);
  }
  std::ranges::stable_sort(order, {}, [&](std::size_t number) { return sequences[number].size(); });
  for (std::size_t begin = 0; begin < order.size(); begin += batch) {
    const auto numbers = std::span(order).subspan(begin, std::min<std::size_t>(batch, order.size() - begin));
    const auto [ids, lengths] = batch_of(sequences, numbers, decoder.config().context);
    const at::Tensor hidden = decoder.prefill(ids, lengths, nullptr);
    for (std::size_t row = 0; row < numbers.size(); ++row) {
      const auto at = static_cast<std::int64_t>(row);
      hear(numbers[row], assessed(decoder, hidden[at].narrow(0, 0, lengths[row]), ids[at].narrow(0, 0, lengths[row])));
    }
    progress(begin + numbers.size(), order.size());
  }
  return {};
}

}  // namespace prime::trainer

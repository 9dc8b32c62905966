// Owns the checks of what computes elsewhere than in f32 on the CPU: operations made of ATen's, 16 bits, and the choice of a device.
#include "runtime/trainer/device.hpp"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <new>
#include <numeric>
#include <stdexcept>

#include "runtime/trainer/learner.hpp"
#include "runtime/trainer/memory_fault.hpp"
#include "runtime/trainer/model/model.hpp"
#include "runtime/trainer/model/operations.hpp"
#include "runtime/trainer/optimizer/optimizer.hpp"
#include "runtime/trainer/permutation.hpp"
#include "runtime/trainer/torch_fence.hpp"

namespace {

using namespace prime;
using namespace prime::trainer;

/// Before anything is computed: libtorch asks but once whether it has CUDA.
struct Device {
  Device() { static_cast<void>(choose_device("auto")); }
};
BOOST_TEST_GLOBAL_FIXTURE(Device);

at::Tensor drawn(at::IntArrayRef shape) {
  static std::uint64_t counter = 7;
  at::Tensor values = at::empty(shape, at::kFloat);
  const std::span<float> all{values.mutable_data_ptr<float>(), static_cast<std::size_t>(values.numel())};
  for (float& value : all) value = static_cast<float>(mix(++counter) % 2001) / 1000.0F - 1.0F;
  return values;
}

double difference(const at::Tensor& a, const at::Tensor& b) { return (a - b).abs().max().item<double>(); }

/// A function of both kinds, its value and its gradients by all inputs.
template <class Function>
std::vector<at::Tensor> values_and_gradients(Function function, const std::vector<at::Tensor>& inputs) {
  std::vector<at::Tensor> leaves;
  for (const auto& input : inputs) leaves.push_back(input.clone().requires_grad_());
  std::vector<at::Tensor> results = function(leaves);
  at::Tensor sum = at::zeros({});
  for (const auto& result : results) sum = sum + (result * result * 0.5 + result).sum();
  for (auto& gradient : torch::autograd::grad({sum}, leaves)) results.push_back(gradient);
  return results;
}

template <class Ours, class Composed>
void check_alike(Ours ours, Composed composed, const std::vector<at::Tensor>& inputs) {
  const auto a = values_and_gradients(ours, inputs), b = values_and_gradients(composed, inputs);
  BOOST_REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    BOOST_REQUIRE((a[i].sizes() == b[i].sizes()));
    BOOST_TEST(difference(a[i], b[i]) < 2e-5);
  }
}

BOOST_AUTO_TEST_CASE(operations_of_aten_are_ours) {
  check_alike([](const auto& in) { return std::vector{rms_norm(in[0], in[1], 1e-5)}; },
              [](const auto& in) { return std::vector{composed::rms_norm(in[0], in[1], 1e-5)}; }, {drawn({6, 16}), drawn({16})});
  check_alike([](const auto& in) { return std::vector{swiglu(in[0])}; },
              [](const auto& in) { return std::vector{composed::swiglu(in[0])}; }, {drawn({6, 32})});
  for (const std::int64_t kv_heads : {4, 2}) {
    const HeadLayout layout{5, 4, kv_heads, 8, drawn({7, 4}), drawn({7, 4})};
    const auto all = [](Heads heads) { return std::vector{heads.query, heads.key, heads.value}; };
    check_alike([&](const auto& in) { return all(split_heads(in[0], layout)); },
                [&](const auto& in) { return all(composed::split_heads(in[0], layout)); }, {drawn({10, (4 + 2 * kv_heads) * 8})});
  }
}

manifest::Model small() {
  manifest::Model model;
  model.layers = 2;
  model.dim = 32;
  model.heads = 4;
  model.kv_heads = 2;
  model.ffn = 64;
  model.context = 16;
  return model;
}

manifest::Model small_gpt2() {
  auto model = small();
  model.arch = manifest::Architecture::Gpt2;
  model.kv_heads = model.heads;
  return model;
}

std::vector<prime::data::Token> windows_of(const manifest::Model& model, std::size_t count) {
  std::vector<prime::data::Token> bytes(count * (model.context + 1));
  std::uint64_t counter = 0;
  for (auto& byte : bytes) byte = static_cast<std::uint8_t>('a' + mix(++counter) % 16);
  return bytes;
}

/// What holds of any device and precision, beside f32 on the CPU.
void check_beside_f32(const manifest::Model& model, manifest::Precision precision, const std::string& device, double tolerance) {
  manifest::Train train;
  Learner exact(model, train);
  train.precision = precision;
  Learner other(model, train, {.device = device});
  for (std::size_t i = 0; i < exact.parameters().size(); ++i)
    BOOST_TEST(std::ranges::equal(exact.parameters()[i].data.floats(), other.parameters()[i].data.floats()));
  const auto windows = windows_of(model, 4);
  BOOST_TEST(std::abs(exact.loss(windows) - other.loss(windows)) < tolerance);
  // The angle between the gradients: their lengths are compared by it, too.
  const auto a = exact.gradient(windows), b = other.gradient(windows);
  const auto dot = [](const auto& x, const auto& y) { return std::inner_product(x.begin(), x.end(), y.begin(), 0.0); };
  BOOST_TEST(dot(a, b) / std::sqrt(dot(a, a) * dot(b, b)) > 1 - tolerance);
  BOOST_TEST(std::abs(std::sqrt(dot(b, b) / dot(a, a)) - 1) < tolerance);
  for (int step = 0; step < 30; ++step) {
    const double distance = std::abs(exact.train(windows, 3e-3) - other.train(windows, 3e-3));
    BOOST_TEST(distance < 10 * tolerance);
  }
  BOOST_TEST(other.loss(windows) < 2.7);
  // The host's memory is the model's after `store`, and the model the host's after `load`.
  other.store();
  BOOST_TEST(other.parameters()[0].data.floats()[5] != 0.0F);
  BOOST_TEST(std::abs(other.parameters()[0].data.floats()[5] - exact.parameters()[0].data.floats()[5]) < 0.1);
  const double trained = other.loss(windows);
  for (const auto& view : other.parameters()) std::ranges::fill(view.data.floats(), 0.0F);
  other.load();
  BOOST_TEST(std::abs(other.loss(windows) - std::log(256.0)) < 1e-5);
  BOOST_TEST(trained < std::log(256.0));
  BOOST_TEST(other.write({.prompt = std::vector<prime::data::Token>{'a', 'b'}, .tokens = 8}).size() == 10U);
}

BOOST_AUTO_TEST_CASE(sixteen_bits_train_as_f32_does) {
  for (const auto& model : {small(), small_gpt2()}) check_beside_f32(model, manifest::Precision::Bf16, "cpu", 0.02);
}

/// A matrix that lies as [inputs, outputs] makes the steps of the one that lies the other way.
BOOST_AUTO_TEST_CASE(muon_steps_matrices_by_their_outputs_however_they_lie) {
  at::manual_seed(3);
  const at::Tensor start = at::randn({12, 8}), slope = at::randn({12, 8});
  const std::vector<Leaf> rows{{start.clone().requires_grad_(), {8, 4}}};
  const std::vector<Leaf> columns{{start.t().contiguous().requires_grad_(), {8, 4}, /*transposed=*/true}};
  Optimizer by_rows(manifest::Muon{}, 1e9, rows), by_columns(manifest::Muon{}, 1e9, columns);
  for (int step = 0; step < 3; ++step) {
    rows[0].tensor.mutable_grad() = slope * (1 + step);
    columns[0].tensor.mutable_grad() = slope.t().contiguous() * (1 + step);
    by_rows.step(0.02);
    by_columns.step(0.02);
  }
  BOOST_TEST((rows[0].tensor - start).abs().max().item<double>() > 1e-2);
  BOOST_TEST((rows[0].tensor - columns[0].tensor.t()).abs().max().item<double>() < 1e-3);
}

BOOST_AUTO_TEST_CASE(a_batch_in_portions_is_the_same_step) {
  const auto model = small();
  const manifest::Train train;
  const auto windows = windows_of(model, 7);
  Learner whole(model, train), halves(model, train, {.micro_batch = 4}), single(model, train, {.micro_batch = 1});
  Learner more(model, train, {.micro_batch = 100});
  for (int step = 0; step < 5; ++step) {
    const double loss = whole.train(windows, 3e-3);
    BOOST_TEST(std::abs(halves.train(windows, 3e-3) - loss) < 1e-4);
    BOOST_TEST(std::abs(single.train(windows, 3e-3) - loss) < 1e-4);
    BOOST_TEST(more.train(windows, 3e-3) == loss);
  }
  for (std::size_t i = 0; i < whole.parameters().size(); ++i)
    BOOST_TEST(std::ranges::equal(whole.parameters()[i].data.floats(), more.parameters()[i].data.floats()));
}

BOOST_AUTO_TEST_CASE(activations_that_are_computed_again_give_the_same_step_to_the_bit) {
  for (const bool tied : {false, true})
    for (auto model : {small(), small_gpt2()}) {
      model.tie_embeddings = tied;
      manifest::Train train;
      train.z_loss = 1e-3;
      const auto windows = windows_of(model, 7);
      Learner kept(model, train), again(model, train, {.activation_checkpointing = true});
      Learner portions(model, train, {.micro_batch = 3, .activation_checkpointing = true});
      for (int step = 0; step < 5; ++step) {
        const double loss = kept.train(windows, 3e-3);
        BOOST_TEST(again.train(windows, 3e-3) == loss);
        BOOST_TEST(std::abs(portions.train(windows, 3e-3) - loss) < 1e-4);
      }
      for (std::size_t i = 0; i < kept.parameters().size(); ++i)
        BOOST_TEST(std::ranges::equal(kept.parameters()[i].data.floats(), again.parameters()[i].data.floats()), kept.parameters()[i].name);
    }
}

/// log²(Z) by hand, of the logits of another instance with the same parameters.
BOOST_AUTO_TEST_CASE(the_z_loss_is_learned_and_not_reported) {
  const auto model = small();
  manifest::Train train;
  const auto windows = windows_of(model, 3);
  Learner plain(model, train);
  train.z_loss = 0.5;
  Learner with_z(model, train);
  BOOST_TEST(with_z.loss(windows) == plain.loss(windows));
  const auto of_loss = plain.gradient(windows), of_both = with_z.gradient(windows);
  const auto other = make_model(model, train.seed, at::dtype(at::kFloat));
  const auto width = static_cast<std::int64_t>(model.context) + 1;
  at::Tensor ids = at::empty({3, width}, at::kLong);
  std::ranges::copy(windows, ids.mutable_data_ptr<std::int64_t>());
  const auto mean_square_of_log_z = [&] {
    const at::NoGradGuard no_graph;
    const at::Tensor logits = other->logits(ids.narrow(1, 0, width - 1)).to(at::kDouble);
    double sum = 0;
    for (std::int64_t row = 0; row < logits.size(0); ++row) {
      double z = 0;
      for (std::int64_t token = 0; token < logits.size(1); ++token) z += std::exp(logits[row][token].item<double>());
      sum += std::log(z) * std::log(z);
    }
    return sum / static_cast<double>(logits.size(0));
  };
  // Its slope along the difference of the two gradients is that difference's length, over the weight.
  std::vector<double> difference;
  for (std::size_t i = 0; i < of_loss.size(); ++i) difference.push_back(double{of_both[i]} - double{of_loss[i]});
  const double norm = std::sqrt(std::inner_product(difference.begin(), difference.end(), difference.begin(), 0.0));
  const auto move = [&](double distance) {
    std::size_t at = 0;
    for (const auto& view : other->parameters().views())
      for (float& value : view.data.floats()) value += static_cast<float>(distance * difference[at++] / norm);
  };
  constexpr double DISTANCE = 1e-2;
  move(DISTANCE);
  const double above = mean_square_of_log_z();
  move(-2 * DISTANCE);
  const double below = mean_square_of_log_z();
  BOOST_TEST(0.5 * (above - below) / (2 * DISTANCE) == norm, boost::test_tools::tolerance(0.02));
}

BOOST_AUTO_TEST_CASE(a_gpu_trains_as_the_cpu_does) {
  const auto chosen = choose_device("cuda");
  if (!chosen) {
    BOOST_TEST((chosen.error().name == ErrorName::DeviceUnusable));
    BOOST_TEST_MESSAGE("skipped: " << chosen.error().detail);
    return;
  }
  for (const auto& model : {small(), small_gpt2()}) {
    check_beside_f32(model, manifest::Precision::F32, chosen->name, 1e-4);
    check_beside_f32(model, manifest::Precision::Bf16, chosen->name, 0.02);
  }
}

BOOST_AUTO_TEST_CASE(a_device_is_taken_or_refused_by_name_and_never_replaced_unless_asked) {
  BOOST_TEST(choose_device("cpu")->name == "cpu");
  BOOST_TEST(choose_device("cpu")->instead.empty());
  const auto any = choose_device("auto");
  BOOST_REQUIRE(any.has_value());
  BOOST_TEST((any->name == "cpu") != any->instead.empty());
  const auto absent = choose_device("cuda:99");
  BOOST_REQUIRE(!absent.has_value());
  BOOST_TEST((absent.error().name == ErrorName::DeviceUnusable));
  BOOST_TEST(absent.error().detail.starts_with("`cuda:99`: "));
  BOOST_TEST(to_string(ChosenDevice{"cpu", "there is none"}) == "cpu, since there is none");
}

BOOST_AUTO_TEST_CASE(a_want_of_memory_is_told_from_other_faults) {
  const auto cause = [](const std::string& text) {
    const auto error = want_of_memory(std::runtime_error{text});
    return error ? error->detail : "";
  };
  BOOST_TEST(cause("CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 1 GiB") ==
             "the trainer's model: tried to allocate 20.00 MiB");
  BOOST_TEST(
      cause("[enforce fail at alloc_cpu.cpp:124] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes. "
            "Error code 12") == "the trainer's model: tried to allocate 8 bytes");
  BOOST_TEST(cause("CUDA error: out of memory\nCUDA kernel errors might be …") == "the trainer's model: CUDA error: out of memory");
  BOOST_TEST(cause("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`") ==
             "the trainer's model: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`");
  BOOST_TEST(cause("CUDA error: an illegal memory access was encountered") == "");
  BOOST_TEST(want_of_memory(std::bad_alloc{}).has_value());
}

}  // namespace

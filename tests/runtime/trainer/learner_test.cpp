// Owns the checks of the model and its training; that a function is Llama's or GPT-2's is checked against transformers in tests/golden.
#include "runtime/trainer/learner.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>
#include <numeric>

#include "runtime/models/architecture.hpp"
#include "runtime/planning/memory.hpp"
#include "runtime/trainer/permutation.hpp"

namespace {

using prime::TensorView;
using prime::trainer::Learner;

struct Threads {
  Threads() { prime::trainer::set_compute_threads(1); }
};
BOOST_TEST_GLOBAL_FIXTURE(Threads);

/// Small, with all that can differ: fewer key heads than query heads, an odd context, two blocks.
prime::manifest::Model tiny() {
  prime::manifest::Model model;
  model.layers = 2;
  model.dim = 16;
  model.heads = 4;
  model.kv_heads = 2;
  model.ffn = 24;
  model.context = 7;
  return model;
}

prime::manifest::Model tiny_gpt2() {
  auto model = tiny();
  model.arch = prime::manifest::Architecture::Gpt2;
  model.kv_heads = model.heads;
  model.tie_embeddings = true;
  return model;
}

/// Biases of attention, and rotations of which one is left as it is and one is slowed down in part.
prime::manifest::Model tiny_biased() {
  auto model = tiny();
  model.attention_bias = true;
  model.rope_theta = 4;
  model.rope_scaling = {prime::manifest::RopeKind::Llama3, 8, 1, 4, 32};
  return model;
}

prime::manifest::Train train() {
  prime::manifest::Train settings;
  settings.optimizer = prime::manifest::AdamW{.learning_rate = 1e-2};
  return settings;
}

std::vector<prime::data::Token> random_windows(const prime::manifest::Model& model, std::size_t count) {
  std::vector<prime::data::Token> bytes(count * (model.context + 1));
  std::uint64_t counter = 0;
  for (auto& byte : bytes) byte = static_cast<std::uint8_t>(prime::trainer::mix(++counter) % 256);
  return bytes;
}

/// Large weights: with the initial ones the gradients are too small to be told from rounding.
void spread(Learner& learner) {
  std::uint64_t counter = 99;
  for (const TensorView& view : learner.parameters()) {
    if (view.shape.size() == 2) {
      for (float& value : view.data.floats()) value = 0.5F * (static_cast<float>(prime::trainer::mix(++counter) % 1001) / 500.0F - 1.0F);
    } else {
      for (float& value : view.data.floats()) value = 0.5F + static_cast<float>(prime::trainer::mix(++counter) % 1001) / 1000.0F;
    }
  }
}

/// The slope along one direction inside one tensor, by a central difference, against the gradient.
void check_slopes(const prime::manifest::Model& model) {
  Learner learner(model, train());
  spread(learner);
  const auto windows = random_windows(model, 3);
  const std::vector<float> gradient = learner.gradient(windows);
  std::size_t offset = 0;
  for (const TensorView& view : learner.parameters()) {
    const std::span<const float> slope(gradient.data() + offset, view.data.floats().size());
    offset += view.data.floats().size();
    const double norm = std::sqrt(std::inner_product(slope.begin(), slope.end(), slope.begin(), 0.0));
    BOOST_REQUIRE_GT(norm, 0.0);
    const std::vector<float> before(view.data.floats().begin(), view.data.floats().end());
    const auto loss_at = [&](double distance) {
      for (std::size_t i = 0; i < before.size(); ++i) view.data.floats()[i] = before[i] + static_cast<float>(distance * slope[i] / norm);
      return learner.loss(windows);
    };
    const double distance = 4e-3;
    const double measured = (loss_at(distance) - loss_at(-distance)) / (2 * distance);
    std::ranges::copy(before, view.data.floats().begin());
    BOOST_TEST_CONTEXT(view.name) { BOOST_TEST(measured == norm, boost::test_tools::tolerance(0.02)); }
  }
  BOOST_TEST(offset == gradient.size());
}

BOOST_AUTO_TEST_CASE(a_plan_knows_the_tensors_that_are_bound) {
  for (const bool tied : {false, true})
    for (auto model : {tiny(), tiny_biased(), tiny_gpt2()}) {
      model.tie_embeddings = tied;
      const Learner learner(model, train(), {});
      const auto told = prime::models::tensor_shapes(model);
      const auto& bound = learner.parameters();
      BOOST_REQUIRE(told.size() == bound.size());
      for (std::size_t i = 0; i < told.size(); ++i) {
        BOOST_TEST(told[i].name == bound[i].name);
        BOOST_TEST(told[i].shape == bound[i].shape, boost::test_tools::per_element());
      }
    }
}

BOOST_AUTO_TEST_CASE(gradients_are_the_slopes_of_the_loss) { check_slopes(tiny()); }

BOOST_AUTO_TEST_CASE(gradients_are_right_with_tied_embeddings_and_one_key_head_for_each_query_head) {
  auto model = tiny();
  model.tie_embeddings = true;
  model.kv_heads = model.heads;
  check_slopes(model);
}

BOOST_AUTO_TEST_CASE(gradients_are_right_with_biases_of_attention_and_scaled_rotations) { check_slopes(tiny_biased()); }

BOOST_AUTO_TEST_CASE(gradients_of_a_gpt2_are_the_slopes_of_its_loss) {
  auto model = tiny_gpt2();
  check_slopes(model);
  model.tie_embeddings = false;
  check_slopes(model);
}

BOOST_AUTO_TEST_CASE(parameters_have_the_names_and_shapes_of_hugging_face) {
  const Learner learner(tiny(), train());
  std::vector<std::string> names;
  for (const TensorView& view : learner.parameters()) {
    names.push_back(view.name);
    const auto count = std::accumulate(view.shape.begin(), view.shape.end(), std::int64_t{1}, std::multiplies<>());
    BOOST_TEST(view.data.floats().size() == static_cast<std::size_t>(count));
  }
  const std::vector<std::string> first(names.begin(), names.begin() + 10);
  const std::string layer = "model.layers.0.";
  const std::vector<std::string> expected{"model.embed_tokens.weight",       layer + "self_attn.q_proj.weight",
                                          layer + "self_attn.k_proj.weight", layer + "self_attn.v_proj.weight",
                                          layer + "self_attn.o_proj.weight", layer + "mlp.gate_proj.weight",
                                          layer + "mlp.up_proj.weight",      layer + "mlp.down_proj.weight",
                                          layer + "input_layernorm.weight",  layer + "post_attention_layernorm.weight"};
  BOOST_TEST(first == expected, boost::test_tools::per_element());
  BOOST_TEST(names.size() == 21U);
  BOOST_TEST(names[19] == "model.norm.weight");
  BOOST_TEST(names[20] == "lm_head.weight");
  auto tied = tiny();
  tied.tie_embeddings = true;
  BOOST_TEST(Learner(tied, train()).parameters().size() == 20U);
  const Learner gpt2(tiny_gpt2(), train());
  BOOST_TEST(gpt2.parameters().size() == 2U + 2 * 12 + 2);
  BOOST_TEST(gpt2.parameters()[4].name == "transformer.h.0.attn.c_attn.weight");
}

BOOST_AUTO_TEST_CASE(an_untrained_model_knows_nothing) {
  const auto model = tiny();
  const Learner learner(model, train());
  BOOST_TEST(std::abs(learner.loss(random_windows(model, 8)) - std::log(256.0)) < 0.05);
}

BOOST_AUTO_TEST_CASE(no_token_sees_those_that_follow_it) {
  const auto model = tiny();
  Learner learner(model, train());
  spread(learner);
  auto windows = random_windows(model, 1);
  // The last byte is only a target. Of two windows that differ in it, the loss differs by that target alone: all else being equal,
  // the sum over all 256 last bytes of exp(-loss · context) is the probability of what came before.
  double total = 0;
  for (int last = 0; last < 256; ++last) {
    windows.back() = static_cast<std::uint8_t>(last);
    total += std::exp(-learner.loss(windows) * model.context);
  }
  auto shorter = model;
  shorter.context = model.context - 1;
  Learner prefix(shorter, train());
  spread(prefix);
  windows.pop_back();
  BOOST_TEST(total == std::exp(-prefix.loss(windows) * shorter.context), boost::test_tools::tolerance(1e-3));
}

double train_on_text(Learner& learner, const prime::manifest::Model& model, int steps) {
  const std::string text = "for (int i = 0; i < n; ++i) sum += values[i];\n";
  double loss = 0;
  for (int step = 0; step < steps; ++step) {
    std::vector<prime::data::Token> windows;
    for (std::size_t i = 0; i < 8 * (model.context + 1); ++i) windows.push_back(static_cast<std::uint8_t>(text[i % text.size()]));
    loss = learner.train(windows, 1e-2);
  }
  return loss;
}

BOOST_AUTO_TEST_CASE(training_lowers_the_loss_far_below_guessing) {
  for (auto model : {tiny(), tiny_gpt2()}) {
    model.context = 16;
    Learner learner(model, train());
    BOOST_TEST(train_on_text(learner, model, 120) < 1.0);
  }
}

BOOST_AUTO_TEST_CASE(equal_seeds_give_equal_bits_and_others_do_not) {
  const auto model = tiny();
  auto settings = train();
  Learner a(model, settings), b(model, settings);
  settings.seed = 2;
  Learner c(model, settings);
  const auto equal = [](const Learner& x, const Learner& y) {
    return std::ranges::equal(x.parameters(), y.parameters(), [](const TensorView& left, const TensorView& right) {
      return std::memcmp(left.data.floats().data(), right.data.floats().data(), left.data.floats().size_bytes()) == 0;
    });
  };
  BOOST_TEST(equal(a, b));
  BOOST_TEST(!equal(a, c));
  BOOST_TEST(train_on_text(a, model, 5) == train_on_text(b, model, 5));
  BOOST_TEST(equal(a, b));
}

void check_that_state_is_all(const prime::manifest::Optimizer& optimizer) {
  const auto model = tiny();
  auto settings = train();
  settings.optimizer = optimizer;
  Learner a(model, settings), b(model, settings);
  train_on_text(a, model, 5);
  const auto copy = [](const std::vector<TensorView>& from, const std::vector<TensorView>& to) {
    BOOST_REQUIRE(from.size() == to.size());
    for (std::size_t i = 0; i < from.size(); ++i) {
      BOOST_TEST((from[i].name == to[i].name && from[i].shape == to[i].shape));
      std::ranges::copy(from[i].data.bytes(), to[i].data.bytes().begin());
    }
  };
  copy(a.parameters(), b.parameters());
  const auto windows = random_windows(model, 2);
  Learner forgetful(model, settings);
  copy(a.parameters(), forgetful.parameters());
  copy(a.optimizer_state(), b.optimizer_state());
  b.load_optimizer();
  for (int i = 0; i < 3; ++i) {
    a.train(windows, 1e-3);
    forgetful.train(windows, 1e-3);
    b.train(windows, 1e-3);
  }
  const auto bits = [](const Learner& learner) {
    std::vector<float> all;
    for (const TensorView& view : learner.parameters()) all.insert(all.end(), view.data.floats().begin(), view.data.floats().end());
    return all;
  };
  BOOST_TEST((bits(a) == bits(b)));
  BOOST_TEST((bits(a) != bits(forgetful)) == !a.optimizer_state().empty());
}

BOOST_AUTO_TEST_CASE(parameters_and_the_optimizers_state_are_all_that_the_next_steps_depend_on) {
  check_that_state_is_all(prime::manifest::AdamW{});
  check_that_state_is_all(prime::manifest::Sgd{});
  check_that_state_is_all(prime::manifest::Sgd{.momentum = 0});
  check_that_state_is_all(prime::manifest::Muon{});
}

BOOST_AUTO_TEST_CASE(every_optimizer_trains_and_a_plan_knows_what_it_keeps) {
  for (auto model : {tiny(), tiny_gpt2()})
    for (const prime::manifest::Optimizer& optimizer : {prime::manifest::Optimizer{prime::manifest::Sgd{}},
                                                        {prime::manifest::Sgd{.momentum = 0}},
                                                        {prime::manifest::Muon{}},
                                                        {prime::manifest::AdamW{}}}) {
      model.context = 16;
      prime::manifest::Shared shared;
      shared.model = model;
      shared.train = train();
      shared.train.optimizer = optimizer;
      Learner learner(model, shared.train);
      const double before = train_on_text(learner, model, 1);
      BOOST_TEST(train_on_text(learner, model, 60) < before - 0.5);
      std::uint64_t kept = 0;
      for (const TensorView& view : learner.optimizer_state())
        if (!view.shape.empty()) kept += view.data.floats().size();
      BOOST_TEST(kept == prime::planning::moments(shared));
    }
}

BOOST_AUTO_TEST_CASE(a_step_moves_a_parameter_as_adamw_says) {
  const auto model = tiny();
  auto settings = train();
  settings.clip_norm = 1e9;
  const auto& adamw = std::get<prime::manifest::AdamW>(settings.optimizer);
  Learner learner(model, settings);
  spread(learner);
  const auto windows = random_windows(model, 2);
  const std::vector<float> gradient = learner.gradient(windows);
  std::vector<float> before;
  for (const TensorView& view : learner.parameters()) before.insert(before.end(), view.data.floats().begin(), view.data.floats().end());
  const double rate = 1e-3;
  learner.train(windows, rate);
  // In the first step both bias-corrected means are the gradient itself, so the step is rate · g / (|g| + epsilon).
  std::size_t i = 0;
  double worst = 0;
  for (const TensorView& view : learner.parameters()) {
    for (const float after : view.data.floats()) {
      const double g = gradient[i];
      const double decayed = before[i] * (1 - rate * adamw.weight_decay);
      worst = std::max(worst, std::abs(after - (decayed - rate * g / (std::abs(g) + adamw.epsilon))));
      ++i;
    }
  }
  BOOST_TEST(worst < 2e-6);
}

BOOST_AUTO_TEST_CASE(a_long_gradient_is_cut_to_the_limit) {
  // AdamW does not see a gradient's length in its first step, but in its second, where the first, longer one still counts.
  const auto model = tiny();
  auto settings = train();
  settings.clip_norm = 1e-3;
  Learner cut(model, settings);
  settings.clip_norm = 1e9;
  Learner whole(model, settings);
  const double difference = std::abs(train_on_text(cut, model, 4) - train_on_text(whole, model, 4));
  BOOST_TEST(difference > 1e-6);
}

BOOST_AUTO_TEST_CASE(a_sample_goes_on_from_its_prompt_is_seeded_and_as_long_as_asked) {
  const auto model = tiny();
  const Learner learner(model, train());
  const std::vector<prime::data::Token> prompt{'#', 'i', 'n'};
  const auto text = learner.write({.prompt = prompt, .choices = 100, .tokens = 50});
  BOOST_TEST(text.size() == 53U);
  BOOST_TEST(std::ranges::equal(std::span(text).first(3), prompt));
  BOOST_TEST(std::ranges::all_of(text.begin() + 3, text.end(), [](auto token) { return token < 100; }));
  BOOST_TEST((text == learner.write({.prompt = prompt, .choices = 100, .tokens = 50})));
  BOOST_TEST((text != learner.write({.prompt = prompt, .choices = 100, .tokens = 50, .seed = 2})));
}

/// Of tokens 4, 5 and 6 of a window, in nats, given what stands before them.
double loss_of_the_last_three(std::vector<prime::data::Token> window, const prime::trainer::Computing& computing) {
  auto model = tiny();
  Learner whole(model, train(), computing);
  spread(whole);
  const double all = whole.loss(window) * model.context;
  model.context = 4;
  Learner beginning(model, train(), computing);
  spread(beginning);
  window.resize(5);
  return all - beginning.loss(window) * model.context;
}

BOOST_AUTO_TEST_CASE(a_document_has_the_loss_that_it_has_alone_whatever_is_packed_before_it) {
  constexpr prime::data::Token END = 9;
  const std::vector<prime::data::Token> one{1, 2, 3, END, 50, 60, 70, 80}, other{7, 8, 6, END, 50, 60, 70, 80},
      joined{7, 8, 6, 10, 50, 60, 70, 80};
  const prime::trainer::Computing apart{.document_end = END};
  BOOST_TEST(std::abs(loss_of_the_last_three(one, apart) - loss_of_the_last_three(other, apart)) < 1e-5);
  BOOST_TEST(std::abs(loss_of_the_last_three(one, {}) - loss_of_the_last_three(other, {})) > 1e-3);
  // Without an end in it a window is one document.
  BOOST_TEST(std::abs(loss_of_the_last_three(joined, apart) - loss_of_the_last_three(joined, {})) < 1e-5);
  const prime::trainer::Computing again{.activation_checkpointing = true, .document_end = END};
  Learner kept(tiny(), train(), apart), recomputed(tiny(), train(), again);
  BOOST_TEST(std::abs(kept.train(one, 1e-2) - recomputed.train(one, 1e-2)) < 1e-6);
  BOOST_TEST(std::abs(kept.loss(one) - recomputed.loss(one)) < 1e-6);
}

}  // namespace

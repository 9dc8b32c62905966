// Checks how tensors are shared out among fragments: every peer must come to the same.
#include "messages/division.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <numeric>

BOOST_AUTO_TEST_SUITE(division)

using namespace prime;

namespace {

struct Model {
  std::vector<TensorShape> tensors;
  std::vector<std::uint64_t> counts;
  void add(std::string name, std::uint64_t count) {
    tensors.push_back({std::move(name), {static_cast<std::int64_t>(count)}});
    counts.push_back(count);
  }
  [[nodiscard]] std::vector<std::uint32_t> divided(Division division) const { return divide(tensors, counts, division).value(); }
};

/// An embedding, `layers` layers of two tensors, a norm and a head.
Model decoder(int layers) {
  Model model;
  model.add("model.embed", 500);
  for (int layer = 0; layer < layers; ++layer)
    for (const auto* part : {".attention.wq", ".ffn.w1"}) model.add("model.layers." + std::to_string(layer) + part, 100);
  model.add("model.norm", 7);
  model.add("head", 300);
  return model;
}

}  // namespace

BOOST_AUTO_TEST_CASE(one_fragment_holds_everything) {
  for (const auto pattern : {FragmentPattern::Strided, FragmentPattern::Sequential, FragmentPattern::Balanced})
    BOOST_TEST(std::ranges::all_of(decoder(3).divided({1, pattern}), [](auto fragment) { return fragment == 0; }));
}

BOOST_AUTO_TEST_CASE(strided_layers_take_turns_and_sequential_ones_stay_together) {
  const auto model = decoder(6);
  const std::vector<std::uint32_t> strided{0, 0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2, 2, 1};
  BOOST_TEST(model.divided({3, FragmentPattern::Strided}) == strided, boost::test_tools::per_element());
  const std::vector<std::uint32_t> sequential{0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 2, 1};
  BOOST_TEST(model.divided({3, FragmentPattern::Sequential}) == sequential, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(layers_are_counted_whatever_their_numbers_are) {
  Model model;
  for (const auto* name : {"h.10.w", "h.30.w", "h.20.w", "h.40.w"}) model.add(name, 5);
  BOOST_TEST(model.divided({2, FragmentPattern::Strided}) == (std::vector<std::uint32_t>{0, 0, 1, 1}), boost::test_tools::per_element());
  // A number that is a part of a word is none, and of two the first counts.
  Model other;
  for (const auto* name : {"conv2d.w", "block.0.1.w", "block.1.0.w", "w1"}) other.add(name, 5);
  BOOST_TEST(other.divided({2, FragmentPattern::Strided}) == (std::vector<std::uint32_t>{0, 0, 1, 1}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(balanced_fragments_and_models_of_few_layers_are_as_equal_as_whole_tensors_allow) {
  for (const auto& [model, division] :
       {std::pair{decoder(12), Division{5, FragmentPattern::Balanced}}, std::pair{decoder(2), Division{3, FragmentPattern::Strided}}}) {
    const auto fragments = model.divided(division);
    std::vector<std::uint64_t> sizes(division.count);
    for (std::size_t i = 0; i < fragments.size(); ++i) sizes[fragments[i]] += model.counts[i];
    BOOST_TEST(std::ranges::min(sizes) > 0U);
    // No more than one tensor apart, unless one of them holds the largest tensor alone.
    BOOST_TEST(std::ranges::max(sizes) <= std::max<std::uint64_t>(500, std::ranges::min(sizes) + 300));
  }
}

BOOST_AUTO_TEST_CASE(tensors_of_layers_are_merged_radially_and_all_where_there_are_no_layers) {
  const auto of = [](const std::vector<std::string>& names) {
    std::vector<TensorShape> tensors;
    for (const auto& name : names) tensors.push_back({name, {1}});
    return merged_radially(tensors);
  };
  BOOST_TEST(
      of({"model.embed_tokens.weight", "model.layers.0.w", "h.11.b", "lm_head.weight"}) == (std::vector<bool>{false, true, true, false}),
      boost::test_tools::per_element());
  BOOST_TEST(of({"weight", "bias"}) == (std::vector<bool>{true, true}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_tensor_is_never_cut) {
  const auto refused = divide({{"a", {4}}, {"b", {4}}}, {4, 4}, {3, FragmentPattern::Balanced});
  BOOST_REQUIRE(!refused);
  BOOST_TEST((refused.error().name == ErrorName::LayoutUnusable));
  BOOST_TEST(refused.error().detail == "2 tensors are bound, too few for 3 fragments: a tensor is never cut (`sync.fragments.count`)");
}

BOOST_AUTO_TEST_SUITE_END()

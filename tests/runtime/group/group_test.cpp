// Owns the tests of the public collectives: members that reduce together, over TLS and in the clear.
#include "prime/group.hpp"

#include <algorithm>
#include <array>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <condition_variable>
#include <cstring>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <tuple>
#include <unistd.h>

#include "runtime/bench/allreduce_bench.hpp"
#include "runtime/bench/bare_sockets.hpp"
#include "runtime/group/spare_memory.hpp"
#include "tests/runtime/group/members.hpp"

using namespace prime;
using namespace prime::test;

BOOST_AUTO_TEST_CASE(members_agree_on_the_mean_over_every_kind_of_lane) {
  for (const auto& [plain, memory, streams] :
       {std::tuple{true, false, 1}, {false, false, 1}, {false, true, 1}, {true, false, 4}, {false, false, 3}, {false, true, 3}}) {
    Members members(3, plain, memory, static_cast<std::uint32_t>(streams));
    for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{1000}, std::size_t{500'000}}) {
      std::vector<std::vector<float>> outputs(3, std::vector<float>(count));
      const auto infos =
          members.all([&](std::uint32_t rank) { return members.groups[rank].reduce(values_of(rank, count), outputs[rank]); });
      for (std::uint32_t rank = 0; rank < 3; ++rank) {
        BOOST_REQUIRE_MESSAGE(infos[rank].has_value(), (infos[rank] ? "" : to_string(infos[rank].error())));
        BOOST_TEST((infos[rank]->digest == infos[0]->digest));
        BOOST_TEST((outputs[rank] == values_of(1, count)));  // the mean of 1, 2 and 3 is 2
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(who_wants_to_hear_of_the_end_does_once_before_it_and_after_it) {
  Members members(2);
  const auto heard = members.all([&](std::uint32_t rank) {
    std::vector<float> tensor(100'000, static_cast<float>(rank));
    ReduceOptions options;
    auto reduction =
        members.groups[rank].reduce_async(std::as_bytes(std::span{tensor}), std::as_writable_bytes(std::span{tensor}), options);
    std::promise<void> ended;
    reduction.when_done([&] { ended.set_value(); });  // a second call would throw
    ended.get_future().wait();
    const bool is_over = reduction.wait_for({}).has_value();
    int later = 0;
    reduction.when_done([&] { ++later; });
    return std::pair{is_over, later};
  });
  for (const auto& [is_over, later] : heard) {
    BOOST_TEST(is_over);
    BOOST_TEST(later == 1);
  }
}

BOOST_AUTO_TEST_CASE(in_place_is_as_good_and_weights_count) {
  Members members(2);
  std::vector<std::vector<float>> tensors{std::vector<float>(300'000, 4.0F), std::vector<float>(300'000, 8.0F)};
  ReduceOptions options;
  options.weights = {3, 1};
  const auto infos = members.all([&](std::uint32_t rank) { return members.groups[rank].reduce(tensors[rank], tensors[rank], options); });
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    BOOST_REQUIRE(infos[rank].has_value());
    BOOST_TEST((tensors[rank] == std::vector<float>(300'000, 5.0F)));
  }
}

BOOST_AUTO_TEST_CASE(results_in_place_are_made_in_the_memory_of_earlier_ones) {
  Members members(2);
  const auto reduce_in_place = [&](std::size_t count) {
    return members.all([&](std::uint32_t rank) {
      std::vector<float> tensor(count, static_cast<float>(rank));
      return members.groups[rank].reduce(tensor, tensor).has_value() && tensor == std::vector<float>(count, 0.5F);
    });
  };
  constexpr std::size_t COUNT = 4'000'000;
  for (const std::size_t count : {COUNT, COUNT, std::size_t{10}, COUNT / 2, COUNT})
    for (const bool right : reduce_in_place(count)) BOOST_TEST(right);
  for (const auto& group : members.groups) {
    BOOST_TEST(group.peak_bytes() >= COUNT * sizeof(float));
    BOOST_TEST(group.peak_bytes() < 2 * COUNT * sizeof(float));
  }
}

BOOST_AUTO_TEST_CASE(spare_memory_is_what_fits) {
  const auto spare = std::make_shared<SpareMemory>();
  auto small = spare->take(100);
  auto large = spare->take(1000);
  const auto* const at_small = small.get();
  const auto* const at_large = large.get();
  small.reset();
  large.reset();
  small = spare->take(90);
  large = spare->take(600);
  BOOST_TEST(small.get() == at_small);
  BOOST_TEST(large.get() == at_large);
  BOOST_TEST(spare->peak_bytes() == 1100U);
  large.reset();
  const auto another = spare->take(101);  // does not take the place of what is much larger
  BOOST_TEST(another.get() != at_large);
  BOOST_TEST(spare->take(0) == nullptr);
}

BOOST_AUTO_TEST_CASE(spare_memory_is_never_more_than_was_in_use_at_once) {
  const auto spare = std::make_shared<SpareMemory>();
  std::vector<std::size_t> sizes{1 << 20};
  sizes.insert(sizes.end(), 100, 1 << 10);
  sizes.insert(sizes.end(), 60, 8 << 10);
  sizes.insert(sizes.end(), 30, 64 << 10);
  std::mt19937 random(7);
  std::map<std::size_t, std::pair<std::shared_ptr<std::byte>, std::size_t>> lent;
  std::size_t asked = 0;
  std::size_t most_asked = 0;
  const auto give_back = [&] {
    const auto one = std::next(lent.begin(), static_cast<std::ptrdiff_t>(random() % lent.size()));
    asked -= one->second.second;
    lent.erase(one);
  };
  for (std::size_t round = 0, name = 0; round < 30; ++round) {
    std::ranges::shuffle(sizes, random);
    for (const std::size_t bytes : sizes) {
      if (lent.size() == 32) give_back();
      lent[name++] = {spare->take(bytes), bytes};
      most_asked = std::max(most_asked, asked += bytes);
      BOOST_REQUIRE(spare->held_bytes() <= spare->peak_bytes());
    }
  }
  while (!lent.empty()) give_back();
  BOOST_TEST(spare->held_bytes() <= spare->peak_bytes());
  BOOST_TEST(spare->peak_bytes() < 2 * most_asked);
}

BOOST_AUTO_TEST_CASE(an_input_that_overlaps_the_output_is_refused) {
  Members members(2);
  std::vector<std::vector<float>> tensors(2, std::vector<float>(100'001, 1.0F));
  const auto shifted = members.all([&](std::uint32_t rank) {
    const std::span all{tensors[rank]};
    return members.groups[rank].reduce(all.first(100'000), all.last(100'000));
  });
  for (const auto& info : shifted) BOOST_TEST((!info && info.error().name == ErrorName::Usage));
  const auto shifted_back = members.all([&](std::uint32_t rank) {
    const std::span all{tensors[rank]};
    return members.groups[rank].reduce(all.last(100'000), all.first(100'000));
  });
  for (const auto& info : shifted_back) BOOST_TEST((!info && info.error().name == ErrorName::Usage));
  const auto beside = members.all([&](std::uint32_t rank) {
    const std::span all{tensors[rank]};
    return members.groups[rank].reduce(all.first(50'000), all.subspan(50'000, 50'000));
  });
  for (const auto& info : beside) BOOST_TEST(info.has_value());
}

BOOST_AUTO_TEST_CASE(error_feedback_changes_the_residual_with_the_commit_and_not_otherwise) {
  Members members(2);
  constexpr std::size_t COUNT = 3000;
  std::vector<std::vector<float>> residuals(2, std::vector<float>(COUNT));
  const auto reduce = [&](Members& among, const std::vector<float>& input) {
    return among.all([&](std::uint32_t rank) {
      std::vector<float> output(COUNT);
      ReduceOptions options;
      options.codec = Codec::Int4Block;
      options.residual = residuals[rank];
      return among.groups[rank].reduce(input, output, options);
    });
  };
  for (const auto& info : reduce(members, values_of(0, COUNT))) BOOST_TEST(info.has_value());
  const auto kept = residuals;
  BOOST_TEST(std::any_of(kept[0].begin(), kept[0].end(), [](float value) { return value != 0; }));
  auto bad = values_of(0, COUNT);
  bad[10] = bad[COUNT - 10] = std::nanf("");
  for (const auto& info : reduce(members, bad)) BOOST_TEST(!info.has_value());
  BOOST_TEST((residuals == kept));

  // What other reduces have left in memory that is used again does not count.
  const auto in_place = members.all([&](std::uint32_t rank) {
    auto tensor = values_of(rank, COUNT);
    return members.groups[rank].reduce(tensor, tensor);
  });
  for (const auto& info : in_place) BOOST_TEST(info.has_value());
  for (const auto& info : reduce(members, values_of(1, COUNT))) BOOST_TEST(info.has_value());
  const auto after_an_abort = std::exchange(residuals, kept);
  Members others(2);
  for (const auto& info : reduce(others, values_of(1, COUNT))) BOOST_TEST(info.has_value());
  BOOST_TEST((residuals == after_an_abort));
}

BOOST_AUTO_TEST_CASE(tags_run_at_once) {
  for (const bool memory : {false, true}) {
    Members members(2, true, memory);
    constexpr std::uint32_t TAGS = 32;
    const auto good = members.all([&](std::uint32_t rank) {
      std::vector<std::vector<float>> outputs(TAGS, std::vector<float>(10'000));
      const auto input = values_of(rank, 10'000);
      std::vector<Reduction> running;
      for (std::uint32_t at = 0; at < TAGS; ++at) {
        ReduceOptions options;
        options.tag = rank == 0 ? at : TAGS - 1 - at;  // in another order each
        options.combine = ReduceOperator::Sum;
        running.push_back(
            members.groups[rank].reduce_async(std::as_bytes(std::span{input}), std::as_writable_bytes(std::span{outputs[at]}), options));
      }
      bool all = true;
      for (auto& each : running) all = each.wait().has_value() && all;
      for (const auto& output : outputs) all = all && output[7] == 3.0F + 14.0F;
      return all;
    });
    BOOST_TEST(good[0]);
    BOOST_TEST(good[1]);
  }
}

/// Who waits in `reduce` does the work of the group's thread meanwhile: for itself, and for what others have begun.
BOOST_AUTO_TEST_CASE(threads_that_wait_take_turns_with_the_groups_own) {
  constexpr std::size_t THREADS = 3;
#if defined(__SANITIZE_THREAD__)
  constexpr int FORMATIONS = 2;
#else
  constexpr int FORMATIONS = 6;
#endif
  constexpr std::size_t ROUNDS = 60;
  const auto reduce = [](Group& group, std::uint32_t rank, std::size_t thread, std::size_t round) -> Result<void> {
    const std::size_t count = thread == 0 ? 1000 : 100'000;
    std::vector<float> output(count);
    ReduceOptions options;
    options.tag = thread;
    const auto input = values_of(rank, count);
    if (round % 3 == thread) {
      auto running = group.reduce_async(std::as_bytes(std::span{input}), std::as_writable_bytes(std::span{output}), options);
      PRIME_CHECK(running.wait());
    } else {
      PRIME_CHECK(group.reduce(input, output, options));
    }
    return output == values_of(1, count) ? Result<void>{} : fail(ErrorName::InternalError, "another result");
  };
  for (int formation = 0; formation < FORMATIONS; ++formation) {  // the first reduce finds lanes that are being opened
    Members members(3, true, formation % 2 == 0);
    const auto results = members.all([&](std::uint32_t rank) {
      std::vector<std::future<Result<void>>> threads;
      for (std::size_t thread = 0; thread < THREADS; ++thread)
        threads.push_back(std::async(std::launch::async, [&, thread]() -> Result<void> {
          for (std::size_t round = 0; round < ROUNDS; ++round) PRIME_CHECK(reduce(members.groups[rank], rank, thread, round));
          return {};
        }));
      Result<void> all;
      for (auto& each : threads)
        if (auto good = each.get(); !good) all = std::move(good);
      return all;
    });
    for (const auto& good : results) BOOST_TEST(good.has_value(), (good ? "" : to_string(good.error())));
  }
}

BOOST_AUTO_TEST_CASE(what_one_cancels_ends_for_all_and_leaves_inputs_alone) {
  for (const bool memory : {false, true}) {
    Members members(3, true, memory);
    std::vector<float> input(100'000, 1.0F);
    std::vector<std::vector<float>> outputs(3, std::vector<float>(input.size()));
    std::vector<Reduction> running;
    // The third never starts it.
    for (std::uint32_t rank = 0; rank < 2; ++rank)
      running.push_back(
          members.groups[rank].reduce_async(std::as_bytes(std::span{input}), std::as_writable_bytes(std::span{outputs[rank]}), {}));
    BOOST_TEST(!running[0].wait_for(std::chrono::milliseconds(20)).has_value());
    running[0].cancel();
    for (auto& each : running) BOOST_TEST((each.wait().error().name == ErrorName::LaneBroken));
    BOOST_TEST((input == std::vector<float>(input.size(), 1.0F)));
    ReduceOptions next;
    next.tag = 1;
    const auto infos = members.all([&](std::uint32_t rank) {
      return members.groups[rank].reduce(std::as_bytes(std::span{input}), std::as_writable_bytes(std::span{outputs[rank]}), next);
    });
    for (const auto& info : infos) BOOST_TEST(info.has_value());
  }
}

BOOST_AUTO_TEST_CASE(what_takes_the_place_of_a_reduce_that_runs_cancels_it) {
  Members members(2);
  const std::vector<float> input(1000, 1.0F);
  std::vector<std::vector<float>> outputs(4, std::vector<float>(input.size()));
  const auto start = [&](std::uint32_t rank, std::uint64_t tag) {
    ReduceOptions options;
    options.tag = tag;
    return members.groups[rank].reduce_async(std::as_bytes(std::span{input}), std::as_writable_bytes(std::span{outputs[2 * rank + tag]}),
                                             options);
  };
  auto running = start(0, 0);
  running = start(0, 1);
  auto first = start(1, 0);
  auto second = start(1, 1);
  BOOST_TEST(!first.wait().has_value());
  BOOST_TEST(second.wait().has_value());
  BOOST_TEST(running.wait().has_value());
}

BOOST_AUTO_TEST_CASE(what_lies_behind_an_input_that_waits_for_others_does_not_wait) {
  for (const bool memory : {false, true}) {
    Members members(3, true, memory);
    constexpr std::size_t COUNT = 1'000'000;
    const auto good = members.all([&](std::uint32_t rank) {
      const auto input = values_of(rank, COUNT);
      std::vector<std::vector<float>> outputs(2, std::vector<float>(COUNT));
      std::vector<Reduction> running;
      const auto start = [&](std::uint64_t tag) {
        ReduceOptions options;
        options.tag = tag;
        options.timeout = std::chrono::seconds(20);
        running.push_back(
            members.groups[rank].reduce_async(std::as_bytes(std::span{input}), std::as_writable_bytes(std::span{outputs[tag]}), options));
      };
      // The last one begins the first reduce only after the second one, while the others have given their inputs for it already.
      start(rank == 2 ? 1 : 0);
      if (rank == 2) (void)running.front().wait();
      else members.progress.wait(rank, 0);
      start(rank == 2 ? 0 : 1);
      bool all = true;
      for (auto& each : running) all = each.wait().has_value() && all;
      for (const auto& output : outputs) all = all && output == values_of(1, COUNT);
      return all;
    });
    for (const bool each : good) BOOST_TEST(each);
  }
}

BOOST_AUTO_TEST_CASE(a_member_that_goes_away_is_news_to_all_others) {
  for (const bool memory : {false, true}) {
    Members members(3, true, memory);
    std::vector<float> input(2'000'000, 1.0F);
    std::vector<std::vector<float>> outputs(3, std::vector<float>(input.size()));
    BOOST_REQUIRE(members.all([&](std::uint32_t rank) { return members.groups[rank].reduce(input, outputs[rank]); })[0].has_value());
    std::vector<Reduction> running;
    for (std::uint32_t rank = 0; rank < 2; ++rank)
      running.push_back(
          members.groups[rank].reduce_async(std::as_bytes(std::span{input}), std::as_writable_bytes(std::span{outputs[rank]}), {}));
    members.groups.pop_back();
    for (auto& each : running) BOOST_TEST(!each.wait().has_value());
    running.clear();
  }
}

BOOST_AUTO_TEST_CASE(members_that_mean_different_reduces_are_told) {
  Members members(2);
  std::vector<std::vector<float>> tensors{std::vector<float>(1000), std::vector<float>(50'000)};
  const auto infos = members.all([&](std::uint32_t rank) { return members.groups[rank].reduce(tensors[rank], tensors[rank]); });
  BOOST_TEST((!infos[0].has_value() && !infos[1].has_value()));
  const bool named = infos[0].error().name == ErrorName::ReduceMismatch || infos[1].error().name == ErrorName::ReduceMismatch;
  BOOST_TEST(named);
}

BOOST_AUTO_TEST_CASE(options_that_contradict_themselves_are_refused) {
  const auto refused = [](GroupOptions options) { return Group::form(options).error().name == ErrorName::Usage; };
  GroupOptions options;
  options.members = {"127.0.0.1:0"};
  options.key = "a secret of the tests";
  BOOST_TEST(Group::form(options).has_value());
  auto wrong = options;
  wrong.rank = 1;
  BOOST_TEST(refused(wrong));
  wrong = options;
  wrong.key = "short";
  BOOST_TEST(refused(wrong));
  for (const std::uint32_t streams : {0U, 65U}) {
    wrong = options;
    wrong.streams = streams;
    BOOST_TEST(refused(wrong));
  }
}

BOOST_AUTO_TEST_CASE(the_benchmark_measures_what_it_says) {
  const auto rows = bench::measure_reduces({{2, 64 * 1024, 4, Codec::None, bench::Lane::Tls, Schedule::Direct},
                                            {2, 4 << 20, 1, Codec::Int8Block, bench::Lane::Memory},
                                            {3, 4096}},
                                           3);
  BOOST_REQUIRE(rows.has_value());
  BOOST_REQUIRE(rows->size() == 3U);
  for (const auto& row : *rows) {
    BOOST_TEST(row.time_s.min > 0);
    BOOST_TEST(row.time_s.min <= row.time_s.median);
    BOOST_TEST(row.time_s.median <= row.time_s.max);
    BOOST_TEST(row.bus_bytes_per_s > 0);
    BOOST_TEST(row.limit_share > 0);
  }
  bench::Case place{2, 16 << 20};
  for (const bool in_place : {false, true}) {
    place.in_place = in_place;
    const auto measured = bench::measure_reduces({place}, 1);
    BOOST_REQUIRE(measured.has_value());
    BOOST_TEST((measured->front().extra_bytes_peak >= place.bytes) == in_place);
  }
  BOOST_TEST((bench::measure_reduces({{1, 4096}}, 3).error().name == ErrorName::Usage));
}

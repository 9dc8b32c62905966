#include "runtime/bench/kernels_bench.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <ctime>
#include <functional>
#include <memory>
#include <new>
#include <random>
#include <span>
#include <string_view>

#include "kernels/codec/codec.hpp"
#include "kernels/outer_rule/outer_rule.hpp"
#include "kernels/reduce/reduce.hpp"
#include "kernels/reduce/typed_reduce.hpp"
#include "runtime/bench/median.hpp"

namespace prime::bench {
namespace {

constexpr std::size_t REPEATS_MINIMUM = 7;
constexpr std::align_val_t ALIGNMENT{64};
constexpr std::string_view PLAIN = "cpu";  // loops that the compiler vectorises, one version for all machines of the kind

// What this thread itself spent: others that share the machine take its time, but not this one's count.
double thread_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double seconds_of(const std::function<void()>& work) {
  const double start = thread_seconds();
  work();
  return thread_seconds() - start;
}

// Aligned as pooled buffers are, and touched, so that no page is new in a measurement.
class Array {
 public:
  Array(std::size_t values, std::uint32_t seed) : size_(values), data_(new (ALIGNMENT) float[values]) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0, 0.01F);
    const std::size_t drawn = std::min<std::size_t>(values, 1U << 16);  // drawing them all would take longer than the benchmark
    for (std::size_t i = 0; i < values; ++i) data_[i] = i < drawn ? normal(random) : data_[i - drawn];
  }
  std::span<float> span() const { return {data_.get(), size_}; }
  std::span<std::byte> bytes() const { return std::as_writable_bytes(span()); }
  float* data() const { return data_.get(); }

 private:
  struct Delete {
    void operator()(float* data) const { operator delete[](data, ALIGNMENT); }
  };
  std::size_t size_;
  std::unique_ptr<float[], Delete> data_;
};

class KernelsBench {
 public:
  explicit KernelsBench(const KernelsBenchOptions& options)
      : options_(options), count_(options.values), a_(count_, 1), b_(count_, 2), c_(count_, 3), out_(count_, 4), encoded_(count_, 5) {
    options_.repeats = std::max(options_.repeats, REPEATS_MINIMUM);
  }

  std::vector<KernelRow> run() {
    for (std::uint8_t number = 1; number < CODECS; ++number) codec_rows(static_cast<Codec>(number));
    reduce_rows();
    for (std::uint8_t number = 0; number < DATA_TYPES; ++number) typed_rows(static_cast<DataType>(number));
    return std::move(rows_);
  }

 private:
  // One row for the vectors and, where asked for, one for the reference; `work` is given true for the reference.
  void rows(const std::string& kernel, std::string_view of, std::size_t bytes, const std::function<void(bool)>& work,
            std::string_view path = kernels::codec_vectors()) {
    if (options_.begins) options_.begins(kernel, std::string(of));
    measure({kernel, std::string(of), std::string(path), 0, 0}, bytes, [&] { work(false); });
    if (options_.reference) measure({kernel, std::string(of), "reference", 0, 0}, bytes, [&] { work(true); });
  }

  void measure(KernelRow row, std::size_t bytes, const std::function<void()>& work) {
    std::vector<double> rates;
    std::vector<double> shares;
    const std::size_t copied = std::min(bytes / 2, out_.bytes().size());
    for (std::size_t repeat = 0; repeat < options_.repeats; ++repeat) {
      const double copy = 2.0 * static_cast<double>(copied) / seconds_of([&] { std::memcpy(c_.data(), a_.data(), copied); });
      rates.push_back(static_cast<double>(bytes) / seconds_of(work));
      shares.push_back(rates.back() / copy);
    }
    row.bytes_touched_per_s = median(rates);
    row.memcpy_share = median(shares);
    rows_.push_back(std::move(row));
  }

  void codec_rows(Codec codec) {
    const auto of = to_string(codec);
    const auto bytes = encoded_.bytes().first(kernels::encoded_bytes(codec, count_));
    const std::size_t array = count_ * sizeof(float);
    for (const auto rounding : {kernels::Rounding::Nearest, kernels::Rounding::Stochastic}) {
      const kernels::Encoding encoding{codec, rounding, 1, 2, 0};
      const std::string name = rounding == kernels::Rounding::Nearest ? "encode" : "encode-stochastic";
      rows(name, of, array + bytes.size(), [&, encoding](bool reference) {
        const auto encode = reference ? &kernels::encode_reference : &kernels::encode;
        static_cast<void>(encode(encoding, a_.span(), bytes));
      });
    }
    rows("encode-feedback", of, 3 * array + bytes.size(), [&](bool reference) {
      const auto encode = reference ? &kernels::encode_with_feedback_reference : &kernels::encode_with_feedback;
      static_cast<void>(encode({codec}, {a_.span(), b_.span(), bytes, out_.span()}));
    });
    rows("decode", of, array + bytes.size(), [&](bool reference) {
      (reference ? &kernels::decode_reference : &kernels::decode)(codec, {bytes, out_.span()});
    });
  }

  void reduce_rows() {
    const std::size_t array = count_ * sizeof(float);
    const std::array<kernels::WeightedInput, 2> two{kernels::WeightedInput{a_.data(), 1}, {b_.data(), 0.5F}};
    const auto sum = [&](bool reference) {
      (reference ? &kernels::weighted_sum_reference : &kernels::weighted_sum)(two, 0.5F, out_.span());
    };
    const auto difference = [&](bool reference) {
      (reference ? &kernels::pseudo_gradient_reference : &kernels::pseudo_gradient)(a_.span(), b_.span(), out_.span());
    };
    const auto search = [&](bool reference) {
      found_ = (reference ? &kernels::first_non_finite_reference : &kernels::first_non_finite)(a_.span());
    };
    const auto outer_step = [&](bool reference) {
      const kernels::NesterovBuffers buffers{a_.span(), b_.span(), c_.span(), out_.span(), encoded_.span()};
      (reference ? &kernels::nesterov_reference : &kernels::nesterov)({}, buffers);
    };
    rows("weighted-sum", "f32", 3 * array, sum, PLAIN);
    rows("pseudo-gradient", "f32", 3 * array, difference, PLAIN);
    rows("first-non-finite", "f32", array, search, PLAIN);
    rows("nesterov", "f32", 5 * array, outer_step, PLAIN);
  }

  void typed_rows(DataType type) {
    const std::array<kernels::TypedInput, 2> two{kernels::TypedInput{a_.bytes().data()}, {b_.bytes().data()}};
    for (std::uint8_t number = 0; number < REDUCE_OPERATORS; ++number) {
      const kernels::TypedReduction reduction{static_cast<ReduceOperator>(number), type, 0.5};
      rows("reduce-" + std::string(to_string(reduction.op)), to_string(type), 3 * out_.bytes().size(),
           [&](bool reference) { (reference ? &kernels::reduce_typed_reference : &kernels::reduce_typed)(reduction, two, out_.bytes()); });
    }
  }

  KernelsBenchOptions options_;
  std::size_t count_;
  Array a_;
  Array b_;
  Array c_;
  Array out_;
  Array encoded_;
  std::size_t found_ = 0;
  std::vector<KernelRow> rows_;
};

}  // namespace

std::vector<KernelRow> bench_kernels(const KernelsBenchOptions& options) { return KernelsBench(options).run(); }

}  // namespace prime::bench

// Owns the speed of the GPU's kernels, each beside a copy within the device in the same round, and whether their results are the CPU's.
#include <cstring>
#include <cuda_runtime_api.h>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "kernels/codec/codec.hpp"
#include "kernels/codec/codec_cuda.hpp"
#include "kernels/codec/philox.hpp"
#include "kernels/commitment/commitment_cuda.hpp"
#include "kernels/digest/digest.hpp"
#include "kernels/digest/digest_cuda.hpp"
#include "kernels/outer_rule/outer_rule_cuda.hpp"
#include "kernels/reduce/reduce_cuda.hpp"
#include "runtime/bench/median.hpp"
#include "tests/bench/gpu/bare.hpp"
#include "tests/bench/gpu/bench.hpp"

namespace prime::bench::gpu {
namespace {

using kernels::cuda::Fault;

void check(cudaError_t error) {
  if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorString(error));
}
void check(const Fault& fault) {
  if (fault) throw std::runtime_error(*fault);
}

class Array {
 public:
  explicit Array(std::span<const std::byte> host) : bytes_(host.size()) {
    check(cudaMalloc(&data_, bytes_));
    check(cudaMemcpy(data_, host.data(), bytes_, cudaMemcpyHostToDevice));
  }
  explicit Array(std::span<const float> host) : Array(std::as_bytes(host)) {}
  ~Array() { cudaFree(data_); }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  [[nodiscard]] std::byte* bytes() const { return static_cast<std::byte*>(data_); }
  [[nodiscard]] float* floats() const { return static_cast<float*>(data_); }
  [[nodiscard]] bool holds(std::span<const std::byte> expected) const {
    std::vector<std::byte> back(expected.size());
    check(cudaMemcpy(back.data(), data_, back.size(), cudaMemcpyDeviceToHost));
    return std::memcmp(back.data(), expected.data(), back.size()) == 0;
  }

 private:
  void* data_ = nullptr;
  std::size_t bytes_;
};

/// Of the default stream, by the device's own clock.
double device_seconds(const std::function<void()>& work) {
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  check(cudaEventCreate(&begin));
  check(cudaEventCreate(&end));
  check(cudaEventRecord(begin, nullptr));
  work();
  check(cudaEventRecord(end, nullptr));
  check(cudaEventSynchronize(end));
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, begin, end));
  check(cudaEventDestroy(begin));
  check(cudaEventDestroy(end));
  return milliseconds * 1e-3;
}

class KernelsBench {
 public:
  KernelsBench(std::size_t count, std::size_t repeats)
      : count_(count),
        repeats_(repeats),
        host_a_(drawn(count, 1)),
        host_b_(drawn(count, 2)),
        host_c_(drawn(count, 3)),
        a_(host_a_),
        b_(host_b_),
        c_(host_c_),
        out_(host_a_),
        out_2_(host_a_) {}

  bool run(std::string_view part) {
    const auto has = [part](std::string_view name) { return part == "all" || part == "kernels" || part == name; };
    for (std::uint8_t number = 1; has("codecs") && number < CODECS; ++number) codec(static_cast<Codec>(number));
    if (has("sums")) reduce_kernels();
    if (has("digest")) digest();
    for (const std::size_t tokens : {1, 32, 4096})
      if (has("top")) top_values(tokens, 128);
    if (has("top")) top_values(32, 1024);
    if (has("bare")) bare();
    return all_equal_;
  }

 private:
  void measure(const std::string& kernel, std::string_view of, std::size_t touched, const std::function<void()>& work, bool equal) {
    std::vector<double> rates;
    std::vector<double> shares;
    const std::size_t copied = count_ * sizeof(float);
    const auto copy = [&] { check(cudaMemcpyAsync(out_2_.bytes(), a_.bytes(), copied, cudaMemcpyDeviceToDevice, nullptr)); };
    work();
    copy();
    for (std::size_t repeat = 0; repeat < repeats_; ++repeat) {
      const double copy_rate = 2.0 * static_cast<double>(copied) / device_seconds(copy);
      rates.push_back(static_cast<double>(touched) / device_seconds(work));
      shares.push_back(rates.back() / copy_rate);
    }
    all_equal_ = all_equal_ && equal;
    std::cout << nlohmann::json{{"kernel", kernel},
                                {"of", of},
                                {"bytes_touched_per_s", median(rates)},
                                {"copy_share", median(shares)},
                                {"equal", equal}}
              << std::endl;
  }

  void codec(Codec codec) {
    std::vector<std::byte> expected(kernels::encoded_bytes(codec, count_));
    const Array bytes{std::span<const std::byte>{expected}};
    const std::vector<float> none(2);  // room for an index of 8 bytes
    const Array refused{std::span<const float>{none}};
    const std::size_t array = count_ * sizeof(float);
    for (const auto rounding : {kernels::Rounding::Stochastic, kernels::Rounding::Nearest}) {
      const kernels::Encoding encoding{codec, rounding, 1, 2, 0};
      const auto work = [&] {
        check(kernels::cuda::encode(
            encoding, {a_.floats(), nullptr, bytes.bytes(), nullptr, count_, reinterpret_cast<unsigned long long*>(refused.bytes())},
            nullptr));
      };
      work();
      static_cast<void>(kernels::encode(encoding, host_a_, expected));
      measure(rounding == kernels::Rounding::Nearest ? "encode" : "encode-stochastic", to_string(codec), array + expected.size(), work,
              bytes.holds(expected));
    }
    const auto decode = [&] { check(kernels::cuda::decode(codec, {bytes.bytes(), out_.floats(), count_}, nullptr)); };
    decode();
    std::vector<float> decoded(count_);
    kernels::decode(codec, {expected, decoded});
    measure("decode", to_string(codec), array + expected.size(), decode, out_.holds(std::as_bytes(std::span{decoded})));
  }

  void reduce_kernels() {
    const std::size_t array = count_ * sizeof(float);
    std::vector<float> expected(count_);
    std::vector<float> second(count_);
    const auto sum = [&] {
      const std::vector<kernels::WeightedInput> inputs{{a_.floats(), 1}, {b_.floats(), 0.5F}};
      check(kernels::cuda::weighted_sum(inputs, 0.5F, out_.floats(), count_, nullptr));
    };
    sum();
    kernels::weighted_sum(std::vector<kernels::WeightedInput>{{host_a_.data(), 1}, {host_b_.data(), 0.5F}}, 0.5F, expected);
    measure("weighted-sum", "f32", 3 * array, sum, out_.holds(std::as_bytes(std::span{expected})));

    const auto difference = [&] { check(kernels::cuda::pseudo_gradient(a_.floats(), b_.floats(), out_.floats(), count_, nullptr)); };
    difference();
    kernels::pseudo_gradient(host_a_, host_b_, expected);
    measure("pseudo-gradient", "f32", 3 * array, difference, out_.holds(std::as_bytes(std::span{expected})));

    const auto span = [&](const Array& each) { return std::span<float>{each.floats(), count_}; };
    const auto outer_step = [&] { check(kernels::cuda::nesterov({}, {span(a_), span(b_), span(c_), span(out_), span(out_2_)}, nullptr)); };
    outer_step();
    kernels::nesterov({}, {host_a_, host_b_, host_c_, expected, second});
    const bool equal = out_.holds(std::as_bytes(std::span{expected})) && out_2_.holds(std::as_bytes(std::span{second}));
    measure("nesterov", "f32", 5 * array, outer_step, equal);
  }

  /// Of one array, and of four such behind each other, since the host's part of the work does not grow with them.
  void digest() {
    const std::size_t array = count_ * sizeof(float);
    const std::size_t most = array % kernels::DIGEST_CHUNK_BYTES == 0 ? 4 : 1;
    const std::vector<float> none(most * count_);
    const Array four{none};
    for (std::size_t i = 0; i < most; ++i) check(cudaMemcpy(four.bytes() + i * array, a_.bytes(), array, cudaMemcpyDeviceToDevice));
    const auto chunks = kernels::chunk_digests(std::as_bytes(std::span{host_a_}));
    std::vector<Digest> all;
    for (std::size_t times = 1; times <= most; ++times) {
      all.insert(all.end(), chunks.begin(), chunks.end());
      if (times != 1 && times != most) continue;
      Digest digest;
      const auto work = [&] { check(kernels::cuda::digest_tensor(four.bytes(), times * array, digest, nullptr)); };
      work();
      measure("digest", std::to_string(times * array >> 20) + " MiB", times * array, work,
              digest == kernels::combine_digests(all, times * array));
    }
  }

  /// Of segments of so many tokens of width 4096; what lies there are the halves of f32 values, without what is not finite.
  void top_values(std::size_t tokens, std::size_t wanted) {
    const std::size_t values = tokens * 4096;
    const std::size_t segments = 2 * count_ / values;
    if (segments == 0) return;
    std::vector<std::uint16_t> bits(segments * values);
    std::memcpy(bits.data(), host_a_.data(), bits.size() * sizeof(std::uint16_t));
    for (auto& value : bits) value &= 0xBFFFU;
    const Array on_device{std::as_bytes(std::span{bits})};
    std::vector<kernels::TopValue> found(segments * wanted);
    const std::vector<unsigned long long> none_bad(segments);
    const Array out{std::as_bytes(std::span{found})};
    const Array bad{std::as_bytes(std::span{none_bad})};
    const auto work = [&] {
      check(kernels::cuda::top_values({reinterpret_cast<const std::uint16_t*>(on_device.bytes()), segments, values}, wanted,
                                      reinterpret_cast<kernels::TopValue*>(out.bytes()), reinterpret_cast<unsigned long long*>(bad.bytes()),
                                      nullptr));
    };
    work();
    check(cudaMemcpy(found.data(), out.bytes(), found.size() * sizeof(kernels::TopValue), cudaMemcpyDeviceToHost));
    const auto by_index = [](const kernels::TopValue& a, const kernels::TopValue& b) { return a.index < b.index; };
    bool equal = true;
    for (std::size_t i = 0; i < segments; ++i) {
      std::vector<kernels::TopValue> expected(wanted);
      static_cast<void>(kernels::top_values(std::span{bits}.subspan(i * values, values), expected));
      const auto mine = std::span{found}.subspan(i * wanted, wanted);
      std::sort(mine.begin(), mine.end(), by_index);
      std::sort(expected.begin(), expected.end(), by_index);
      equal = equal && std::equal(mine.begin(), mine.end(), expected.begin());
    }
    measure("top-" + std::to_string(wanted), std::to_string(tokens) + " x 4096 bf16", bits.size() * sizeof(std::uint16_t), work, equal);
  }

  /// What bounds kernels that cannot have a copy's rate.
  void bare() {
    const std::size_t array = count_ * sizeof(float);
    measure(
        "bare read", "f32", array, [&] { check(bare_read(a_.bytes(), array, out_.bytes())); }, true);
    measure(
        "bare random bits", "int8", array + kernels::encoded_bytes(Codec::Int8Block, count_),
        [&] { check(bare_random_bits(count_, out_.bytes())); }, true);
    const std::string size = std::to_string(array >> 20) + " MiB";
    const auto answer = [&] {
      check(bare_random_bits(0, out_.bytes()));
      check(kernels::cuda::synchronize(nullptr));
    };
    measure("bare answer", size, array, answer, true);
    measure(
        "bare scrambles", size, array, [&] { check(bare_scrambles(array, out_.bytes())); }, true);
  }

  std::size_t count_;
  std::size_t repeats_;
  std::vector<float> host_a_;
  std::vector<float> host_b_;
  std::vector<float> host_c_;
  Array a_;
  Array b_;
  Array c_;
  Array out_;
  Array out_2_;
  bool all_equal_ = true;
};

}  // namespace

bool time_kernels(std::string_view part, std::size_t count, std::size_t repeats) { return KernelsBench(count, repeats).run(part); }

}  // namespace prime::bench::gpu

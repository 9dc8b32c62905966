// Owns reduces of device tensors beside the same reduces of host tensors, and beside the bare copies that the former need.
#include <cstring>
#include <future>
#include <iostream>
#include <memory>
#include <new>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <unistd.h>

#include "prime/device_memory.hpp"
#include "prime/group.hpp"
#include "runtime/bench/bare_sockets.hpp"
#include "runtime/bench/median.hpp"
#include "tests/bench/gpu/bench.hpp"
#include "tests/support/device_tensor.hpp"

namespace prime::bench::gpu {
namespace {

using prime::test::DeviceTensor;

constexpr std::uint32_t MEMBERS = 2;
constexpr std::align_val_t PAGE{4096};

template <class T>
T must(Result<T> result) {
  if (!result) throw std::runtime_error(to_string(result.error()));
  return std::move(*result);
}

/// A member of a group with the same values in the host's memory and on the device.
class Seat {
 public:
  Seat(Group group, std::shared_ptr<DeviceMemory> memory, std::size_t bytes, std::uint32_t seed)
      : group_(std::move(group)),
        memory_(std::move(memory)),
        input_(drawn(bytes / sizeof(float), seed)),
        output_(input_.size()),
        pinned_(new (PAGE) std::byte[bytes]),
        bytes_(bytes),
        device_input_(memory_, std::as_bytes(std::span{input_})),
        device_output_(memory_, std::as_bytes(std::span{output_})) {
    memory_->pin({pinned_.get(), bytes_});
  }
  ~Seat() { memory_->unpin({pinned_.get(), bytes_}); }
  Seat(const Seat&) = delete;
  Seat& operator=(const Seat&) = delete;

  Digest on_host(Codec codec) {
    return must(group_.reduce(std::as_bytes(std::span{input_}), std::as_writable_bytes(std::span{output_}), options(codec, nullptr)))
        .digest;
  }
  Digest on_device(Codec codec) { return must(group_.reduce(device_input_.span(), device_output_.span(), options(codec, memory_))).digest; }
  /// All of the input to the host, then as much to the device: what a caller without device reduces does, in page-locked memory.
  void copy() {
    wait([&](auto done) { memory_->fetch(device_input_.span(), pinned_.get(), std::move(done)); });
    wait([&](auto done) { memory_->store({pinned_.get(), bytes_}, device_output_.span().data(), std::move(done)); });
  }
  [[nodiscard]] bool same() const { return std::ranges::equal(device_output_.get(), std::as_bytes(std::span{output_})); }
  [[nodiscard]] std::size_t extra_bytes() const { return group_.peak_bytes(); }

 private:
  static ReduceOptions options(Codec codec, std::shared_ptr<DeviceMemory> memory) {
    ReduceOptions options;
    options.codec = codec;
    options.memory = std::move(memory);
    return options;
  }
  template <class Begin>
  static void wait(Begin begin) {
    std::promise<std::optional<std::string>> ended;
    begin([&](std::optional<std::string> fault) { ended.set_value(std::move(fault)); });
    if (const auto fault = ended.get_future().get()) throw std::runtime_error(*fault);
  }

  Group group_;
  std::shared_ptr<DeviceMemory> memory_;
  std::vector<float> input_;
  std::vector<float> output_;
  struct Free {
    void operator()(std::byte* memory) const { operator delete[](memory, PAGE); }
  };
  std::unique_ptr<std::byte[], Free> pinned_;
  std::size_t bytes_;
  DeviceTensor device_input_;
  DeviceTensor device_output_;
};

using Seats = std::vector<std::unique_ptr<Seat>>;

Seats seats(bool shared_memory, const std::shared_ptr<DeviceMemory>& memory, std::size_t bytes) {
  GroupOptions options;
  options.key = "the key of a benchmark";
  options.plain = true;
  options.memory = shared_memory;
  std::vector<int> held;
  for (std::uint32_t rank = 0; rank < MEMBERS; ++rank) options.members.push_back("127.0.0.1:" + std::to_string(free_port(held)));
  for (const int fd : held) ::close(fd);
  Seats made;
  for (options.rank = 0; options.rank < MEMBERS; ++options.rank)
    made.push_back(std::make_unique<Seat>(must(Group::form(options)), memory, bytes, options.rank + 1));
  return made;
}

/// Seconds until all members are through.
template <class Work>
double all(const Seats& seats, Work work) {
  return seconds_of([&] {
    std::vector<std::future<void>> running;
    for (const auto& seat : seats) running.push_back(std::async(std::launch::async, [&work, &seat] { work(*seat); }));
    for (auto& each : running) each.get();
  });
}

bool compare(const Seats& seats, const std::string& lane, Codec codec, std::size_t bytes, std::size_t repeats) {
  std::vector<double> host;
  std::vector<double> device;
  std::vector<double> copy;
  std::vector<double> of_both;
  bool equal = true;
  constexpr std::size_t WARM_UP = 2;  // opens lanes, and locks the pages through which chunks are copied
  for (std::size_t repeat = 0; repeat < repeats + WARM_UP; ++repeat) {
    std::vector<Digest> digests(2 * MEMBERS);
    const auto at = [&](const Seat& seat) { return static_cast<std::size_t>(&seat == seats[0].get() ? 0 : 1); };
    const double host_s = all(seats, [&](Seat& seat) { digests[at(seat)] = seat.on_host(codec); });
    const double device_s = all(seats, [&](Seat& seat) { digests[MEMBERS + at(seat)] = seat.on_device(codec); });
    for (const auto& digest : digests) equal = equal && digest == digests[0];
    for (const auto& seat : seats) equal = equal && seat->same();
    const double copy_s = all(seats, [](Seat& seat) { seat.copy(); });
    if (repeat < WARM_UP) continue;
    host.push_back(host_s);
    device.push_back(device_s);
    copy.push_back(copy_s);
    of_both.push_back(device_s / (host_s + copy_s));
  }
  std::cout << nlohmann::json{{"reduce", std::string(to_string(codec))},
                              {"lane", lane},
                              {"bytes", bytes},
                              {"host_s", median(host)},
                              {"device_s", median(device)},
                              {"copy_s", median(copy)},
                              {"of_host_and_copy", median(of_both)},
                              {"extra_bytes", seats[0]->extra_bytes()},
                              {"equal", equal}}
            << std::endl;
  return equal;
}

}  // namespace

bool time_reduces(std::size_t bytes, std::size_t repeats) {
  const auto memory = must(cuda_memory());
  bool good = true;
  for (const bool shared_memory : {false, true}) {
    const auto made = seats(shared_memory, memory, bytes);
    for (const auto codec : {Codec::None, Codec::Int8Block})
      good = compare(made, shared_memory ? "memory" : "tcp", codec, bytes, repeats) && good;
  }
  return good;
}

}  // namespace prime::bench::gpu

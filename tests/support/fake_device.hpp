// Owns FakeDevice: a device whose memory the host cannot read or write, and whose copies end later, in any order, as a test wants it.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <random>
#include <stdexcept>
#include <sys/mman.h>
#include <thread>
#include <vector>

#include "kernels/device_memory.hpp"

namespace prime::test {

class FakeDevice final : public kernels::DeviceMemory {
 public:
  enum class Way : std::uint8_t { Fetch, Store, Move };
  struct Count {
    std::size_t begun = 0;
    std::size_t ended = 0;
  };
  using Counts = std::array<Count, 3>;
  /// By itself: copies end on a thread of the device. By hand: they end when the test says so, on the test's thread.
  enum class Ends : std::uint8_t { ByItself, ByHand };

  explicit FakeDevice(Ends ends = Ends::ByItself, std::uint64_t seed = 1) : random_(seed) {
    if (ends == Ends::ByItself) thread_ = std::thread([this] { run(); });
  }
  ~FakeDevice() override {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
      held_.fill(false);
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
    for (const auto& [begin, bytes] : regions_) ::munmap(begin, bytes);
  }

  [[nodiscard]] std::string name() const override { return "fake device"; }
  void fetch(std::span<const std::byte> from_device, std::byte* to_host, Copied done) override {
    begin({Way::Fetch, from_device.data(), to_host, from_device.size(), {}, std::move(done)});
  }
  void store(std::span<const std::byte> from_host, std::byte* to_device, Copied done) override {
    begin({Way::Store, from_host.data(), to_device, from_host.size(), {}, std::move(done)});
  }
  void move(std::span<const std::byte> from_device, std::byte* to_device, Copied done) override {
    begin({Way::Move, from_device.data(), to_device, from_device.size(), {}, std::move(done)});
  }
  void pin(std::span<std::byte> host) override {
    const std::lock_guard lock(mutex_);
    pinned_ += host.size();
  }
  void unpin(std::span<std::byte> host) override {
    const std::lock_guard lock(mutex_);
    pinned_ -= host.size();
  }
  std::byte* allocate(std::size_t bytes) override {
    const std::lock_guard lock(mutex_);
    if (full_) return nullptr;
    void* const memory = ::mmap(nullptr, std::max<std::size_t>(bytes, 1), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::runtime_error("no memory for a fake device");
    regions_.emplace(static_cast<std::byte*>(memory), std::max<std::size_t>(bytes, 1));
    return static_cast<std::byte*>(memory);
  }
  void release(std::byte* device) override {
    const std::lock_guard lock(mutex_);
    const auto region = regions_.find(device);
    ::munmap(region->first, region->second);
    regions_.erase(region);
  }

  /// Copies of this way begin, and do not end.
  void hold(Way way, bool held = true) {
    {
      const std::lock_guard lock(mutex_);
      held_[index(way)] = held;
    }
    changed_.notify_all();
  }
  /// The copy of this way that is begun after so many others from now on fails.
  void fail_after(Way way, std::size_t copies) {
    const std::lock_guard lock(mutex_);
    fails_at_[index(way)] = counts_[index(way)].begun + copies;
  }
  /// Nothing more can be allocated.
  void fill() {
    const std::lock_guard lock(mutex_);
    full_ = true;
  }
  /// Ends any one of those of this way that are under way. False when there is none.
  bool end_one(Way way) {
    std::unique_lock lock(mutex_);
    const auto found = std::ranges::find(copies_, way, &Copy::way);
    if (found == copies_.end()) return false;
    end(static_cast<std::size_t>(found - copies_.begin()), lock);
    return true;
  }
  [[nodiscard]] Counts counts() const {
    const std::lock_guard lock(mutex_);
    return counts_;
  }
  [[nodiscard]] Count count(Way way) const { return counts()[index(way)]; }
  [[nodiscard]] bool idle() const {
    return std::ranges::all_of(counts(), [](const Count& each) { return each.begun == each.ended; });
  }
  /// Whether a copy is under way whose device side lies in this tensor.
  [[nodiscard]] bool touches(std::span<const std::byte> device) const {
    const std::lock_guard lock(mutex_);
    const auto inside = [&](const std::byte* each) { return each >= device.data() && each < device.data() + device.size(); };
    return std::ranges::any_of(copies_, [&](const Copy& copy) { return inside(copy.from) || inside(copy.to); });
  }
  [[nodiscard]] std::size_t pinned_bytes() const {
    const std::lock_guard lock(mutex_);
    return pinned_;
  }
  template <class Condition>
  bool wait(Condition condition) const {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(20), [&] { return condition(counts_); });
  }

 private:
  struct Copy {
    Way way = Way::Fetch;
    const std::byte* from = nullptr;
    std::byte* to = nullptr;
    std::size_t bytes = 0;
    std::optional<std::string> fault;
    Copied done;
  };
  static std::size_t index(Way way) { return static_cast<std::size_t>(way); }

  void begin(Copy copy) {
    {
      const std::lock_guard lock(mutex_);
      auto& begun = counts_[index(copy.way)].begun;
      if (fails_at_[index(copy.way)] == begun) copy.fault = "the test says so";
      ++begun;
      copies_.push_back(std::move(copy));
    }
    changed_.notify_all();
  }

  /// The bytes are moved at the very end: whoever reads or changes the host's side before then is found out.
  void end(std::size_t at, std::unique_lock<std::mutex>& lock) {
    Copy copy = std::move(copies_[at]);
    if (!copy.fault) {
      open(copy.from, PROT_READ);
      open(copy.to, PROT_READ | PROT_WRITE);
      std::memcpy(copy.to, copy.from, copy.bytes);
      open(copy.from, PROT_NONE);
      open(copy.to, PROT_NONE);
    }
    copies_.erase(copies_.begin() + static_cast<std::ptrdiff_t>(at));
    ++counts_[index(copy.way)].ended;
    lock.unlock();
    changed_.notify_all();
    copy.done(std::move(copy.fault));
    copy.done = nullptr;
    lock.lock();
  }
  void open(const std::byte* address, int protection) {
    auto region = regions_.upper_bound(const_cast<std::byte*>(address));
    if (region == regions_.begin()) return;
    --region;
    if (address < region->first + region->second) ::mprotect(region->first, region->second, protection);
  }

  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      std::vector<std::size_t> free;
      for (std::size_t at = 0; at < copies_.size(); ++at)
        if (!held_[index(copies_[at].way)]) free.push_back(at);
      if (!free.empty()) end(free[random_() % free.size()], lock);
      else if (ended_) return;
      else changed_.wait(lock);
    }
  }

  mutable std::mutex mutex_;  ///< of all below
  mutable std::condition_variable changed_;
  std::map<std::byte*, std::size_t> regions_;
  std::vector<Copy> copies_;
  Counts counts_{};
  std::array<bool, 3> held_{};
  std::array<std::size_t, 3> fails_at_{SIZE_MAX, SIZE_MAX, SIZE_MAX};
  std::size_t pinned_ = 0;
  bool full_ = false;
  bool ended_ = false;
  std::mt19937_64 random_;
  std::thread thread_;
};

}  // namespace prime::test

// Owns DeviceTensor: bytes in the memory of any device, as tests put them there and get them back.
#pragma once

#include <future>
#include <memory>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "kernels/device_memory.hpp"

namespace prime::test {

class DeviceTensor {
 public:
  DeviceTensor(std::shared_ptr<kernels::DeviceMemory> memory, std::span<const std::byte> bytes)
      : memory_(std::move(memory)), size_(bytes.size()), data_(size_ == 0 ? nullptr : memory_->allocate(size_)) {
    if (size_ > 0) wait([&](auto done) { memory_->store(bytes, data_, std::move(done)); });
  }
  ~DeviceTensor() {
    if (data_ != nullptr) memory_->release(data_);
  }
  DeviceTensor(DeviceTensor&& other) noexcept
      : memory_(other.memory_), size_(std::exchange(other.size_, 0)), data_(std::exchange(other.data_, nullptr)) {}
  DeviceTensor& operator=(DeviceTensor&& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(size_, other.size_);
    std::swap(data_, other.data_);
    return *this;
  }

  [[nodiscard]] std::span<std::byte> span() const { return {data_, size_}; }
  [[nodiscard]] std::vector<std::byte> get() const {
    std::vector<std::byte> bytes(size_);
    if (size_ > 0) wait([&](auto done) { memory_->fetch(span(), bytes.data(), std::move(done)); });
    return bytes;
  }

 private:
  template <class Begin>
  static void wait(Begin begin) {
    std::promise<std::optional<std::string>> ended;
    begin([&](std::optional<std::string> fault) { ended.set_value(std::move(fault)); });
    if (const auto fault = ended.get_future().get()) throw std::runtime_error(*fault);
  }

  std::shared_ptr<kernels::DeviceMemory> memory_;
  std::size_t size_;
  std::byte* data_;
};

}  // namespace prime::test

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/cuda_memory.hpp"
#include "kernels/launch.cuh"

namespace prime::kernels::cuda {
namespace {

// Copies of one direction in the order in which they were begun, and the thread that waits for them. It owns its part of this: the last
// who drops the memory may be whom this very thread tells of a copy.
class CopyQueue {
 public:
  explicit CopyQueue(int device) : state_(std::make_shared<State>()) {
    state_->device = device;
    error_ = cudaStreamCreateWithFlags(&state_->stream, cudaStreamNonBlocking);
    thread_ = std::thread([state = state_] { state->run(); });
  }
  ~CopyQueue() {
    {
      const std::lock_guard lock(state_->mutex);
      state_->ended = true;
    }
    state_->changed.notify_one();
    if (thread_.get_id() == std::this_thread::get_id()) thread_.detach();
    else thread_.join();
  }
  CopyQueue(const CopyQueue&) = delete;
  CopyQueue& operator=(const CopyQueue&) = delete;

  cudaError_t error() const { return error_; }
  cudaStream_t stream() const { return state_->stream; }
  void copy(std::byte* to, std::span<const std::byte> from, cudaMemcpyKind kind, DeviceMemory::Copied done) {
    {
      const std::lock_guard lock(state_->mutex);
      state_->begin(to, from, kind, std::move(done));
    }
    state_->changed.notify_one();
  }

 private:
  struct Copy {
    cudaEvent_t end = nullptr;
    cudaError_t error = cudaSuccess;
    DeviceMemory::Copied done;
  };
  struct State {
    ~State() {
      for (const auto event : idle_events) static_cast<void>(cudaEventDestroy(event));
      if (stream != nullptr) static_cast<void>(cudaStreamDestroy(stream));
    }
    void begin(std::byte* to, std::span<const std::byte> from, cudaMemcpyKind kind, DeviceMemory::Copied done) {
      Copy copy{nullptr, cudaSetDevice(device), std::move(done)};
      if (copy.error == cudaSuccess && !idle_events.empty()) {
        copy.end = idle_events.back();
        idle_events.pop_back();
      } else if (copy.error == cudaSuccess) {
        copy.error = cudaEventCreateWithFlags(&copy.end, cudaEventDisableTiming | cudaEventBlockingSync);
      }
      if (copy.error == cudaSuccess) copy.error = cudaMemcpyAsync(to, from.data(), from.size(), kind, stream);
      if (copy.error == cudaSuccess) copy.error = cudaEventRecord(copy.end, stream);
      // The copy may be under way though its end cannot be seen.
      if (copy.error != cudaSuccess) static_cast<void>(cudaStreamSynchronize(stream));
      copies.push_back(std::move(copy));
    }
    void run() {
      static_cast<void>(cudaSetDevice(device));
      std::unique_lock lock(mutex);
      while (true) {
        changed.wait(lock, [&] { return ended || !copies.empty(); });
        if (copies.empty()) return;
        Copy copy = std::move(copies.front());
        copies.pop_front();
        lock.unlock();
        if (copy.error == cudaSuccess) copy.error = cudaEventSynchronize(copy.end);
        copy.done(fault_of(copy.error));
        copy.done = nullptr;
        lock.lock();
        if (copy.end != nullptr) idle_events.push_back(copy.end);
      }
    }

    int device = 0;
    cudaStream_t stream = nullptr;
    std::mutex mutex;  // of all below
    std::condition_variable changed;
    std::deque<Copy> copies;
    std::vector<cudaEvent_t> idle_events;
    bool ended = false;
  };

  std::shared_ptr<State> state_;
  cudaError_t error_ = cudaSuccess;
  std::thread thread_;
};

class CudaMemory final : public DeviceMemory {
 public:
  explicit CudaMemory(int device) : device_(device), out_(device), in_(device) {}
  cudaError_t error() const { return out_.error() != cudaSuccess ? out_.error() : in_.error(); }

  std::string name() const override { return "CUDA device " + std::to_string(device_); }
  void fetch(std::span<const std::byte> from_device, std::byte* to_host, Copied done) override {
    out_.copy(to_host, from_device, cudaMemcpyDeviceToHost, std::move(done));
  }
  void store(std::span<const std::byte> from_host, std::byte* to_device, Copied done) override {
    in_.copy(to_device, from_host, cudaMemcpyHostToDevice, std::move(done));
  }
  void move(std::span<const std::byte> from_device, std::byte* to_device, Copied done) override {
    in_.copy(to_device, from_device, cudaMemcpyDeviceToDevice, std::move(done));
  }
  // Memory that cannot be registered is copied all the same.
  void pin(std::span<std::byte> host) override {
    static_cast<void>(cudaSetDevice(device_));
    static_cast<void>(cudaHostRegister(host.data(), host.size(), cudaHostRegisterPortable));
    static_cast<void>(cudaGetLastError());
  }
  void unpin(std::span<std::byte> host) override {
    static_cast<void>(cudaHostUnregister(host.data()));
    static_cast<void>(cudaGetLastError());
  }
  // Of the stream that fills it.
  std::byte* allocate(std::size_t bytes) override {
    void* memory = nullptr;
    if (cudaSetDevice(device_) != cudaSuccess || cudaMallocAsync(&memory, bytes, in_.stream()) != cudaSuccess) memory = nullptr;
    static_cast<void>(cudaGetLastError());
    return static_cast<std::byte*>(memory);
  }
  void release(std::byte* device) override { static_cast<void>(cudaFreeAsync(device, in_.stream())); }

 private:
  int device_;
  CopyQueue out_;
  CopyQueue in_;
};

}  // namespace

std::shared_ptr<DeviceMemory> open_memory(int device, Fault& fault) {
  fault = fault_of(cudaSetDevice(device));
  if (fault) return nullptr;
  auto memory = std::make_shared<CudaMemory>(device);
  fault = fault_of(memory->error());
  return fault ? nullptr : memory;
}

}  // namespace prime::kernels::cuda

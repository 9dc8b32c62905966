// Owns the way to a GPU: the part of libtorch that works there is loaded only when one is asked for. It is a thousand times the size of
// ours, and no program that computes on the CPU should wait for it, or need the libraries that it stands on.
#include "runtime/trainer/device.hpp"

#include <charconv>
#include <dlfcn.h>
#include <filesystem>
#include <link.h>
#include <optional>

#include "runtime/trainer/torch_fence.hpp"

namespace prime::trainer {
namespace {

constexpr const char* DRIVER = "libcuda.so.1";
constexpr const char* CPU_PART = "libtorch_cpu.so";
constexpr const char* CUDA_PART = "libtorch_cuda.so";

std::string loader_error() {
  const char* text = ::dlerror();
  return text == nullptr ? "it cannot be loaded" : text;
}

/// Where the libtorch of this process lies; empty when that cannot be told.
std::filesystem::path libtorch_folder() {
  void* library = ::dlopen(CPU_PART, RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return {};
  link_map* place = nullptr;
  const bool found = ::dlinfo(library, RTLD_DI_LINKMAP, static_cast<void*>(&place)) == 0;
  std::filesystem::path folder = found ? std::filesystem::path{place->l_name}.parent_path() : std::filesystem::path{};
  ::dlclose(library);
  return folder;
}

/// What is in the way of any GPU, if anything is. Libraries that are loaded here stay.
std::optional<std::string> obstacle() {
  const auto part = libtorch_folder() / CUDA_PART;
  std::error_code ignored;
  if (!std::filesystem::exists(part, ignored))
    return std::string{"the libtorch "} + TORCH_VERSION + " of this build was made without CUDA: install one that has it (the wheel " +
           "torch from PyPI, say) and build with TORCH_PREFIX naming it";
  if (::dlopen(DRIVER, RTLD_NOW | RTLD_GLOBAL) == nullptr)
    return "this machine has no driver for CUDA devices (" + loader_error() + "): install NVIDIA's, or let the container see it";
  if (::dlopen(part.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr)
    return "the part of libtorch for CUDA cannot be loaded (" + loader_error() +
           "): install what it needs beside it, or name its folder in LD_LIBRARY_PATH";
  if (torch::cuda::device_count() == 0)
    return std::string{"the driver shows no CUDA device to this process: see `nvidia-smi` and CUDA_VISIBLE_DEVICES"};
  return std::nullopt;
}

/// 0 where there is no number.
int number_of(std::string_view wanted) {
  int number = 0;
  if (const auto colon = wanted.find(':'); colon != std::string_view::npos)
    std::from_chars(wanted.data() + colon + 1, wanted.data() + wanted.size(), number);
  return number;
}

}  // namespace

Result<ChosenDevice> choose_device(std::string_view wanted) {
  if (wanted == "cpu") return ChosenDevice{"cpu", {}};
  const bool any = wanted == "auto";
  if (auto problem = obstacle()) {
    if (any) return ChosenDevice{"cpu", *std::move(problem)};
    return fail(ErrorName::DeviceUnusable, "`" + std::string{wanted} + "`: " + *problem + "; or take `cpu` or `auto`");
  }
  const int number = number_of(wanted), count = torch::cuda::device_count();
  if (number >= count)
    return fail(ErrorName::DeviceUnusable,
                "`" + std::string{wanted} + "`: this process sees " + std::to_string(count) +
                    (count == 1 ? " CUDA device, `cuda:0`" : " CUDA devices, the last is `cuda:" + std::to_string(count - 1) + "`"));
  at::globalContext().setAllowTF32CuBLAS(false);
  at::globalContext().setAllowTF32CuDNN(false);
  return ChosenDevice{"cuda:" + std::to_string(number), {}};
}

std::string to_string(const ChosenDevice& chosen) { return chosen.name + (chosen.instead.empty() ? "" : ", since " + chosen.instead); }

}  // namespace prime::trainer

// Owns what a tensor of another library is to us: contiguous memory of one type, on the host or on a device. DLPack brings it, without a
// copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <span>
#include <string>
#include <vector>

#include "messages/data_types.hpp"
#include "messages/result.hpp"

namespace prime::python {

struct Tensor {
  nanobind::ndarray<> array;  ///< holds the memory
  DataType type = DataType::F32;
  std::span<std::byte> bytes;
  std::vector<std::int64_t> shape;
  bool on_host = true;
  std::uint32_t device = 0;  ///< of CUDA's

  [[nodiscard]] std::size_t size() const { return bytes.size() / element_bytes(type); }
};

/// What `object` holds, if it is a tensor of torch's or an array of numpy's, or anything else that speaks DLPack or has a buffer.
/// Raises Usage, with `what` in its text, for what is read-only, not contiguous, of another type, or lies elsewhere.
Tensor tensor_of(nanobind::handle object, const std::string& what);

}  // namespace prime::python

#include "python/src/memory.hpp"

#include <optional>

#include "python/src/errors.hpp"

namespace nb = nanobind;

namespace prime::python {
namespace {

std::optional<DataType> data_type_of(nb::dlpack::dtype type) {
  if (type.lanes != 1) return std::nullopt;
  const auto sized = [&](DataType one, DataType two, DataType four, DataType eight) -> std::optional<DataType> {
    switch (type.bits) {
      case 8: return one;
      case 16: return two;
      case 32: return four;
      case 64: return eight;
      default: return std::nullopt;
    }
  };
  using Code = nb::dlpack::dtype_code;
  const auto code = static_cast<Code>(type.code);
  if (code == Code::Int) return sized(DataType::I8, DataType::I16, DataType::I32, DataType::I64);
  if (code == Code::UInt) return sized(DataType::U8, DataType::U16, DataType::U32, DataType::U64);
  if (code == Code::Bfloat && type.bits == 16) return DataType::BF16;
  if (code == Code::Float && type.bits > 8) return sized(DataType::F16, DataType::F16, DataType::F32, DataType::F64);
  return std::nullopt;
}

bool contiguous(const nb::ndarray<>& array) {
  std::int64_t expected = 1;
  for (std::size_t i = array.ndim(); i-- > 0;) {
    if (array.shape(i) == 0) return true;
    if (array.shape(i) != 1 && array.stride(i) != expected) return false;
    expected *= static_cast<std::int64_t>(array.shape(i));
  }
  return true;
}

/// What an object gives of itself as DLPack; nothing where it cannot. nanobind asks by itself, but then what interrupts the object's own
/// code (Ctrl-C) counts as a refusal, and is lost.
nb::object exported(nb::handle object) {
  if (!nb::hasattr(object, "__dlpack__")) return {};
  try {
    return object.attr("__dlpack__")(nb::arg("max_version") = nb::make_tuple(1, 0));  // which says whether it may be written to
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_Exception)) throw;
    return {};
  }
}

}  // namespace

Tensor tensor_of(nb::handle object, const std::string& what) {
  Tensor tensor;
  const auto given = exported(object);
  if (!nb::try_cast(given.is_valid() ? nb::handle{given} : object, tensor.array))
    raise_usage(what + " is no tensor that can be written to: " + nb::cast<std::string>(nb::str(nb::type_name(object.type()))) +
                " gives no DLPack and no buffer, or one that is read-only");
  const auto type = data_type_of(tensor.array.dtype());
  if (!type) raise_usage(what + " is of a type that is not known here; possible are f32, f64, bf16, f16, i8 to i64, u8 to u64");
  if (!contiguous(tensor.array))
    raise_usage(what + " is not contiguous: its values must lie in the order of its shape; give `.contiguous()` of it");
  const auto device = tensor.array.device_type();
  const bool pinned = device == nb::device::cuda_host::value;
  tensor.on_host = device == nb::device::cpu::value || pinned;
  if (!tensor.on_host && device != nb::device::cuda::value)
    raise_usage(what + " lies on a device that is neither the CPU nor one of CUDA's");
  tensor.device = static_cast<std::uint32_t>(tensor.array.device_id());
  tensor.type = *type;
  tensor.bytes = {static_cast<std::byte*>(tensor.array.data()), tensor.array.size() * element_bytes(*type)};
  for (std::size_t i = 0; i < tensor.array.ndim(); ++i) tensor.shape.push_back(static_cast<std::int64_t>(tensor.array.shape(i)));
  return tensor;
}

}  // namespace prime::python

#include <cstring>

#include "kernels/reduce/typed_reduce_scalar.hpp"

namespace prime::kernels {
namespace {

struct ByElement {
  const TypedReduction& reduction;
  std::span<const TypedInput> inputs;
  std::span<std::byte> out;

  template <class Element, ReduceOperator OP>
  void operator()() const {
    for (std::size_t offset = 0; offset < out.size(); offset += sizeof(Element)) {
      auto gathered = neutral<Element, OP>();
      std::uint32_t ranks = 0;
      for (const auto& input : inputs) {
        if (input.weight == 0) continue;
        Element element;
        std::memcpy(&element, input.values + offset, sizeof(Element));
        gathered = ranks == 0 ? first_of<Element, OP>(element, input.weight) : joined<Element, OP>(gathered, element, input.weight);
        ++ranks;
      }
      const auto result = finished<Element, OP>(gathered, reduction.scale, ranks);
      std::memcpy(out.data() + offset, &result, sizeof(Element));
    }
  }
};

}  // namespace

void reduce_typed_reference(const TypedReduction& reduction, std::span<const TypedInput> inputs, std::span<std::byte> out) {
  with_type(reduction.type, reduction.op, ByElement{reduction, inputs, out});
}

}  // namespace prime::kernels

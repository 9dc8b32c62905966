// Owns what a trainer may bind, and where in a record each tensor lies. Both sides of the trainer socket compute the same.
//
// A record is what a trainer goes on from in its next life: its copied tensors and then its private ones, one after the other, each from a
// multiple of 64 bytes on; in a record within an outer step its averaged tensors follow, in the type that they are bound in.
#pragma once

#include <cstdint>
#include <vector>

#include "messages/data_types.hpp"
#include "messages/ids.hpp"
#include "messages/result.hpp"
#include "messages/tensor_shape.hpp"
#include "prime/session.hpp"
#include "runtime/session/layout.hpp"

namespace prime {

struct BoundTensor {
  TensorShape shape;
  DataType type = DataType::F32;
  Role role = Role::Averaged;
  friend bool operator==(const BoundTensor&, const BoundTensor&) = default;
};

/// LayoutUnusable for a type that a role does not take.
Result<void> check_type(const BoundTensor& tensor);
/// Names and shapes of those that are averaged, in order.
std::vector<TensorShape> averaged_of(const std::vector<BoundTensor>& bound);
/// Of the averaged tensors; its digest covers what the copied ones are. Refuses what `make_layout` refuses, and a name of a copied tensor
/// that another tensor has, whatever that is.
Result<Layout> make_bound_layout(const std::vector<BoundTensor>& bound, const Division& division = {});

struct RecordLayout {
  struct Place {
    std::size_t tensor = 0;  ///< of those that are bound
    std::uint64_t offset_bytes = 0;
    std::uint64_t bytes = 0;
  };
  std::vector<Place> copied;
  std::vector<Place> privates;
  std::vector<Place> locals;       ///< of the averaged tensors; empty where records are made at publications alone
  std::uint64_t copied_bytes = 0;  ///< with which it begins
  std::uint64_t bytes = 0;         ///< 0: there is nothing to record
  Digest digest;                   ///< of names, types and shapes of the copied and private tensors

  /// What each record has.
  [[nodiscard]] std::vector<Place> kept() const;
};

/// Refuses private tensors that are too many, too large in all, of equal names, or not allowed (LayoutUnusable).
Result<RecordLayout> make_record_layout(const std::vector<BoundTensor>& bound, bool with_locals, const ModelLimits& limits = MODEL_LIMITS);

}  // namespace prime

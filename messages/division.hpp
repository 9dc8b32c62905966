// Owns the rule by which a state is divided into fragments, each with versions of its own (Streaming DiLoCo, arXiv:2501.18512,
// section 3.1). Every peer computes the same division from the manifest and the names and sizes of the tensors.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "messages/result.hpp"
#include "messages/tensor_shape.hpp"

namespace prime {

inline constexpr std::uint32_t MAX_FRAGMENTS = 64;

enum class FragmentPattern : std::uint8_t {
  Strided,     ///< layer l lies in fragment l mod P
  Sequential,  ///< neighbouring layers lie together
  Balanced,    ///< fragments are as equal in size as whole tensors allow, whatever layers they are of
};
std::string_view to_string(FragmentPattern pattern);
std::optional<FragmentPattern> parse_pattern(std::string_view text);

/// When in an outer step its fragments are published.
enum class Offsets : std::uint8_t {
  End,     ///< all after its last inner step
  Spread,  ///< one after the other, as far apart as the inner steps allow; the last after the last
};
/// After how many inner steps each fragment is published, ascending.
[[nodiscard]] std::vector<std::uint32_t> publication_steps(Offsets offsets, std::uint32_t fragments, std::uint32_t inner_steps);

/// How the contributions to an outer step become one.
enum class Merge : std::uint8_t {
  Mean,    ///< by their weights
  Radial,  ///< of the tensors of layers, direction and length are averaged apart (kernels/merge)
};
/// Which tensors `Radial` is for: those of layers, as `divide` knows them, and all where there are no layers. Embeddings and heads, whose
/// rows are each trained by other samples, are averaged.
[[nodiscard]] std::vector<bool> merged_radially(const std::vector<TensorShape>& tensors);

struct Division {
  std::uint32_t count = 1;
  FragmentPattern pattern = FragmentPattern::Strided;
  friend bool operator==(const Division&, const Division&) = default;
};

/// The fragment of each tensor; tensors are never cut. `counts` are the tensors' sizes in values. A tensor's layer is the first number in
/// its name that stands between dots ("layers.3.wq"). Tensors of no layer, as embeddings and heads, go to the smallest fragments, the
/// largest of them first; so does everything where there are fewer layers than fragments. Refuses more fragments than tensors
/// (LayoutUnusable).
Result<std::vector<std::uint32_t>> divide(const std::vector<TensorShape>& tensors, const std::vector<std::uint64_t>& counts,
                                          const Division& division);

}  // namespace prime

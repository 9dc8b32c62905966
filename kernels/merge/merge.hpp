// Owns the radial-directional merge of pseudo-gradients (Decoupled DiLoCo, arXiv:2604.21428, section on merging; with one length for a
// whole tensor). Pseudo-gradients of peers that trained apart are nearly orthogonal, so that their plain mean is shorter by √M, and the
// outer learning rate would have to change with the number of peers M. Here direction and length are averaged apart:
//   u = Σ w Δ/‖Δ‖ / Σ w,   r = Σ w ‖Δ‖ / Σ w,   merged = r u/‖u‖.
#pragma once

#include <cstddef>
#include <span>

namespace prime::kernels {

/// The Euclidean length ‖x‖. All implementations sum the squares alike, in double, in 16 sums side by side that are added in order: equal
/// bits on every machine. Not finite only where a value is not.
double length_reference(std::span<const float> x);
double length(std::span<const float> x);

/// x ← x · factor, multiplied in double and rounded once.
void scale_reference(std::span<float> x, double factor);
void scale(std::span<float> x, double factor);

/// What the mean of unit vectors, of length `unit`, is multiplied by: `radius` / `unit`, but at most `radius` √`contributors`, what
/// orthogonal contributions need. Those that nearly cancel have no direction to speak of, which would be blown up without that limit. 0 for
/// no length.
double radial_factor(double radius, double unit, std::size_t contributors);

}  // namespace prime::kernels

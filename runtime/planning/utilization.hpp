// Owns how much of its time a peer computes, over a link of a given rate: a simulation of one compute engine and one link, event by event,
// as in Streaming DiLoCo (arXiv:2501.18512, table 4).
#pragma once

#include <cstdint>
#include <vector>

#include "messages/division.hpp"

namespace prime::planning {

/// What a peer sends at once, and when. Layers are numbered from 0, in the order of the forward pass.
struct Exchange {
  std::uint32_t due = 0;           ///< inner step of the period in which its input is made, from 0
  std::uint32_t after_layer = 0;   ///< whose backward pass makes it
  std::uint32_t before_layer = 0;  ///< whose forward pass waits for the result
  std::uint32_t delay = 1;         ///< inner steps from `due` to that forward pass, 1 or more
  double bits = 0;                 ///< that cross the link
};

/// Inner steps that follow one another, of which every `period`-th is like the first. A step is the forward pass of all layers, then the
/// backward pass from the last to the first: the gradient of a layer's input, then that of its parameters. All of these take equally long;
/// the first layer has no gradient of its input.
struct Pattern {
  std::uint32_t layers = 1;
  double step_s = 1;  ///< of computing
  std::uint32_t period = 1;
  std::vector<Exchange> exchanges;
};

/// What the patterns below divide among layers: all have as much of it.
struct EvenModel {
  std::uint32_t layers = 1;
  double step_s = 1;
  double bits = 0;  ///< that a peer sends when the whole model is exchanged once
};

/// After every step, layer by layer as the backward pass has made its gradients.
Pattern data_parallel(const EvenModel& model);
/// After every `inner_steps`-th step, layer by layer; the next step waits for each layer before it is used.
Pattern diloco(const EvenModel& model, std::uint32_t inner_steps);
/// Of one fragment or more, fragment p, of the layers l ≡ p (mod `fragments`), after the steps t ≡ round(p·H/P) (mod H); its result is
/// waited for `overlap` steps later than with `diloco` (arXiv:2501.18512, algorithm 2).
Pattern streaming(const EvenModel& model, std::uint32_t inner_steps, std::uint32_t fragments, std::uint32_t overlap);
/// As a run does it: after the last of `inner_steps` the fragments are exchanged, and the trainer waits for all of them before it goes on,
/// or `overlap` inner steps later. Those in flight share the link: for what they take together they may be taken to come one after the
/// other.
Pattern outer_rounds(double step_s, std::uint32_t inner_steps, const std::vector<double>& fragment_bits, std::uint32_t overlap = 0,
                     Offsets offsets = Offsets::End);

/// The share of its time that the engine computes, in the long run, 0 … 1. The link carries one exchange at a time, first come, first
/// served, and has no latency. `link_bits_per_s` > 0.
double compute_utilization(const Pattern& pattern, double link_bits_per_s);
/// The slowest link with at least this utilisation, 0 < `utilization` < 1, in bits per second, to a thousandth; 0 where nothing is
/// exchanged.
double link_for(const Pattern& pattern, double utilization);

}  // namespace prime::planning

// Owns how a row of the field table is written, for the files that the table is made of.
#pragma once

#include <limits>
#include <vector>

#include "runtime/manifest/fields.hpp"

// The structs hold the defaults; a slot is only the way to a value.
#define AT(member) [](auto& m) { return &m.member; }
#define CHOICE(member, ...)                                                                       \
  Choice {                                                                                        \
    {__VA_ARGS__}, [](const Manifest& m) { return static_cast<std::size_t>(m.member); },          \
        [](Manifest& m, std::size_t index) { m.member = static_cast<decltype(m.member)>(index); } \
  }

namespace prime::manifest {

inline constexpr std::uint32_t MANY = 1'000'000'000;
inline constexpr std::uint32_t ANY = std::numeric_limits<std::uint32_t>::max();
inline constexpr Duration HOUR = 60min;
inline constexpr Interval FRACTION{.minimum = 0, .maximum = 1};
inline constexpr Interval BELOW_ONE{.minimum = 0, .maximum = 1, .below = true};
constexpr Interval up_to(double maximum) { return {.minimum = 0, .maximum = maximum, .above = true}; }

void add_data(std::vector<Field>& table);
void add_train(std::vector<Field>& table);

}  // namespace prime::manifest

// Owns reading of JSON that a stranger may have written: bounded, and with one meaning.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

namespace prime::store {

/// What a text may hold at most. A value in memory takes 16 bytes or more, whatever it takes in the text.
struct JsonLimits {
  std::size_t depth = 16;        ///< objects and arrays inside each other
  std::size_t values = 4 << 20;  ///< of all kinds, keys not counted
};

/// Or what is wrong, for people: the text is no JSON (and from which byte on), exceeds the limits, or names a key twice in one object,
/// which parsers take silently. Stops at the first thing that is wrong, and takes no memory for values before all has been seen.
tl::expected<nlohmann::json, std::string> parse_strictly(std::string_view text, const JsonLimits& limits = {});

}  // namespace prime::store

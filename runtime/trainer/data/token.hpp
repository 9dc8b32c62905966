// Owns the type of a token: what stands between data, which makes them, and a model, which learns them.
#pragma once

#include <cstdint>

namespace prime::data {

using Token = std::uint32_t;

/// Ids of the tokenizer `bytes`: one for each value, and one behind them that ends a document, where the model's vocabulary has room.
inline constexpr Token BYTE_VALUES = 256;

}  // namespace prime::data

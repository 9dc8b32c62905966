// Owns reading tokens that somebody else made: our own shards, those of llm.c (a header of 256 numbers), and bare numbers of 16 or 32 bits
// (nanoGPT). Documents end with the tokenizer's token for that, where it has one.
#pragma once

#include <functional>
#include <optional>

#include "runtime/trainer/data/source.hpp"
#include "runtime/trainer/data/tokenizer.hpp"

namespace prime::data {

/// Hears a stretch of tokens, and whether a document ends with it.
using TokensHeard = std::function<Result<void>(std::span<const Token> tokens, bool ends)>;

/// DataUnreadable with the path where the file is not what it says. The last document ends with the file.
Result<void> read_token_file(const std::string& path, DataFormat format, std::optional<Token> end_of_document, const TokensHeard& heard);

/// Bytes of a token in such a file: 1, 2 or 4.
Result<std::uint32_t> token_bytes_of(const std::string& path, DataFormat format);

}  // namespace prime::data

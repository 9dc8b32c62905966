// Owns a joiner's fetch of a state: which chunk is asked for, what is believed, when it begins again, when it is done. Pure.
//
// With each chunk comes its digest, by which it is checked as it arrives; the whole is checked against the digest that the coordinator
// named before it is used. A broken connection resumes at the first chunk that is missing.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "messages/ids.hpp"
#include "messages/result.hpp"

namespace prime::checkpoint_server {

/// Broken connections are resumed this often in a row without a new chunk.
inline constexpr std::uint32_t MAX_RESUMES = 3;

struct State {
  Revision revision;
  std::uint64_t expected_bytes = 0;  ///< of the own layout
  std::size_t chunks = 0;            ///< of the own layout
  std::size_t next = 0;              ///< the first chunk that is missing
  std::uint32_t resumes = 0;
};

/// The donor's first answer.
struct Offered {
  Revision revision;
  std::uint64_t total_bytes = 0;
};
struct ChunkArrived {
  std::size_t index = 0;
  bool whole = false;  ///< its bytes have the digest that came with it
};
struct Broken {
  Error error;
};
using Event = std::variant<Offered, ChunkArrived, Broken>;

/// Ask the donor for all chunks from this one on.
struct Ask {
  std::size_t first = 0;
};
/// Connect anew; the donor will offer again.
struct Reconnect {};
struct Done {};
struct Fail {
  Error error;
};
/// Keep reading.
struct Continue {};
using Effect = std::variant<Ask, Reconnect, Done, Fail, Continue>;

struct Transition {
  State state;
  Effect effect;
  std::string reason;
};

[[nodiscard]] Transition step(State state, const Event& event);

}  // namespace prime::checkpoint_server

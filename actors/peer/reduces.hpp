// Owns the operations that a peer has in hand: it reduces, votes, and applies what was committed and nothing else.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "actors/peer/part.hpp"

namespace prime::peer {

class Reduces : Part {
 public:
  using Part::Part;

  std::string start(const StartReduce& m);
  std::string ended(const ReduceEnded& event);
  std::string abort(const Abort& m);
  std::string commit(const Commit& m);
  /// At a tick: who has voted and heard nothing asks.
  std::string doubt();

 private:
  /// Of two steps it is the earlier one's: the other is kept back until then.
  void work_is_in(std::uint32_t fragment);
  [[nodiscard]] std::vector<InHand>::iterator find(const OperationId& op);
  [[nodiscard]] std::uint64_t own_weight(const StartReduce& m) const;
};

}  // namespace prime::peer

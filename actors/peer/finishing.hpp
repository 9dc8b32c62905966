// Owns a peer's part in the end of the run: its share of the final evaluation, and the final state on its disk.
#pragma once

#include <string>

#include "actors/peer/part.hpp"

namespace prime::peer {

class Finishing : Part {
 public:
  using Part::Part;

  std::string done(const RunDone& m);
  void evaluate();
  /// The coordinator's dismissal is the proof that it has arrived.
  std::string report(FinalReport report);

 private:
  /// The finalist's first duty: a trained state is nowhere but in memory until then.
  std::string save_final();
};

}  // namespace prime::peer

// Owns a peer's work: the step that it is told, what its trainer makes of that, and what the coordinator hears of it.
#pragma once

#include <string>

#include "actors/peer/part.hpp"

namespace prime::peer {

class Work : Part {
 public:
  using Part::Part;

  std::string begin(const BeginStep& m);
  /// A trainer that is being started again has made nothing yet.
  std::string asked(const PublishNow& m);
  std::string contributed(const TrainerContributed& event);
  std::string used_lease();
  std::string trainer_restarting(const TrainerRestarting& event);
  /// Its inner steps are under way, whatever the others do meanwhile.
  [[nodiscard]] bool trains() const;

 private:
  /// As one with the other trainers of its replica, of what not all of them have brought. One that is being started already begins with
  /// this attempt.
  std::string begin_anew();
  /// Its trainer, if it has one.
  std::string start_over();
  /// It stays there to be told again until the fragment is committed, with it or without.
  std::string published(const TrainerContributed& event);
  /// Of these fragments; what it has told of others is of this attempt, too.
  void forget_told(const Fragments& fragments);
  /// The others of its replica begin anew with its trainer.
  void note_restarted();
  void tell_restarted();
  void tell_ready(prime::Ready ready);
  [[nodiscard]] bool has_told_all() const;
};

}  // namespace prime::peer

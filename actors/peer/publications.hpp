// Owns what a trainer has published: what waits until its values may be taken, in order, and what no committed version has yet. What is
// published next must not take the place of that. Pure.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "actors/peer/peer_machine.hpp"
#include "actors/peer/trainer_records.hpp"

namespace prime::trainer_life {

/// What a trainer has made of some fragments.
struct Publication {
  peer::TrainerContributed work;
  std::uint32_t diverged_at = 0;  ///< the first inner step, from 1 on, whose loss was not finite; 0: none was
  std::optional<Record> record = {};
};

struct Published {
  std::deque<Publication> waiting;      ///< whose values are yet to be taken
  bool taking = false;                  ///< those of the first
  std::set<std::uint32_t> of_step;      ///< fragments of the step that it was told last, by whichever life, or of which it wants nothing
  std::set<std::uint32_t> owed;         ///< fragments whose committed versions lack what this life has contributed
  std::set<std::uint32_t> uncommitted;  ///< the same, whichever life did
  // Of `decoupled`:
  std::map<std::uint32_t, OuterStep> versions;  ///< that were committed last, of fragments of which there was a commit
  bool in_vain = false;                         ///< the version that the first is for was committed while that was taken
  bool lease_used = false;                      ///< to be reported once what was published before is
};

/// Of a trainer whose state has so many fragments. `decoupled`: what it publishes names the version that it is for, and is void once that
/// is committed without it.
class Publications {
 public:
  struct Taken {
    Publication publication;
    bool in_vain = false;  ///< its version is committed without it
  };

  Publications(std::uint32_t fragments, bool decoupled, Published& published)
      : fragments_(fragments), decoupled_(decoupled), p_(published) {}

  /// What waits goes with the life that published it; what was taken does not.
  void end_life();
  /// Another step, or, `anew`, the same: its replica begins together what not all of its peers have brought. What is uncommitted is
  /// committed, or void: but for a step that is reduced beside this one, and for what the replica does not make anew.
  void begin_step(const BeginStep& begin, bool anew);

  /// Lets it wait; or why it does not count.
  std::optional<std::string> add(Publication publication);
  /// The first of what waits is to be taken, of these fragments; nothing as long as it would take the place of something uncommitted.
  std::optional<Fragments> take_next();
  /// The first was taken; nothing where its life is over.
  std::optional<Taken> taken();
  /// What was taken is on its way to the others.
  void contributed(const Fragments& fragments);
  /// A version of the fragment; whether it is the first since this life has contributed to it.
  bool committed(std::uint32_t fragment);
  /// Whoever contributed: its trainer takes the fragment over, and what it may have made for that version is void.
  void committed(std::uint32_t fragment, OuterStep version);

  void use_lease() { p_.lease_used = true; }
  /// Once, when what was published before it is reported: that work is on those samples.
  bool has_used_lease();
  /// Whether nothing of the step is left to be published; to be taken.
  [[nodiscard]] bool has_all() const;
  [[nodiscard]] bool has_taken_all() const { return p_.of_step.size() == fragments_; }

 private:
  template <class Action>
  void for_each(const Fragments& fragments, Action action) const {
    for (std::uint32_t fragment = 0; fragment < fragments_; ++fragment)
      if (covers(fragments, fragment)) action(fragment);
  }

  std::uint32_t fragments_;
  bool decoupled_;
  Published& p_;
};

}  // namespace prime::trainer_life
